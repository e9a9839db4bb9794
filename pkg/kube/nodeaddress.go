package kube

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// StatusAddresses are those by which Kubernetes knows a node.
func StatusAddresses(node *corev1.Node) []netip.Addr {
	if node == nil {
		return nil
	}
	var texts []string
	for _, address := range node.Status.Addresses {
		texts = append(texts, address.Address)
	}
	return parseAll(texts)
}

// parseAll leaves out what is no address.
func parseAll(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// keysOf are unique for each address: as text, one of IPv6 has several forms.
func keysOf(addrs []netip.Addr) []string {
	var out []string
	for _, addr := range addrs {
		out = append(out, addr.String())
	}
	return out
}

// claimedAddresses has one address of each family of a node's GatewayConfigKey: the
// first that the Node's status has, or else the first. None while the annotation cannot
// be read, which is its reader's to report.
func claimedAddresses(node *corev1.Node) []netip.Addr {
	gateway, err := contract.ParseGatewayConfig(nodeFact(node, contract.GatewayConfigKey), contract.DefaultNetwork)
	if err != nil || gateway == nil {
		return nil
	}
	known := StatusAddresses(node)
	var out []netip.Addr
	for _, prefix := range gateway.Addresses {
		addr := prefix.Addr()
		i := slices.IndexFunc(out, func(other netip.Addr) bool { return contract.FamilyOf(other) == contract.FamilyOf(addr) })
		switch {
		case i < 0:
			out = append(out, addr)
		case !slices.Contains(known, out[i]) && slices.Contains(known, addr):
			out[i] = addr
		}
	}
	return out
}

// GatewayAddresses are those at which services answer on a node: one of each family.
// Its gateway may be on another NIC than the address of its status. But the annotation
// is the agent's word alone, and services on all nodes depend on it: so an address that
// the status of another Node has is not this node's.
func (v *View) GatewayAddresses(node *corev1.Node) []netip.Addr {
	return slices.DeleteFunc(claimedAddresses(node), func(addr netip.Addr) bool { return !v.holds(node, addr) })
}

// holds says that an address that a node claims is not another node's. On a host with a
// DPU the addresses are the DPU's, which may be a Node of its own.
func (v *View) holds(node *corev1.Node, addr netip.Addr) bool {
	if IsDPUHost(node) || slices.Contains(StatusAddresses(node), addr) {
		return true
	}
	// The only error is an index that does not exist.
	known, _ := v.nodes.GetIndexer().IndexKeys(byStatus, addr.String())
	return node != nil && len(known) == 0
}

// claimants are the nodes that claim an address.
func (v *View) claimants(addr netip.Addr) []string {
	// The only error is an index that does not exist.
	found, _ := v.nodes.GetIndexer().IndexKeys(byClaim, addr.String())
	return found
}

// nodesAt are the nodes whose gateways have an address, by its text.
func (v *View) nodesAt(text string) []string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(v.claimants(addr), func(name string) bool { return !v.holds(v.Node(name), addr) })
}

func (v *View) isNodeAddress(text string) bool { return len(v.nodesAt(text)) > 0 }

// fewNodes is the number of nodes up to which a node port with affinity has a
// frontend for each of them: these are on every node.
const fewNodes = 32

// NodeAddresses are those of all nodes in a family, in no order; none, and false,
// where they are too many to be frontends of one service.
func (v *View) NodeAddresses(family contract.Family) ([]netip.Addr, bool) {
	v.gateways.mu.RLock()
	crowded := v.gateways.crowded[family]
	v.gateways.mu.RUnlock()
	if crowded {
		return nil, false
	}
	// What came meanwhile is told after this.
	out, _ := v.addressesOfFew(family)
	return out, true
}

// addressesOfFew stops, with false, when they are more than of fewNodes.
func (v *View) addressesOfFew(family contract.Family) (out []netip.Addr, few bool) {
	for _, text := range v.nodes.GetIndexer().ListIndexFuncValues(byClaim) {
		addr, err := netip.ParseAddr(text)
		if err != nil || !family.Has(addr) || !v.isNodeAddress(text) {
			continue
		}
		if len(out) == fewNodes {
			return out, false
		}
		out = append(out, addr)
	}
	return out, true
}

// changedAddresses are those that a node claims since a change, or did before, and
// those of its status that came or went, if a node claims them.
func (v *View) changedAddresses(old, new *corev1.Node) []netip.Addr {
	claimed, claims := claimedAddresses(old), claimedAddresses(new)
	out := append(difference(claimed, claims), difference(claims, claimed)...)
	known, knows := StatusAddresses(old), StatusAddresses(new)
	for _, addr := range append(difference(known, knows), difference(knows, known)...) {
		if len(v.claimants(addr)) > 0 {
			out = append(out, addr)
		}
	}
	if IsDPUHost(old) != IsDPUHost(new) {
		out = append(out, claims...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// IsDPUHost says that a DPU is the network side of the Node.
func IsDPUHost(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	_, is := node.Labels[contract.DPUHostLabel]
	return is
}

// difference is some addresses without others.
func difference(some, others []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, addr := range some {
		if !slices.Contains(others, addr) {
			out = append(out, addr)
		}
	}
	return out
}

// HostAddresses are those by which a node is known: of its status, and those of its
// gateway at which services answer. They are sorted.
func HostAddresses(node *corev1.Node) []netip.Addr {
	out := append(StatusAddresses(node), claimedAddresses(node)...)
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// IsHostAddress says that a node is known by an address.
func (v *View) IsHostAddress(addr netip.Addr) bool {
	// The only error is an index that does not exist.
	known, _ := v.nodes.GetIndexer().IndexKeys(byStatus, addr.String())
	return len(known)+len(v.claimants(addr)) > 0
}

// choosers are the services whose authors have chosen an address that a node has got
// or lost, with the nodes' parts in them.
func (v *View) choosers(old, new *corev1.Node) []contract.Owner {
	had, has := HostAddresses(old), HostAddresses(new)
	var owners []contract.Owner
	for _, address := range append(difference(had, has), difference(has, had)...) {
		// The only error is an index that does not exist.
		found, _ := v.services.GetIndexer().ByIndex(byExternal, address.String())
		for _, service := range objects[corev1.Service](found) {
			owners = append(owners, v.serviceOwners(nil, service)...)
		}
	}
	return owners
}
