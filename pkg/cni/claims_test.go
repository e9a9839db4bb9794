package cni

import (
	"errors"
	"testing"

	cnitypes "github.com/containernetworking/cni/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// TestSweep_DetachesDeviceOfLostDEL: the plugin answers a DEL while no agent runs, and the runtime does not repeat it.
// The agent detaches the device at its start, or with the sweep after the deletion of the pod's namespace, and
// publishes the claims.
func TestSweep_DetachesDeviceOfLostDEL(t *testing.T) {
	podGoes := func(n *nic) { n.putPod(web, nil) }
	namespaceEnds := func(n *nic) { n.net.RemoveNS("/ns/a") }
	for name, tt := range map[string]struct{ away, later []func(*nic) }{
		"the pod is gone, its sandbox lives": {away: []func(*nic){podGoes}, later: []func(*nic){namespaceEnds}},
		"its sandbox is gone, the pod known": {away: []func(*nic){namespaceEnds}, later: []func(*nic){podGoes}},
		"both are gone":                      {away: []func(*nic){podGoes, namespaceEnds}},
		"its sandbox ends after the start":   {later: []func(*nic){namespaceEnds}},
		"the pod goes after the start":       {later: []func(*nic){podGoes}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNIC(t)
			n.mustDo(addWeb(sandboxA, "/ns/a"))
			for _, happens := range tt.away {
				happens(n)
			}
			n.start()
			changes := 0
			n.led.OnChange(func() { changes++ })
			must(t, n.srv.Sweep(t.Context()))
			if tt.away == nil {
				n.wantIn("/ns/a", sandboxA)
			} else {
				n.wantDetached()
			}
			for _, happens := range tt.later {
				happens(n)
				must(t, n.srv.Sweep(t.Context()))
			}
			n.wantDetached()
			if changes != 2 { // an orphan, then free
				t.Errorf("%d changes", changes)
			}
			n.mustDo(delWeb(sandboxA, "")) // late
			n.wantDetached()
		})
	}
}

// TestSweep_IsDueWhenPodGoesWithoutDEL: the API has the pod no more, or another one of its name,
// and its device is still with it.
func TestSweep_IsDueWhenPodGoesWithoutDEL(t *testing.T) {
	for name, goes := range map[string]func(*nic){
		"gone":     func(n *nic) { n.putPod(web, nil) },
		"replaced": func(n *nic) { n.setPod(web, "new", webNetwork) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNIC(t)
			n.mustDo(addWeb(sandboxA, "/ns/a"))
			n.srv.Changed(web, contract.PodOwner("default", "other"))
			if len(n.srv.dirty) != 0 {
				t.Error("a sweep is due without need")
			}
			goes(n)
			n.srv.Changed(web)
			if len(n.srv.dirty) != 1 {
				t.Error("no sweep is due")
			}
			must(t, n.srv.Sweep(t.Context()))
			n.wantDetached()
			n.mustDo(delWeb(sandboxA, "/ns/a")) // late
			n.wantDetached()
		})
	}
}

// TestSweep_DetachesVFBeforeNodeIsSetUp: the agent detaches the VF of a deleted pod while the
// node's set-up is running, which may never end. A live pod keeps its VF.
func TestSweep_DetachesVFBeforeNodeIsSetUp(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(*nic)
		swept  func(*nic) bool
		after  func(*nic)
	}{
		"the pod is gone": {
			func(n *nic) { n.putPod(web, nil) },
			func(n *nic) bool { return len(n.led.Claims()) == 0 },
			(*nic).wantDetached,
		},
		"the pod lives, and misses its representor": {
			func(n *nic) { must(n.t, n.host.SetLink("rep0", netdev.Settings{MTU: 1500, State: netdev.Down})) },
			func(n *nic) bool {
				rep, err := n.host.Link("rep0")
				return err == nil && rep.Up && !n.srv.commands.busy(web)
			},
			func(n *nic) { n.wantIn("/ns/a", sandboxA) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNIC(t)
			n.mustDo(addWeb(sandboxA, "/ns/a"))
			tt.before(n)
			n.start()
			n.mtu, n.srv.deps.Ready = 0, func() error { return errors.New("node set-up has just begun") }
			n.sweeps()
			until(t, "the sweep", func() bool { return tt.swept(n) })
			tt.after(n)
			if _, err := n.do(addWeb(sandboxB, "/ns/b")); codeOf(err) != cnitypes.ErrTryAgainLater {
				t.Errorf("an ADD meanwhile: %v", err)
			}
			n.srv.deps.Ready = nil // the MTU alone is missing
			if _, err := n.do(addWeb(sandboxB, "/ns/b")); codeOf(err) != cnitypes.ErrTryAgainLater || !contains(err, "MTU") {
				t.Errorf("an ADD without an MTU: %v", err)
			}
		})
	}
}
