package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

func sysctlKey(pattern, link string) string { return strings.Replace(pattern, "%", link, 1) }

// observe reads the host; the Node object and the database come from replicas
// in memory. Of the probes it asks only before a takeover.
func (m *machine) observe(ctx context.Context) (State, error) {
	var st State
	err := m.observeHost(&st)
	if err != nil {
		return st, fmt.Errorf("observing the host: %w", err)
	}
	if st.Saved, err = loadCheckpoint(m.cfg.Checkpoint); err != nil {
		return st, err
	}
	m.observeSwitch(&st)
	m.observePorts(&st)
	if err := m.observeNode(&st); err != nil {
		return st, err
	}
	if m.deps.Eswitch != nil {
		if st.Eswitch, err = m.deps.Eswitch(); err != nil {
			return st, err
		}
	}
	if st.Saved == nil {
		st.Reachable = m.reachable(ctx)
	}
	return st, nil
}

func (m *machine) observeNode(st *State) (err error) {
	node := m.deps.Node()
	if node == nil {
		return nil
	}
	st.Known = addressesOf(node)
	st.Subnets, err = contract.ParseNodeSubnets(node.Annotations[contract.NodeSubnetsKey], m.cfg.Network.Key())
	if err != nil {
		return fmt.Errorf("annotation %s: %w", contract.NodeSubnetsKey, err)
	}
	return nil
}

func (m *machine) observeHost(st *State) error {
	links, err := m.deps.Host.Links()
	if err != nil {
		return err
	}
	st.Links, st.Addrs = map[string]netdev.Link{}, map[string][]netip.Prefix{}
	st.Masquerade = map[string][]netip.Prefix{}
	for _, l := range links {
		if podLink(l) {
			continue
		}
		addrs, err := m.deps.Host.Addrs(l.Name)
		if errors.Is(err, netdev.ErrNotFound) {
			continue // gone since
		}
		if err != nil {
			return err
		}
		st.Links[l.Name] = l
		for _, addr := range addrs {
			switch {
			case m.cfg.masquerade(addr.Addr()):
				st.Masquerade[l.Name] = append(st.Masquerade[l.Name], addr)
			case addr.Addr().IsGlobalUnicast():
				st.Addrs[l.Name] = append(st.Addrs[l.Name], addr)
			}
		}
	}
	routes, err := m.deps.Host.Routes("")
	if err != nil {
		return err
	}
	st.Routes = slices.DeleteFunc(routes, func(r netdev.Route) bool { return r.Protocol == protocolKernel })
	st.Sysctls = map[string]string{}
	for name := range st.Links {
		for _, pattern := range []string{rpFilter, arpIgnore, forwarding, disableIPv6, dadTransmits, acceptRA} {
			key := sysctlKey(pattern, name)
			if value, err := m.deps.Host.SysctlValue(key); err == nil {
				st.Sysctls[key] = value
			}
		}
	}
	return nil
}

// podLink is left out: a pass must not cost more with each pod.
func podLink(l netdev.Link) bool { return l.Type == "veth" && l.Alias != "" }

func (m *machine) observeSwitch(st *State) {
	for _, row := range m.deps.DB.Table(vswitch.OpenvSwitchTable) {
		if ovs, ok := row.(*vswitch.OpenvSwitch); ok {
			st.Settings = ovs.ExternalIDs
			st.Blind = ovs.OtherConfig["hw-offload"] == "true" || ovs.OtherConfig["userspace-tso-enable"] == "true"
		}
	}
	st.Uplinks = map[string]string{}
	for _, row := range m.deps.DB.Table(vswitch.BridgeTable) {
		bridge, ok := row.(*vswitch.Bridge)
		if !ok {
			continue
		}
		st.Bridges = append(st.Bridges, bridge.Name)
		st.Uplinks[bridge.Name] = bridge.ExternalIDs[uplinkKey]
	}
	st.OFPorts = map[string]int{}
	for _, row := range m.deps.DB.Table(vswitch.InterfaceTable) {
		iface, ok := row.(*vswitch.Interface)
		if ok && iface.Ofport != nil && *iface.Ofport > 0 && !ofPod(iface) {
			st.OFPorts[iface.Name] = *iface.Ofport
		}
	}
	st.Ours = map[string]bool{}
	for _, owner := range []contract.Owner{gatewayOwner(m.cfg), managementOwner(m.cfg)} {
		for _, row := range m.deps.DB.Rows(owner.String()) {
			st.Ours[row.ID] = true
		}
	}
}

func (m *machine) observePorts(st *State) {
	st.Ports = map[string]string{}
	for bridge, members := range m.deps.DB.Members(vswitch.BridgeTable, "ports") {
		for _, member := range members {
			if port, ok := member.(*vswitch.Port); ok {
				st.Ports[port.Name] = bridge
			}
		}
	}
}

func ofPod(iface *vswitch.Interface) bool {
	owner, err := contract.ParseOwner(iface.ExternalIDs[ovsdb.OwnerKey])
	return err == nil && owner.Kind == contract.KindPod
}

func addressesOf(node *corev1.Node) []netip.Addr {
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
