package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// slowSwitch is a switch that answers late, or never.
type slowSwitch struct {
	flowTables
	slow  bool
	takes time.Duration
}

func (f *slowSwitch) Replace(ctx context.Context, bridge string, flows []string) error {
	if f.slow {
		return fmt.Errorf("ovs-ofctl: %w", context.DeadlineExceeded)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(f.takes):
	}
	return f.flowTables.Replace(ctx, bridge, flows)
}

// TestSetup_SucceedsWithSlowCommands: on a machine short of time a node is set up all the same.
func TestSetup_SucceedsWithSlowCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.ovnController()
		s := b.setup(t)
		s.deps.Flows = &slowSwitch{flowTables: flowTables{}, takes: programTimeout / 2}
		converge(t, s)
	})
}

// TestReady_SurvivesOneFailedPass: one failed pass of a ready node leaves the node ready. Two failed passes do not, nor
// does one that finds something gone, or one of a node that has never been ready.
func TestReady_SurvivesOneFailedPass(t *testing.T) {
	const fine, slow, gone, begun = "fine", "slow", "gone", "begun"
	for _, c := range []struct {
		before []string
		ready  bool
	}{
		{[]string{fine, slow}, true},
		{[]string{fine, slow, slow}, false},
		{[]string{fine, slow, slow, slow}, false},
		{[]string{fine, slow, slow, fine}, true},
		{[]string{fine, slow, fine, slow}, true},
		{[]string{fine, slow, slow, fine, slow}, true},
		{[]string{fine, gone}, false},
		{[]string{fine, slow, gone}, false},
		{[]string{fine, gone, slow}, false},
		{[]string{fine, gone, fine, slow}, true},
		{[]string{fine, begun, slow}, false},
		{[]string{fine, begun, slow, fine, slow}, true},
	} {
		b := newBench(t)
		b.ovnController()
		flows := &slowSwitch{flowTables: flowTables{}}
		agent := func() *Setup {
			s := b.setup(t)
			s.deps.Flows = flows
			return s
		}
		s := agent()
		for _, now := range c.before {
			flows.slow = now == slow
			b.makeSwitchLinks()
			switch now {
			case fine:
				converge(t, s)
				continue
			case begun:
				s = agent()
				continue
			case gone:
				b.removeSwitchLinks()
			}
			if err := s.pass(t.Context()); err == nil || now == slow != errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%v: the pass gives %v", c.before, err)
			}
		}
		if got := s.Ready(); (got == nil) != c.ready {
			t.Errorf("after %v: %v", c.before, got)
		}
	}
}

// countingHost has something done to it before a look at its links.
type countingHost struct {
	node.Netns
	before map[int]func()
	looks  int
}

func (h *countingHost) Links() ([]netdev.Link, error) {
	h.looks++
	if do := h.before[h.looks]; do != nil {
		do()
	}
	return h.Netns.Links()
}

// TestSetup_RestoresAddressDeletedDuringPass: an address of the node that is deleted between two observations of a pass
// is restored. Neither the tunnels nor the MTU of pods follow the address that is left: the agent would restart for
// that.
func TestSetup_RestoresAddressDeletedDuringPass(t *testing.T) {
	for look := 1; ; look++ {
		b := newBench(t)
		b.ovnController()
		s := b.setup(t)
		converge(t, s)
		settings := maps.Clone(b.db.settings)
		host := &countingHost{Netns: b.host, before: map[int]func(){look: func() { nodetest.Must(t, b.host.DeleteAddr("breth0", nodeV4)) }}}
		s.Deps.Netns = host
		s.end = func(err error) { t.Errorf("deleted before look %d: the agent ends: %v", look, err) }
		err := s.pass(t.Context())
		if host.looks < look {
			if look < 3 {
				t.Errorf("a pass has %d looks", host.looks)
			}
			return
		}
		if changed := !maps.Equal(b.db.settings, settings); changed {
			t.Errorf("deleted before look %d: the settings are %v, were %v; %v", look, b.db.settings, settings, err)
		}
		converge(t, s)
		if addrs, err := b.host.Addrs("breth0"); !slices.Contains(addrs, nodeV4) {
			t.Errorf("deleted before look %d: the bridge has %v, %v", look, addrs, err)
		}
	}
}
