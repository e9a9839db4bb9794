package ipam

import (
	"cmp"
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Usage is how much of a part of the address plan is in use.
type Usage struct {
	Node   string // "" for the subnets of the cluster
	Family contract.Family
	Used   float64
	Free   float64
}

// Usage counts the subnets of the default network, an entry for each family.
func (s *Subnets) Usage() []Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	network := cmp.Or(s.networks[""], &nodes{})
	var all []Usage
	for _, family := range []contract.Family{contract.IPv4, contract.IPv6} {
		u := Usage{Family: family}
		for _, subnet := range network.cfg.Cluster {
			if family.Has(subnet.Addr()) {
				u.Free += math.Exp2(float64(subnet.NodeBits - subnet.Bits()))
			}
		}
		for prefix := range network.owners {
			if family.Has(prefix.Addr()) {
				u.Used++
				u.Free--
			}
		}
		if u.Used+u.Free > 0 {
			all = append(all, u)
		}
	}
	return all
}

// owned are the subnets that nodes have on the default network, with the nodes.
func (s *Subnets) owned() map[netip.Prefix]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(cmp.Or(s.networks[""], &nodes{}).owners)
}

// Usage counts the addresses for pods on the default network, an entry for each subnet of a node.
func (a *Addresses) Usage() []Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []Usage
	for prefix, node := range a.subnets.owned() {
		b := &block{prefix: prefix, first: contract.FirstPodOffset}
		if known := a.pools[""].known[prefix]; known != nil {
			b = known
		}
		all = append(all, Usage{
			Node: node, Family: contract.FamilyOf(prefix.Addr()),
			Used: float64(b.held), Free: b.size() - float64(b.held),
		})
	}
	return all
}

// NetworkUsage is how much of the addresses of a further network, or of a NamespaceSubnet, pods hold.
type NetworkUsage struct {
	Kind, Name string
	Family     contract.Family
	Used, Free float64
}

// NetworksUsage counts addresses for pods, an entry for each family of each network that has had a pod and of each
// NamespaceSubnet. Where nodes have parts of a network, the fullest part counts.
func NetworksUsage(a *Addresses) []NetworkUsage {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []NetworkUsage
	for name, pool := range a.pools {
		if name == "" {
			continue
		}
		parts := map[string]blocks{}
		for _, b := range pool.known {
			if b.node != "" || slices.Contains(pool.shared, b) {
				parts[b.node] = append(parts[b.node], b)
			}
		}
		fullest := map[contract.Family]NetworkUsage{}
		for _, part := range parts {
			for _, u := range usageOf(contract.KindNetwork, name, part) {
				if other, ok := fullest[u.Family]; !ok || u.Free < other.Free {
					fullest[u.Family] = u
				}
			}
		}
		all = slices.AppendSeq(all, maps.Values(fullest))
	}
	for _, subnet := range namespaceSubnets(a.cfg) {
		all = append(all, usageOf(contract.KindNamespaceSubnet, subnet.Name, a.pools[""].blocksOfSubnet(&subnet))...)
	}
	return all
}

// usageOf is a sum for each family.
func usageOf(kind, name string, subnets blocks) (all []NetworkUsage) {
	for _, family := range subnets.families() {
		u := NetworkUsage{Kind: kind, Name: name, Family: contract.FamilyOf(family[0].prefix.Addr())}
		for _, b := range family {
			u.Used += float64(b.held)
			u.Free += max(0, b.size()-float64(b.held))
		}
		all = append(all, u)
	}
	return all
}
