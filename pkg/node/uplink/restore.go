package uplink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// recheck is how often the host is observed without an event: the driver may know of a netdev later than the kernel.
const recheck = time.Second

// sysctlPatterns are those that a new netdev has the kernel's values of.
func sysctlPatterns() []string {
	return []string{node.RPFilter, node.ARPIgnore, node.Forwarding, node.DisableIPv6, node.AcceptRA}
}

func sysctlsOf(st node.State, link string) map[string]string {
	out := map[string]string{}
	for _, pattern := range sysctlPatterns() {
		if value, ok := st.Sysctls[node.SysctlKey(pattern, link)]; ok {
			out[pattern] = value
		}
	}
	return out
}

// restore makes the uplink's netdev what it was, whatever of this is done already.
func (m *Mover) restore(ctx context.Context, r record) error {
	if err := m.named(ctx, r); err != nil {
		return err
	}
	var st node.State
	if err := m.host.ObserveHost(&st); err != nil {
		return fmt.Errorf("observing the host: %w", err)
	}
	if err := m.host.Run(ctx, planRestore(st, r)); err != nil {
		return err
	}
	if r.Bond != "" {
		return nil
	}
	if err := m.deps.Gateway.Attach(ctx, r.Link.Name); err != nil {
		return fmt.Errorf("putting %s back into its bridge: %w", r.Link.Name, err)
	}
	return nil
}

// planRestore is pure. Routes come after the addresses that they need, and those to a next hop's own network first.
func planRestore(st node.State, r record) []node.Step {
	name := r.Link.Name
	if r.Bond != "" {
		return planBond(st, r)
	}
	settings := netdev.Settings{MTU: r.Link.MTU}
	if r.Link.MAC != nil {
		settings.MAC = net.HardwareAddr(r.Link.MAC)
	}
	steps := node.PrepareLink(st, name, settings)
	var sysctls [][2]string
	for _, pattern := range sysctlPatterns() {
		if value, ok := r.Sysctls[pattern]; ok {
			sysctls = append(sysctls, [2]string{pattern, value})
		}
	}
	steps = append(steps, node.Sysctls(st, name, sysctls)...)
	for _, addr := range r.Addresses {
		if !slices.Contains(st.Addrs[name], addr) {
			steps = append(steps, node.AddAddr{Link: name, Addr: addr})
		}
	}
	routes := slices.Clone(r.Routes)
	slices.SortStableFunc(routes, func(a, b netdev.Route) int {
		switch {
		case a.NextHop.IsValid() == b.NextHop.IsValid():
			return 0
		case b.NextHop.IsValid():
			return -1
		}
		return 1
	})
	for _, route := range routes {
		route.Link = name
		has := func(r netdev.Route) bool {
			return slices.ContainsFunc(st.Routes, func(o netdev.Route) bool { return node.SameRoute(o, r) })
		}
		if route.Protocol == node.ProtocolRA && !has(route) { // for the time until the next advertisement
			route = node.Permanent(route)
		}
		if !has(route) {
			steps = append(steps, node.AddRoute{Route: route})
		}
	}
	return steps
}

// planBond gives the bond its port back. The bond sets the port's MAC, MTU and state. The host's network configuration may
// have been quicker.
func planBond(st node.State, r record) []node.Step {
	link, bond := st.Links[r.Link.Name], st.Links[r.Bond]
	if bond.Index != 0 && link.Master == bond.Index {
		return nil
	}
	return []node.Step{node.SetLink{Name: r.Link.Name, Settings: netdev.Settings{State: netdev.Down, Bond: r.Bond}}}
}

// named waits for the uplink's netdev and gives it its former name. udev gets time to do that first, for its
// rename could otherwise come afterwards.
func (m *Mover) named(ctx context.Context, r record) error {
	var name string
	var last error
	err := m.await(ctx, returnTimeout, func(st node.State) bool {
		found, err := m.deps.Uplink(r.Device)
		name, last = found, err
		_, exists := st.Links[found]
		return err == nil && exists
	})
	if err != nil {
		return fmt.Errorf("%s has no netdev after the change of its mode: %w", r.Device, errors.Join(err, last))
	}
	if name == r.Link.Name {
		return nil
	}
	if err := m.await(ctx, m.nameTimeout, func(node.State) bool {
		found, err := m.deps.Uplink(r.Device)
		return err == nil && found == r.Link.Name
	}); err == nil {
		return nil
	}
	return m.rename(ctx, r)
}

func (m *Mover) rename(ctx context.Context, r record) error {
	name, err := m.deps.Uplink(r.Device)
	if err != nil {
		return err
	}
	var st node.State
	if err := m.host.ObserveHost(&st); err != nil {
		return fmt.Errorf("observing the host: %w", err)
	}
	link, ok := st.Links[name]
	switch {
	case name == r.Link.Name:
		return nil
	case !ok:
		return fmt.Errorf("the netdev of %s has just vanished", r.Device)
	}
	var steps []node.Step
	if link.Up { // kernels before 6.2 rename no link that is up
		steps = append(steps, node.SetLink{Name: name, Settings: netdev.Settings{State: netdev.Down}})
	}
	return m.host.Run(ctx, append(steps, node.Rename{Index: link.Index, Of: name, To: r.Link.Name}))
}

// await observes the host at each event until it is as wanted.
func (m *Mover) await(ctx context.Context, limit time.Duration, ok func(node.State) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	events, err := m.deps.Netns.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watching the host: %w", err)
	}
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		var st node.State
		if err := m.host.ObserveHost(&st); err != nil {
			return fmt.Errorf("observing the host: %w", err)
		}
		if ok(st) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, open := <-events:
			if !open {
				events = nil
			}
		case <-tick.C:
		}
	}
}
