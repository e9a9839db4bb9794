package gateway

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/device"
)

// quiet keeps the kernel's own stack from answering on a NIC that the userspace datapath reads as well: both would
// receive each packet, and the kernel would reject connections that are not its own.
func quiet() [][2]string {
	return [][2]string{{node.RPFilter, "1"}, {node.ARPIgnore, "8"}, {node.DisableIPv6, "1"}}
}

// planGateway gives the steps towards the bridge having what the NIC had. The error says for what it waits after these
// steps.
func planGateway(cfg Config, s State, g Gateway) ([]node.Step, error) {
	if !g.owned() {
		if _, ok := s.Links[g.Bridge]; !ok {
			return nil, node.NotReady("gateway bridge %s has no link", g.Bridge)
		}
		return nil, nil
	}
	c, err := captured(cfg, s, g)
	if err != nil {
		return nil, err
	}
	var steps []node.Step
	if s.Saved == nil || s.Renamed || s.Renewed || !c.equal(*s.Saved) {
		steps = append(steps, save{cfg.Checkpoint, c})
	}
	if !works(cfg, s, g.Bridge) {
		steps = append(append(steps, planFailback(s, c)...), leaveDatapath(cfg, s, c)...)
		if !s.Ours[g.Bridge] {
			steps = append(steps, gatewayRows(cfg, c, false))
		}
		return steps, node.NotReady("ovs-vswitchd does not serve bridge %s", g.Bridge)
	}
	on := stay(s, g, c)
	steps = append(steps, takeOver(cfg, s, c, on)...)
	if index := s.Links[on].Index; c.Index != index || !c.Verified {
		if !c.Verified {
			steps = append(steps, node.Verify{Probes: c.Baseline})
		}
		c.Index, c.Verified = index, true
		steps = append(steps, save{cfg.Checkpoint, c})
	}
	return steps, nil
}

// captured is what the NIC has; the error says what it lacks.
func captured(cfg Config, s State, g Gateway) (Checkpoint, error) {
	if _, ok := s.Links[g.NIC]; !ok {
		nic := device.Identity{Interface: g.NIC}
		if s.Saved != nil {
			nic = s.Saved.Identity
		}
		return Checkpoint{}, node.NotReady("gateway interface %s is absent", nic)
	}
	if s.Saved == nil && len(s.NodeAddrs) == 0 {
		return Checkpoint{}, node.NotReady("the addresses of node %s are not in the cache", cfg.Node)
	}
	c := capture(s, g)
	if len(c.Addresses) == 0 {
		return c, node.NotReady("gateway interface %s has no address", g.NIC)
	}
	return c, nil
}

// works reports whether packets can pass the bridge's link. That of the userspace datapath outlives ovs-vswitchd,
// without a carrier. That of the kernel's datapath shows nothing, and passes flows that it has for some time.
func works(cfg Config, s State, bridge string) bool {
	link := s.Links[bridge]
	if cfg.Datapath == DatapathUserspace {
		return link.Name != "" && (!link.Up || link.Carrier)
	}
	return link.Name != "" && !s.SwitchAbsent
}

// leaveDatapath gives the step after which the kernel's datapath leaves the NIC's packets to the host.
func leaveDatapath(cfg Config, s State, c Checkpoint) []node.Step {
	if cfg.Datapath == DatapathUserspace || s.Links[c.Interface].Master == 0 {
		return nil
	}
	return []node.Step{node.LeaveDatapath{Link: c.Interface}}
}

// takeOver gives the steps that leave the NIC a mere port of the bridge, the addresses on the link named, and the one
// where they are to be ready for them.
func takeOver(cfg Config, s State, c Checkpoint, on string) []node.Step {
	steps := prepare(cfg, s, c, on)
	if to := hostLinkOf(s, c); to != on {
		steps = append(steps, prepare(cfg, s, c, to)...)
	}
	steps = append(steps, node.PrepareLink(s.State, c.Interface, netdev.Settings{})...)
	if !s.Ours[c.Interface] || c.VF != nil && !s.Ours[c.VF.Representor] {
		steps = append(steps, gatewayRows(cfg, c, true))
	}
	if !c.Verified || !s.Ours[c.Interface] {
		steps = append(steps, node.AwaitPort{Owner: gatewayOwner(cfg), Name: c.Interface})
	}
	steps = append(append(steps, place(s, c, on)...), dropInherited(s, c, on)...)
	if cfg.Datapath == DatapathUserspace {
		steps = append(steps, node.Sysctls(s.State, c.Interface, quiet())...)
	}
	return steps
}

