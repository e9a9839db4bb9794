package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// SysctlKey is the sysctl of a pattern for a link.
func SysctlKey(pattern, link string) string { return strings.Replace(pattern, "%", link, 1) }

// ObserveHost reads links, addresses, routes and sysctls; pods' links are left out.
func (h *Host) ObserveHost(st *State) error {
	links, err := h.Deps.Netns.Links()
	if err != nil {
		return err
	}
	all, err := h.Deps.Netns.AllAddrs() // one request, where a host with VFs has hundreds of links
	if err != nil {
		return err
	}
	st.Links, st.Addrs = map[string]netdev.Link{}, map[string][]netip.Prefix{}
	st.Masquerade, st.LinkLocal = map[string][]netip.Prefix{}, map[string][]netip.Prefix{}
	for _, l := range links {
		if podLink(l) {
			continue
		}
		st.Links[l.Name] = l
		for _, addr := range all[l.Index] {
			switch {
			case h.Config.IsMasquerade(addr.Addr()):
				st.Masquerade[l.Name] = append(st.Masquerade[l.Name], addr)
			case addr.Addr().IsGlobalUnicast():
				st.Addrs[l.Name] = append(st.Addrs[l.Name], addr)
			case addr.Addr().Is4() && addr.Addr().IsLinkLocalUnicast():
				st.LinkLocal[l.Name] = append(st.LinkLocal[l.Name], addr)
			}
		}
	}
	conflicts := h.Config.Conflicts(*st)
	h.conflicts.Store(&conflicts)
	routes, err := h.Deps.Netns.Routes("")
	if err != nil {
		return err
	}
	st.Routes = slices.DeleteFunc(routes, func(r netdev.Route) bool { return r.Protocol == ProtocolKernel })
	st.Sysctls = map[string]string{}
	for name := range st.Links {
		for _, pattern := range []string{RPFilter, ARPIgnore, Forwarding, DisableIPv6, DADTransmits, AcceptRA, Autoconf} {
			key := SysctlKey(pattern, name)
			if value, err := h.Deps.Netns.SysctlValue(key); err == nil {
				st.Sysctls[key] = value
			}
		}
	}
	return nil
}

// podLink is left out: a pass must not cost more with each pod.
func podLink(l netdev.Link) bool { return l.Type == "veth" && l.Alias != "" }

// ObserveNode reads the node's subnets from its annotation.
func (h *Host) ObserveNode(st *State) (err error) {
	node := h.Deps.Node()
	if node == nil {
		return nil
	}
	st.Subnets, err = contract.ParseNodeSubnets(node.Annotations[contract.NodeSubnetsKey], h.Config.Network.Key())
	if err != nil {
		return fmt.Errorf("annotation %s: %w", contract.NodeSubnetsKey, err)
	}
	st.Namespaces, err = contract.ParseNamespaceSubnets(node.Annotations[contract.NodeNamespaceSubnetsKey])
	if err != nil {
		return fmt.Errorf("annotation %s: %w", contract.NodeNamespaceSubnetsKey, err)
	}
	return nil
}

// ObserveRows reads which ports the database has for these owners.
func (h *Host) ObserveRows(st *State, owners ...contract.Owner) {
	st.Ours = map[string]bool{}
	for _, owner := range owners {
		for _, row := range h.Deps.DB.Rows(owner.String()) {
			st.Ours[row.ID] = true
		}
	}
}

// InternalAddresses are those of a Node object.
func InternalAddresses(node *corev1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if addr, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, addr)
		}
	}
	return out
}
