package node

import (
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Sysctls of links; quiet keeps the kernel's own stack from answering on a NIC
// that the userspace datapath reads as well: both would hear each packet, and
// the kernel would refuse connections that are not its own.
const (
	rpFilter    = "net/ipv4/conf/%/rp_filter"
	arpIgnore   = "net/ipv4/conf/%/arp_ignore"
	forwarding  = "net/ipv4/conf/%/forwarding"
	disableIPv6 = "net/ipv6/conf/%/disable_ipv6"
	acceptRA    = "net/ipv6/conf/%/accept_ra"
	// dadTransmits are the questions whether an address is somebody else's.
	dadTransmits = "net/ipv6/conf/%/dad_transmits"
)

type sysctl struct{ key, value string }

func quiet() []sysctl {
	return []sysctl{{rpFilter, "1"}, {arpIgnore, "8"}, {disableIPv6, "1"}}
}

// planGateway gives the steps towards the bridge having what the NIC had. The
// error says for what it waits after these steps.
func planGateway(cfg Config, s State, g Gateway) ([]Step, error) {
	if !g.owned() {
		if _, ok := s.Links[g.Bridge]; !ok {
			return nil, notReady("gateway bridge %s has no link", g.Bridge)
		}
		return nil, nil
	}
	if _, ok := s.Links[g.NIC]; !ok {
		return nil, notReady("gateway interface %s is absent", g.NIC)
	}
	if s.Saved == nil && len(s.Known) == 0 {
		return nil, notReady("the addresses of node %s are not known", cfg.Node)
	}
	c := capture(s, g)
	if len(c.Addresses) == 0 {
		return nil, notReady("gateway interface %s has no address", g.NIC)
	}
	var steps []Step
	if s.Saved == nil || !c.equal(*s.Saved) {
		steps = append(steps, save{c})
	}
	if !works(cfg, s.Links[g.Bridge]) {
		steps = append(steps, retreat(s, c)...)
		if !s.Ours[g.Bridge] {
			steps = append(steps, gatewayRows(cfg, c, false))
		}
		return steps, notReady("ovs-vswitchd does not serve bridge %s", g.Bridge)
	}
	on := stay(s, g, c)
	steps = append(steps, takeOver(cfg, s, c, on)...)
	if index := s.Links[on].Index; c.Index != index || !c.Verified {
		if !c.Verified {
			steps = append(steps, verify{c.Baseline})
		}
		c.Index, c.Verified = index, true
		steps = append(steps, save{c})
	}
	return steps, nil
}

// works reports whether packets can pass the bridge's link. That of the
// userspace datapath outlives ovs-vswitchd, without a carrier.
func works(cfg Config, bridge netdev.Link) bool {
	return bridge.Name != "" && (cfg.Datapath != DatapathUserspace || !bridge.Up || bridge.Carrier)
}

// takeOver gives the steps that leave the NIC a mere port of the bridge, the
// addresses on the link named, and the one where they are to be ready for them.
func takeOver(cfg Config, s State, c Checkpoint, on string) []Step {
	steps := prepare(cfg, s, c, on)
	if to := bearer(s, c); to != on {
		steps = append(steps, prepare(cfg, s, c, to)...)
	}
	steps = append(steps, prepareLink(s, c.Interface, netdev.Settings{})...)
	if !s.Ours[c.Interface] || c.VF != nil && !s.Ours[c.VF.Representor] {
		steps = append(steps, gatewayRows(cfg, c, true))
	}
	if !c.Verified {
		steps = append(steps, awaitPort{c.Interface})
	}
	steps = append(steps, place(s, c, on)...)
	if cfg.Datapath == DatapathUserspace {
		steps = append(steps, sysctls(s, c.Interface, quiet())...)
	}
	return steps
}

// prepare gives the steps that make a link fit to have the addresses.
func prepare(cfg Config, s State, c Checkpoint, name string) []Step {
	if name != c.Bridge {
		return prepareVF(s, c, name)
	}
	steps := prepareLink(s, name, netdev.Settings{MAC: net.HardwareAddr(c.MAC), MTU: c.MTU})
	steps = append(steps, sysctls(s, name, []sysctl{{rpFilter, "2"}})...)
	if !cfg.second { // between its networks the host forwards as it did
		steps = append(steps, sysctls(s, name, []sysctl{{forwarding, "1"}})...)
	}
	return steps
}

// retreat gives the steps that put everything back on the NIC.
func retreat(s State, c Checkpoint) []Step {
	var steps []Step
	for _, key := range slices.Sorted(maps.Keys(c.Sysctls)) {
		if value := c.Sysctls[key]; s.Sysctls[key] != value {
			steps = append(steps, setSysctl{key, value})
		}
	}
	steps = append(steps, prepareLink(s, c.Interface, netdev.Settings{})...)
	return append(steps, place(s, c, c.Interface)...)
}

// planRelease undoes a takeover from any of its stages, for a rollback and for
// the clean-up; a host's own bridge is left alone.
func planRelease(cfg Config, s State) []Step {
	if s.Saved == nil {
		return []Step{commit{Owner: gatewayOwner(cfg)}}
	}
	steps := append(retreat(s, *s.Saved), giveBackVF(s, *s.Saved)...)
	return append(steps, commit{Owner: gatewayOwner(cfg)}, forget{})
}

// prepareLink sets what differs, and the link up.
func prepareLink(s State, name string, want netdev.Settings) []Step {
	link := s.Links[name]
	if want.MTU == link.MTU {
		want.MTU = 0
	}
	if slices.Equal(want.MAC, link.MAC) {
		want.MAC = nil
	}
	if !link.Up {
		want.State = netdev.Up
	}
	if want.MTU == 0 && want.MAC == nil && want.State == netdev.Keep {
		return nil
	}
	return []Step{setLink{name, want}}
}

func sysctls(s State, link string, want []sysctl) []Step {
	var steps []Step
	for _, w := range want {
		key := sysctlKey(w.key, link)
		if have, exists := s.Sysctls[key]; exists && have != w.value {
			steps = append(steps, setSysctl{key, w.value})
		}
	}
	return steps
}

// place gives a link the addresses and routes of the checkpoint and then takes
// them from the others. Routes are replaced in one go, for they differ in nothing
// but the link.
func place(s State, c Checkpoint, on string) []Step {
	var steps []Step
	others := slices.DeleteFunc(bearers(s, c), func(name string) bool { return name == on })
	for _, addr := range c.Addresses {
		if !slices.Contains(s.Addrs[on], addr) {
			steps = append(steps, addAddr{on, addr})
		}
	}
	for _, route := range c.Routes {
		route.Link = on
		if !slices.ContainsFunc(s.Routes, func(r netdev.Route) bool { return sameRoute(r, route) }) {
			steps = append(steps, addRoute{route})
		}
		// Not every replacement takes the old one away: IPv6 may keep both.
		for _, off := range others {
			old := route
			old.Link = off
			if slices.ContainsFunc(s.Routes, func(r netdev.Route) bool { return sameRoute(r, old) }) {
				steps = append(steps, leftover(s, route, old)...)
			}
		}
	}
	for _, off := range others {
		for _, addr := range c.Addresses {
			if slices.Contains(s.Addrs[off], addr) {
				steps = append(steps, deleteAddr{off, addr})
			}
		}
	}
	return steps
}

// missing is an address of the checkpoint that no link has: taken since it was placed,
// and placed again by the next pass. What would be made of the others is not meant.
func missing(s State) (netip.Prefix, bool) {
	if s.Saved == nil {
		return netip.Prefix{}, false
	}
	for _, addr := range s.Saved.Addresses {
		if !borne(s, *s.Saved, addr) {
			return addr, true
		}
	}
	return netip.Prefix{}, false
}

// borne says whether any link that may have the addresses has this one.
func borne(s State, c Checkpoint, addr netip.Prefix) bool {
	return slices.ContainsFunc(bearers(s, c), func(name string) bool { return slices.Contains(s.Addrs[name], addr) })
}

// leftover removes an old route only once the new one is seen beside it.
func leftover(s State, route, old netdev.Route) []Step {
	if slices.ContainsFunc(s.Routes, func(r netdev.Route) bool { return sameRoute(r, route) }) {
		return []Step{deleteRoute{old}}
	}
	return nil
}

func sameRoute(a, b netdev.Route) bool {
	return a.Link == b.Link && a.NextHop == b.NextHop && slices.Equal(a.Others, b.Others) && sameKey(a, b)
}

func sameKey(a, b netdev.Route) bool {
	return a.Dest == b.Dest && a.Table == b.Table && a.Metric == b.Metric
}

// capture gives what the checkpoint should be: at first what the NIC has; later
// also what appears on the NIC, and what an administrator changes on the link that
// has the addresses while it lives.
func capture(s State, g Gateway) Checkpoint {
	nic := s.Links[g.NIC]
	_, exists := s.Links[g.Bridge]
	c := Checkpoint{Interface: g.NIC, Bridge: g.Bridge, MAC: contract.MAC(nic.MAC), Baseline: s.Reachable}
	// A bridge of ours without a checkpoint: the file was lost.
	lost := s.Saved == nil && exists && s.Ours[g.Bridge]
	if s.Saved != nil {
		c = s.Saved.clone()
	} else {
		c.Sysctls = original(s, g.NIC, lost)
	}
	c.MTU = nic.MTU
	c.choose(s)
	adopt(&c, s, g.NIC)
	for _, name := range bearers(s, c)[1:] {
		if link, ok := s.Links[name]; ok && (lost || c.Index == link.Index) {
			adopt(&c, s, name)
			giveUp(&c, s, name)
		}
	}
	switch on := bearer(s, c); {
	case on == c.Bridge:
		c.Trial = nil
	case c.Index != s.Links[on].Index && len(c.Trial) == 0:
		c.Trial = s.Reachable
	}
	return c
}

// original gives what quiet will overwrite; lost, once that has happened: the
// kernel's own values then.
func original(s State, nic string, lost bool) map[string]string {
	values := map[string]string{}
	for _, q := range quiet() {
		key := sysctlKey(q.key, nic)
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

// adopt adds a link's addresses and routes.
func adopt(c *Checkpoint, s State, link string) {
	for _, addr := range movable(s, link) {
		if !slices.Contains(c.Addresses, addr) {
			c.Addresses = append(c.Addresses, addr)
		}
	}
	taken := []netdev.Route{}
	for _, r := range s.Routes {
		if r.Link != link || r.Protocol == protocolOurs {
			continue
		}
		same := func(o netdev.Route) bool { return sameKey(r, o) }
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

// giveUp follows an administrator who took an address from the living link, as
// long as the family keeps another one: the host is never left without.
func giveUp(c *Checkpoint, s State, link string) {
	other := func(addr netip.Prefix) bool {
		return slices.ContainsFunc(movable(s, link), func(p netip.Prefix) bool {
			return contract.FamilyOf(addr.Addr()).Has(p.Addr())
		})
	}
	c.Addresses = slices.DeleteFunc(c.Addresses, func(addr netip.Prefix) bool {
		return !borne(s, *c, addr) && other(addr)
	})
}
