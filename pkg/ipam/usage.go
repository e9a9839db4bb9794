package ipam

import (
	"math"
	"net/netip"

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
	network := s.networks[""]
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
	out := map[netip.Prefix]string{}
	for prefix, node := range s.networks[""].owners {
		out[prefix] = node
	}
	return out
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
			Used: float64(b.held), Free: float64(b.last()-b.first+1) - float64(b.held),
		})
	}
	return all
}
