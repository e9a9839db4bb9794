package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// CheckpointVF is the VF that has, or is to have, the node's addresses in place of the gateway bridge's own interface:
// its representor is a port of the bridge, and the node's traffic with the outside is the NIC's. The bridge keeps the
// addresses as long as packets cannot pass the VF.
type CheckpointVF struct {
	Device      string `json:"device"`      // PCI address
	Representor string `json:"representor"` // name of the bridge's port
	// MAC and MTU are what the VF's netdev had before.
	MAC contract.MAC `json:"mac"`
	MTU int          `json:"mtu"`
}

// link finds the VF's netdev.
func (v *CheckpointVF) link(s State) (netdev.Link, bool) {
	if v != nil {
		for _, l := range s.Links {
			if l.Parent == v.Device && l.Master == 0 {
				return l, true
			}
		}
	}
	return netdev.Link{}, false
}

// choose follows the function that is given. A VF that is not to be it any more stays in the checkpoint until it is
// what it was.
func (c *Checkpoint) choose(s State) {
	f := s.VF
	if f == nil {
		return
	}
	vf := &CheckpointVF{Device: f.Device, Representor: f.Representor}
	link, ok := vf.link(s)
	switch {
	case c.VF == nil && ok:
		vf.MAC, vf.MTU = contract.MAC(link.MAC), link.MTU
		c.VF = vf
	case c.VF != nil && c.VF.Device == f.Device:
		c.VF.Representor = f.Representor
	}
}

// leaves reports whether the VF is to become what it was.
func (c Checkpoint) leaves(s State) bool {
	return c.VF != nil && (s.VF == nil || s.VF.Device != c.VF.Device)
}

// hostLinkOf is the link that is to have the node's addresses: the VF if packets can pass it. A node's first takeover
// is the bridge's alone.
func hostLinkOf(s State, c Checkpoint) string {
	link, ok := c.VF.link(s)
	if !ok || !c.Verified || c.leaves(s) || !c.VF.passes(s) {
		return c.Bridge
	}
	return link.Name
}

// stay is the link that has the addresses as long as they can stay there, for the flows go first (planSettle), or else
// hostLinkOf.
func stay(s State, g Gateway, c Checkpoint) string {
	if at := hostLink(s, g); at == g.Bridge || c.VF.passes(s) {
		return at
	}
	return hostLinkOf(s, c)
}

// readied is hostLinkOf after planGateway's steps: a VF that has come since is for the next pass.
func readied(s State, c Checkpoint) string {
	on := hostLinkOf(s, c)
	link := s.Links[on]
	if c.Index == link.Index || link.Up && slices.Equal(link.MAC, net.HardwareAddr(c.MAC)) {
		return on
	}
	return c.Bridge
}

// passes reports whether the bridge and the VF have each other's packets.
func (v *CheckpointVF) passes(s State) bool {
	if _, ok := v.link(s); !ok {
		return false
	}
	_, ok := s.Links[v.Representor]
	return ok && s.Ours[v.Representor] && s.OFPorts[v.Representor] != 0
}

// hostLink is the link that has the node's addresses.
func hostLink(s State, g Gateway) string {
	if s.Saved != nil {
		if link, ok := s.Saved.VF.link(s); ok && link.Index == s.Saved.Index {
			return link.Name
		}
	}
	return g.Bridge
}

// hostPort is the OpenFlow port behind which they are to be, 0 for the bridge's own. While they move, the kernel takes
// packets by either link; but answers about neighbours have to come to the one that asks, which is the new one.
func hostPort(s State, g Gateway) int {
	if s.Saved == nil || readied(s, *s.Saved) == g.Bridge {
		return 0
	}
	return s.OFPorts[s.Saved.VF.Representor]
}

// moving reports whether planGateway will lead the node's addresses to a VF.
func moving(s State, g Gateway) bool {
	if !g.owned() || s.Saved == nil {
		return false
	}
	on := hostLinkOf(s, capture(s, g))
	return on != g.Bridge && on != hostLink(s, g)
}

// candidates are the links that may have the node's addresses.
func candidates(s State, c Checkpoint) []string {
	names := []string{c.Interface, c.Bridge}
	if link, ok := c.VF.link(s); ok {
		names = append(names, link.Name)
	}
	return names
}

// gatewayVFLinks are the VF's two ends.
func gatewayVFLinks(s State) (names []string) {
	if s.Saved == nil || s.Saved.VF == nil {
		return nil
	}
	if link, ok := s.Saved.VF.link(s); ok {
		names = append(names, link.Name)
	}
	return append(names, s.Saved.VF.Representor)
}

// prepareVF gives the steps that make packets pass the VF as they pass the bridge. Both have the same MAC, so neither
// does duplicate address detection for its link-local address: the other would answer.
func prepareVF(s State, c Checkpoint, name string) []node.Step {
	steps := node.PrepareRepresentor(s.State, c.VF.Representor, c.MTU)
	steps = append(steps, node.Sysctls(s.State, c.Bridge, [][2]string{{node.DADTransmits, "0"}})...)
	steps = append(steps, node.Sysctls(s.State, name, [][2]string{{node.RPFilter, "2"}, {node.Forwarding, "1"}, {node.DADTransmits, "0"}})...)
	link := s.Links[name]
	if slices.Equal(link.MAC, net.HardwareAddr(c.MAC)) {
		return append(steps, node.PrepareLink(s.State, name, netdev.Settings{MTU: c.MTU})...)
	}
	if link.Up {
		steps = append(steps, node.SetLink{Name: name, Settings: netdev.Settings{State: netdev.Down}})
	}
	return append(steps, node.SetLink{Name: name, Settings: netdev.Settings{MTU: c.MTU, MAC: net.HardwareAddr(c.MAC), State: netdev.Up}})
}

