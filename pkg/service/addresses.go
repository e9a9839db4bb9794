package service

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// StatusAddresses are the addresses of a Node's status.
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
	if node == nil {
		return nil
	}
	gateway, err := contract.ParseGatewayConfig(node.Annotations[contract.GatewayConfigKey], contract.DefaultNetwork)
	if err != nil || gateway == nil {
		return nil
	}
	inStatus := StatusAddresses(node)
	var out []netip.Addr
	for _, prefix := range gateway.Addresses {
		addr := prefix.Addr()
		i := slices.IndexFunc(out, func(other netip.Addr) bool { return contract.FamilyOf(other) == contract.FamilyOf(addr) })
		switch {
		case i < 0:
			out = append(out, addr)
		case !slices.Contains(inStatus, out[i]) && slices.Contains(inStatus, addr):
			out[i] = addr
		}
	}
	return out
}

// addresses finds nodes by their addresses.
type addresses struct{ nodes Objects[corev1.Node] }

// GatewayAddresses are those at which services answer on a node: one of each family.
// Its gateway may be on another NIC than the address of its status. But the annotation
// is the agent's word alone, and services on all nodes depend on it: so an address that
// the status of another Node has is not this node's.
func (a addresses) GatewayAddresses(node *corev1.Node) []netip.Addr {
	return slices.DeleteFunc(claimedAddresses(node), func(addr netip.Addr) bool { return !a.holds(node, addr) })
}

// holds says that an address that a node claims is not another node's. On a host with a
// DPU the addresses are the DPU's, which may be a Node of its own.
func (a addresses) holds(node *corev1.Node, addr netip.Addr) bool {
	if contract.IsDPUHost(node) || slices.Contains(StatusAddresses(node), addr) {
		return true
	}
	return node != nil && len(a.nodes.Keys(byStatus, addr.String())) == 0
}

// claimants are the names of the nodes that claim an address.
func (a addresses) claimants(addr netip.Addr) []string { return a.nodes.Keys(byClaim, addr.String()) }

// nodesAt are the nodes whose gateways have an address, by its text.
func (a addresses) nodesAt(text string) []string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(a.claimants(addr), func(name string) bool { return !a.holds(a.nodes.Get(name), addr) })
}

func (a addresses) isNodeAddress(text string) bool { return len(a.nodesAt(text)) > 0 }

// fewNodes is the number of nodes up to which a node port with affinity has a
// frontend for each of them: these are on every node.
const fewNodes = 32

// addressesOfFew stops, with false, when they are more than of fewNodes.
func (a addresses) addressesOfFew(family contract.Family) (out []netip.Addr, few bool) {
	for _, text := range a.nodes.Values(byClaim) {
		addr, err := netip.ParseAddr(text)
		if err != nil || !family.Has(addr) || !a.isNodeAddress(text) {
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
func (a addresses) changedAddresses(old, new *corev1.Node) []netip.Addr {
	claims := claimedAddresses(new)
	out := differing(claimedAddresses(old), claims)
	for _, addr := range differing(StatusAddresses(old), StatusAddresses(new)) {
		if len(a.claimants(addr)) > 0 {
			out = append(out, addr)
		}
	}
	if contract.IsDPUHost(old) != contract.IsDPUHost(new) {
		out = append(out, claims...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// differing are the addresses that only one of both lists has.
func differing(some, others []netip.Addr) []netip.Addr {
	isIn := func(list []netip.Addr) func(netip.Addr) bool {
		return func(addr netip.Addr) bool { return slices.Contains(list, addr) }
	}
	return append(slices.DeleteFunc(slices.Clone(some), isIn(others)), slices.DeleteFunc(slices.Clone(others), isIn(some))...)
}

// HostAddresses are the addresses of a node's status, and those of its gateway at which
// services answer, sorted.
func HostAddresses(node *corev1.Node) []netip.Addr {
	out := append(StatusAddresses(node), claimedAddresses(node)...)
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// IsHostAddress says that a Node has the address in its status, or claims it.
func (a addresses) IsHostAddress(addr netip.Addr) bool {
	return len(a.nodes.Keys(byStatus, addr.String()))+len(a.claimants(addr)) > 0
}
