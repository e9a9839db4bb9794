package cni

import (
	"errors"
	"testing"

	cnitypes "github.com/containernetworking/cni/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// TestSweep_DetachesDeviceOfLostDEL: the plugin answers a DEL while there is no agent, and nobody
// repeats it. The device goes home at the agent's start, or with the sweep that
// the end of the pod's namespace asks for; whoever publishes claims is told.
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
			told := 0
			n.led.OnChange(func() { told++ })
			must(t, n.srv.Sweep(t.Context()))
			if tt.away == nil {
				n.wantIn("/ns/a", sandboxA)
			} else {
				n.wantHome()
			}
			for _, happens := range tt.later {
				happens(n)
				must(t, n.srv.Sweep(t.Context()))
			}
			n.wantHome()
			if told != 2 { // an orphan, then free
				t.Errorf("told %d times", told)
			}
			n.mustDo(delWeb(sandboxA, "")) // late
			n.wantHome()
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
			n.wantHome()
			n.mustDo(delWeb(sandboxA, "/ns/a")) // late
			n.wantHome()
		})
	}
}

// TestSweep_DetachesVFBeforeNodeIsSetUp: the VF of a pod that is gone goes home while the
// node's set-up goes on, which may take for ever; a pod that lives keeps its own.
func TestSweep_DetachesVFBeforeNodeIsSetUp(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(*nic)
		swept  func(*nic) bool
		after  func(*nic)
	}{
		"the pod is gone": {
			func(n *nic) { n.putPod(web, nil) },
			func(n *nic) bool { return len(n.led.Claims()) == 0 },
			(*nic).wantHome,
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