// planRestoreVF gives the steps that make the VF what it was, after its addresses have gone.
func planRestoreVF(s State, c Checkpoint) []node.Step {
	link, ok := c.VF.link(s)
	if !ok {
		return nil
	}
	var steps []node.Step
	for _, addr := range s.Masquerade[link.Name] {
		steps = append(steps, node.DeleteAddr{Link: link.Name, Addr: addr})
	}
	if link.MTU == c.VF.MTU && slices.Equal(link.MAC, net.HardwareAddr(c.VF.MAC)) {
		return steps
	}
	return append(steps,
		node.SetLink{Name: link.Name, Settings: netdev.Settings{State: netdev.Down}},
		node.SetLink{Name: link.Name, Settings: netdev.Settings{MTU: c.VF.MTU, MAC: net.HardwareAddr(c.VF.MAC)}})
}

// planSettle moves the addresses once the flows lead there. A bridge's own interface that has nothing to say any more
// goes down; a VF that is not to be used any more is restored.
func planSettle(cfg Config, s State, g Gateway) []node.Step {
	if !g.owned() || s.Saved == nil {
		return nil
	}
	c := s.Saved.clone()
	on := readied(s, c)
	var steps []node.Step
	if index := s.Links[on].Index; c.Index != index {
		steps = append(prepare(cfg, s, c, on), place(s, c, on)...)
		c.Index = index
		steps = append(steps, save{cfg.Checkpoint, c})
	}
	switch {
	case on == g.Bridge && c.leaves(s):
		steps = append(steps, planRestoreVF(s, c)...)
		c.VF = nil
		return append(steps, gatewayRows(cfg, c, true), save{cfg.Checkpoint, c})
	case on == g.Bridge:
		return steps
	}
	if s.Links[g.Bridge].Up {
		steps = append(steps, node.SetLink{Name: g.Bridge, Settings: netdev.Settings{State: netdev.Down}})
	}
	if len(c.Trial) > 0 {
		c.Trial = nil
		steps = append(steps, node.Verify{Probes: s.Saved.Trial}, save{cfg.Checkpoint, c})
	}
	return steps
}

// look observes, and asks which VF gets the node's addresses. Without an answer, the VF that has them keeps them.
func (s *Setup) look(ctx context.Context) (State, error) {
	st, err := s.observe(ctx)
	if err != nil || s.deps.VF == nil || s.cfg.Datapath != DatapathSystem {
		return st, err
	}
	f, problem := s.deps.VF()
	wait := time.Until(s.vfRetry)
	switch {
	case problem != nil && st.Saved != nil && st.Saved.VF != nil:
		f = &node.VF{Device: st.Saved.VF.Device, Representor: st.Saved.VF.Representor}
	case problem == nil && f != nil && wait > 0:
		problem = fmt.Errorf("VF %s did not work, and is tried again in %s", f.Device, wait.Round(time.Second))
		f = nil
	}
	st.VF = f
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vfProblem = nil
	if problem != nil {
		s.vfProblem = fmt.Errorf("gateway VF: %w", problem)
	}
	return st, nil
}

// settle ends a move, and gives the state after it. The addresses go back to the bridge if the VF has cut the node off.
func (s *Setup) settle(ctx context.Context, st *State, g Gateway) error {
	steps := planSettle(s.cfg, *st, g)
	err := s.bridge.Run(ctx, steps)
	switch {
	case err != nil && hostPort(*st, g) != 0:
		s.quarantine(g, err)
	case err == nil && len(steps) > 0:
		services, second := st.Services, st.Second
		*st, err = s.look(ctx)
		st.Services, st.Second = services, second
	}
	if err != nil {
		return err
	}
	if lacking := vfLacks(*st, g); lacking != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.vfProblem = cmp.Or(s.vfProblem, lacking)
	}
	return nil
}

// vfLacks says why a VF that is to have the node's addresses does not.
func vfLacks(s State, g Gateway) error {
	f := s.VF
	if f == nil || hostLink(s, g) != g.Bridge {
		return nil
	}
	if !g.owned() {
		return node.NotReady("gateway VF: bridge %s is the host's own, and keeps its addresses", g.Bridge)
	}
	if _, ok := (&CheckpointVF{Device: f.Device}).link(s); !ok {
		return node.NotReady("gateway VF: %s has no netdev here", f.Device)
	}
	return node.NotReady("gateway VF: ovs-vswitchd has not opened %s, the representor of %s", f.Representor, f.Device)
}

// quarantine makes the next passes do without the VF.
func (b *bridge) quarantine(g Gateway, cause error) {
	b.vfRetry = time.Now().Add(retryPause)
	b.Deps.Logger.Warn("the node's addresses go back from the VF to the gateway bridge", "device", g.Bridge, "error", cause)
}

// GatewayVFProblem says why the VF that is named for it does not have the node's addresses; nil also when none is
// named.
func (s *Setup) GatewayVFProblem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vfProblem
}

func (v *CheckpointVF) equal(o *CheckpointVF) bool {
	if v == nil || o == nil {
		return v == o
	}
	return v.Device == o.Device && v.Representor == o.Representor && v.MTU == o.MTU && slices.Equal(v.MAC, o.MAC)
}