// prepare gives the steps that make a link fit to have the addresses.
func prepare(cfg Config, s State, c Checkpoint, name string) []node.Step {
	var steps []node.Step
	if c.advertised() {
		steps = node.AcceptAdvertisements(s.State, name)
	}
	if name != c.Bridge {
		return append(steps, prepareVF(s, c, name)...)
	}
	steps = append(steps, node.PrepareLink(s.State, name, netdev.Settings{MAC: net.HardwareAddr(c.MAC), MTU: c.MTU})...)
	steps = append(steps, node.Sysctls(s.State, name, [][2]string{{node.RPFilter, "2"}})...)
	if !cfg.second { // between its networks the host forwards as it did
		steps = append(steps, node.Sysctls(s.State, name, [][2]string{{node.Forwarding, "1"}})...)
	}
	return steps
}

// planFailback gives the steps that put everything back on the NIC.
func planFailback(s State, c Checkpoint) []node.Step {
	var steps []node.Step
	for _, key := range slices.Sorted(maps.Keys(c.Sysctls)) {
		if value := c.Sysctls[key]; s.Sysctls[key] != value {
			steps = append(steps, node.SetSysctl{Key: key, Value: value})
		}
	}
	steps = append(steps, node.PrepareLink(s.State, c.Interface, netdev.Settings{})...)
	return append(steps, place(s, c, c.Interface)...)
}

// planRelease undoes a takeover from any of its stages, for a rollback and for the clean-up; a host's own bridge is
// left alone. So are a NIC that has the name of an uplink that is gone, and one of which nothing was taken since the
// host has booted.
func planRelease(cfg Config, s State) []node.Step {
	if s.Saved == nil {
		return []node.Step{node.Commit{Owner: gatewayOwner(cfg)}}
	}
	if s.Lost != nil || s.Renewed {
		return []node.Step{node.Commit{Owner: gatewayOwner(cfg)}, forget{cfg.Checkpoint}}
	}
	steps := append(planFailback(s, *s.Saved), planRestoreVF(s, *s.Saved)...)
	return append(steps, node.Commit{Owner: gatewayOwner(cfg)}, forget{cfg.Checkpoint})
}

// place gives a link the addresses and routes of the checkpoint and then takes them from the others. Routes are
// replaced in one go, for they differ in nothing but the link.
func place(s State, c Checkpoint, on string) []node.Step {
	var steps []node.Step
	others := slices.DeleteFunc(candidates(s, c), func(name string) bool { return name == on })
	for _, addr := range c.Addresses {
		if !slices.Contains(s.Addrs[on], addr) {
			steps = append(steps, node.AddAddr{Link: on, Addr: addr})
		}
	}
	for _, route := range c.Routes {
		route.Link = on
		if !slices.ContainsFunc(s.Routes, func(r netdev.Route) bool { return node.SameRoute(r, route) }) {
			steps = append(steps, node.AddRoute{Route: route})
		}
		// Not every replacement takes the old one away: IPv6 may keep both.
		for _, off := range others {
			old := route
			old.Link = off
			if slices.ContainsFunc(s.Routes, func(r netdev.Route) bool { return node.SameRoute(r, old) }) {
				steps = append(steps, leftover(s, route, old)...)
			}
		}
	}
	// The NIC receives no advertisement any more, and its routes are better than the permanent ones.
	for _, old := range s.Routes {
		if old.Protocol == node.ProtocolRA && old.Link == c.Interface && on != c.Interface {
			steps = append(steps, node.DeleteRoute{Route: old})
		}
	}
	for _, off := range others {
		for _, addr := range c.Addresses {
			if slices.Contains(s.Addrs[off], addr) {
				steps = append(steps, node.DeleteAddr{Link: off, Addr: addr})
			}
		}
	}
	return steps
}

// missing is an address of the checkpoint that no link has: taken since it was placed, and placed again by the next
// pass. What would be made of the others is not meant.
func missing(s State) (netip.Prefix, bool) {
	if s.Saved == nil {
		return netip.Prefix{}, false
	}
	for _, addr := range s.Saved.Addresses {
		if !isPlaced(s, *s.Saved, addr) {
			return addr, true
		}
	}
	return netip.Prefix{}, false
}

// isPlaced says whether any link that may have the addresses has this one.
func isPlaced(s State, c Checkpoint, addr netip.Prefix) bool {
	return slices.ContainsFunc(candidates(s, c), func(name string) bool { return slices.Contains(s.Addrs[name], addr) })
}

// leftover removes an old route only once the new one is seen beside it.
func leftover(s State, route, old netdev.Route) []node.Step {
	if slices.ContainsFunc(s.Routes, func(r netdev.Route) bool { return node.SameRoute(r, route) }) {
		return []node.Step{node.DeleteRoute{Route: old}}
	}
	return nil
}

