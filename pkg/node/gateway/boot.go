package gateway

import (
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// HasBooted says that the host has booted since its uplink was taken over, and that no agent has saved a checkpoint
// since.
func (s State) HasBooted() bool {
	return s.Saved != nil && s.Boot != "" && s.Saved.Boot != "" && s.Saved.Boot != s.Boot
}

// renew makes of the checkpoint of an earlier boot that of this one. What the host's own configuration has given the
// NIC counts. A family of which the NIC has no address comes from the earlier boot. The kernel and OVS may be other
// ones than before, and have to show again that packets pass.
func (s *State) renew() {
	if !s.HasBooted() || s.Lost != nil {
		return
	}
	c := s.Saved.clone()
	nic, exists := s.Links[c.Interface]
	if !exists {
		return
	}
	c.Inherited = slices.DeleteFunc([]contract.Family{contract.IPv4, contract.IPv6}, func(family contract.Family) bool {
		return !slices.ContainsFunc(c.Addresses, func(p netip.Prefix) bool { return family.Has(p.Addr()) })
	})
	c.disinherit(*s, movable(*s, nic.Name))
	adopt(&c, *s, nic.Name)
	c.Boot, c.MAC, c.MTU, c.Sysctls = s.Boot, contract.MAC(nic.MAC), nic.MTU, original(*s, nic.Name, false)
	c.Baseline, c.Verified, c.VF, c.Trial, c.Index = s.Reachable, false, nil, nil, 0
	s.Saved, s.Renewed = &c, true
}

// disinherit replaces what an earlier boot had in the families of these addresses of the NIC by what the NIC has now.
func (c *Checkpoint) disinherit(s State, addrs []netip.Prefix) {
	var given []contract.Family
	for _, addr := range addrs {
		if family := contract.FamilyOf(addr.Addr()); slices.Contains(c.Inherited, family) {
			given = append(given, family)
		}
	}
	if given == nil {
		return
	}
	in := func(p netip.Prefix) bool { return slices.Contains(given, contract.FamilyOf(p.Addr())) }
	c.Inherited = slices.DeleteFunc(slices.Clone(c.Inherited), func(f contract.Family) bool { return slices.Contains(given, f) })
	c.Addresses = slices.DeleteFunc(c.Addresses, in)
	c.Routes = slices.DeleteFunc(c.Routes, func(r netdev.Route) bool { return in(r.Dest) })
	adopt(c, s, c.Interface)
}

// late gives the addresses that the host has given the NIC since the checkpoint was saved.
func late(s State, nic string) []netip.Prefix {
	return slices.DeleteFunc(movable(s, nic), func(p netip.Prefix) bool { return s.Saved == nil || slices.Contains(s.Saved.Addresses, p) })
}

// dropInherited gives the steps that take from a link what the earlier boot had and the checkpoint has no more.
func dropInherited(s State, c Checkpoint, on string) (steps []node.Step) {
	if s.Saved == nil || slices.Equal(s.Saved.Inherited, c.Inherited) {
		return nil
	}
	for _, route := range s.Saved.Routes {
		if !slices.ContainsFunc(c.Routes, func(r netdev.Route) bool { return node.SameKey(r, route) }) {
			route.Link = on
			steps = append(steps, node.DeleteRoute{Route: route})
		}
	}
	for _, addr := range s.Saved.Addresses {
		if !slices.Contains(c.Addresses, addr) {
			steps = append(steps, node.DeleteAddr{Link: on, Addr: addr})
		}
	}
	return steps
}
