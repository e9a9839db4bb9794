package gateway

import (
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
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
	for _, family := range []contract.Family{contract.IPv4, contract.IPv6} {
		has := func(p netip.Prefix) bool { return family.Has(p.Addr()) }
		if slices.ContainsFunc(movable(*s, nic.Name), has) {
			c.Addresses = slices.DeleteFunc(c.Addresses, has)
			c.Routes = slices.DeleteFunc(c.Routes, func(r netdev.Route) bool { return has(r.Dest) })
		}
	}
	adopt(&c, *s, nic.Name)
	c.Boot, c.MAC, c.MTU, c.Sysctls = s.Boot, contract.MAC(nic.MAC), nic.MTU, original(*s, nic.Name, false)
	c.Baseline, c.Verified, c.VF, c.Trial, c.Index = s.Reachable, false, nil, nil, 0
	s.Saved, s.Renewed = &c, true
}