// capture gives what the checkpoint should be: at first what the NIC has; later also what appears on the NIC, and what
// an administrator changes on the link that has the addresses while it lives.
func capture(s State, g Gateway) Checkpoint {
	nic := s.Links[g.NIC]
	c := Checkpoint{Identity: device.Identity{Interface: g.NIC}, Bridge: g.Bridge, MAC: contract.MAC(nic.MAC), Baseline: s.Reachable}
	// A bridge of ours without a checkpoint: the file was lost.
	lost := s.Saved == nil && s.Ours[g.Bridge]
	if s.Saved != nil {
		c = s.Saved.clone()
	} else {
		c.Sysctls = original(s, g.NIC, lost)
	}
	c.Record(s.State)
	c.MTU, c.Boot = nic.MTU, cmp.Or(s.Boot, c.Boot)
	c.choose(s)
	adopt(&c, s, g.NIC)
	for _, name := range candidates(s, c)[1:] {
		if link, ok := s.Links[name]; ok && (lost || c.Index == link.Index) {
			adopt(&c, s, name)
			followRemovals(&c, s, name)
			followWithdrawals(&c, s, name)
		}
	}
	c.disinherit(s, late(s, g.NIC))
	switch on := hostLinkOf(s, c); {
	case on == c.Bridge:
		c.Trial = nil
	case c.Index != s.Links[on].Index && len(c.Trial) == 0:
		c.Trial = s.Reachable
	}
	return c
}

// original gives what quiet will overwrite; lost, once that has happened: the kernel's own values then.
func original(s State, nic string, lost bool) map[string]string {
	values := map[string]string{}
	for _, q := range quiet() {
		key := node.SysctlKey(q[0], nic)
		value, exists := s.Sysctls[key]
		switch {
		case exists && lost:
			values[key] = "0"
		case exists:
			values[key] = value
		}
	}
	return values
}

// adopt adds a link's addresses and routes. Those of routing daemons are not the host's configuration: the daemon sees
// that an address has moved, and follows.
func adopt(c *Checkpoint, s State, link string) {
	for _, addr := range movable(s, link) {
		if !slices.Contains(c.Addresses, addr) {
			c.Addresses = append(c.Addresses, addr)
		}
	}
	taken := []netdev.Route{}
	for _, r := range s.Routes {
		advertised := r.Protocol == node.ProtocolRA
		if r.Link != link || !node.IsConfigured(r) || advertised && link != c.Interface {
			continue
		}
		if advertised {
			r = node.Permanent(r)
		}
		same := func(o netdev.Route) bool { return node.SameKey(r, o) }
		if slices.ContainsFunc(taken, same) {
			continue
		}
		taken = append(taken, r)
		r.Link = ""
		if i := slices.IndexFunc(c.Routes, same); i >= 0 {
			c.Routes[i] = r
			continue
		}
		c.Routes = append(c.Routes, r)
	}
	// A next hop's own prefix has to be there first.
	slices.SortStableFunc(c.Routes, func(a, b netdev.Route) int {
		switch {
		case a.NextHop.IsValid() == b.NextHop.IsValid():
			return 0
		case b.NextHop.IsValid():
			return -1
		}
		return 1
	})
}

// followRemovals follows an administrator who took an address from the living link, as long as the family keeps another
// one: the host is never left without.
func followRemovals(c *Checkpoint, s State, link string) {
	other := func(addr netip.Prefix) bool {
		return slices.ContainsFunc(movable(s, link), func(p netip.Prefix) bool {
			return contract.FamilyOf(addr.Addr()).Has(p.Addr())
		})
	}
	c.Addresses = slices.DeleteFunc(c.Addresses, func(addr netip.Prefix) bool {
		return !isPlaced(s, *c, addr) && other(addr)
	})
}

// followWithdrawals follows an administrator who took a route from the living link. The last default route of a family
// stays. When links have changed, or the link is down or lacks an address of the family, the kernel may have removed
// the route.
func followWithdrawals(c *Checkpoint, s State, link string) {
	c.Routes = slices.DeleteFunc(c.Routes, func(route netdev.Route) bool {
		has := func(p netip.Prefix) bool { return contract.FamilyOf(route.Dest.Addr()).Has(p.Addr()) }
		whole := s.Links[link].Up && !s.LinksChanged && !slices.ContainsFunc(c.Addresses, func(p netip.Prefix) bool {
			return has(p) && !slices.Contains(s.Addrs[link], p)
		})
		last := route.Dest.Bits() == 0 && !slices.ContainsFunc(s.Routes, func(r netdev.Route) bool {
			return r.Link == link && has(r.Dest) && r.Dest.Bits() == 0 && r.Table == route.Table
		})
		return whole && !last && !hasRoute(s, *c, route)
	})
}

// hasRoute says whether any link that may have the routes has this one.
func hasRoute(s State, c Checkpoint, route netdev.Route) bool {
	return slices.ContainsFunc(candidates(s, c), func(name string) bool {
		route.Link = name
		return slices.ContainsFunc(s.Routes, func(r netdev.Route) bool { return node.SameRoute(r, route) })
	})
}
