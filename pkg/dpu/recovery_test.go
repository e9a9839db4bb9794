package dpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// A restarted agent applies the changes that it has missed.
func TestRecovery_AgentRestartFollowsMissedChanges(t *testing.T) {
	p := newPair(t)
	p.start()
	for i, name := range []string{"stays", "goes", "moves"} {
		p.running(name, i, name)
	}
	row := p.db.Rows("Pod/default/stays")[0].Model
	p.kill()
	p.deletePod("goes")
	p.write("moves", vfDetails(1, "again"))
	p.addPod("comes")
	p.write("comes", vfDetails(2, "c"))
	p.start()
	p.wantReady("moves", "again")
	p.wantReady("comes", "c")
	p.wantPorts("rep0 default_stays stays", "rep1 default_moves again", "rep2 default_comes c")
	if now := p.db.Rows("Pod/default/stays")[0].Model; now != row {
		t.Error("the restart touched the row of a pod that stayed")
	}
}

// Errors of an agent that stops reach no pod.
func TestRecovery_StoppingAgentWritesNoStatus(t *testing.T) {
	p := newPair(t)
	p.bind(false)
	p.start()
	p.addPod("web")
	p.write("web", vfDetails(0, "s"))
	p.wantPorts("rep0 default_web s")
	agent := p.current()
	p.kill()
	p.write("web", vfDetails(1, "s2"))
	p.until("the informer has it", func() bool {
		return p.view.Pod("default", "web").Annotations[contract.DPUConnectionKey] == vfDetails(1, "s2")
	})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := agent.reconcile(stopped, contract.PodOwner("default", "web")); !errors.Is(err, context.Canceled) {
		t.Errorf("reconcile: %v, want that it was stopped", err)
	}
	if s := p.status("web"); s != nil {
		t.Errorf("the pod got status %+v", s)
	}
	p.bind(true) // negative control: who does not stop tells
	p.start()
	p.wantReady("web", "s2")
}

// TestRecovery_RowsOfFormerBootAreMadeAgain: where no service removes transient ports at boot, a row says that flows are
// there which are gone with the boot. A row of this boot stays as it is, and so does one of a former version.
func TestRecovery_RowsOfFormerBootAreMadeAgain(t *testing.T) {
	for _, tc := range []struct {
		was, is string
		again   bool
	}{{"one", "two", true}, {"one", "one", false}, {"", "two", false}} {
		p := newPair(t)
		p.boot = tc.was
		p.start()
		p.running("web", 0, "s")
		row := p.db.Rows("Pod/default/web")[0].Model.(*vswitch.Port).UUID
		p.kill()
		p.bind(false) // ovn-controller starts later
		p.boot = tc.is
		p.start()
		installed := func() (now bool, uuid string) {
			for _, row := range p.db.Rows("Pod/default/web") {
				switch m := row.Model.(type) {
				case *vswitch.Interface:
					now = m.ExternalIDs["ovn-installed"] == "true" && m.ExternalIDs["ovn-offload.io/boot"] == tc.is
				case *vswitch.Port:
					uuid = m.UUID
				}
			}
			return now, uuid
		}
		if tc.again {
			p.until("the port is made again", func() bool { _, uuid := installed(); return uuid != "" && uuid != row })
			if now, _ := installed(); now {
				t.Errorf("%+v: flows are there before ovn-controller is", tc)
			}
		}
		p.bind(true)
		p.until("the flows are there", func() bool { now, _ := installed(); return now })
		if _, uuid := installed(); (uuid != row) != tc.again {
			t.Errorf("%+v: the port was made again: %t", tc, uuid != row)
		}
		p.wantReady("web", "s")
	}
}

// OVS comes back without the pods' ports, as after a boot, and gets them again.
func TestRecovery_OVSRestartRestoresPorts(t *testing.T) {
	p := newPair(t)
	p.start()
	p.running("web", 0, "s")
	p.killOVS()
	p.write("web", vfDetails(1, "s2"))
	p.ovs.Restart()
	p.wantReady("web", "s2")
	p.wantPorts("rep1 default_web s2")
	p.ovs.Transact(`{"op":"update","table":"Bridge","where":[],"row":{"ports":["set",[]]}}`)
	p.wantPorts("rep1 default_web s2")
	if s := p.status("web"); s.Status != contract.DPUReady {
		t.Errorf("a running pod got status %+v", s)
	}
}

// DPU reboot: agent, ports and functions go, and the functions come back last.
func TestRecovery_DPURebootRestoresPorts(t *testing.T) { onBoth(t, testDPUReboot) }

func testDPUReboot(t *testing.T, p *pair) {
	p.start()
	p.running("web", 0, "s")
	p.kill()
	p.ovs.Transact(`{"op":"update","table":"Bridge","where":[],"row":{"ports":["set",[]]}}`)
	p.devices()
	p.start()
	p.wantError("web", "no function pf0vf0")
	p.wantPorts()
	p.wantEvent("Pod/default/web FunctionLost")
	p.devices("renamed c1pf0vf0", "rep1 c1pf0vf1")
	p.wantReady("web", "s")
	p.wantPorts("renamed default_web s")
}

// OVS comes back after the agent has: what it could not clean up at first is no
// reason to keep the pod's loss to itself.
func TestRecovery_PodGetsErrorAfterOVSIsBack(t *testing.T) {
	p := newPair(t)
	p.start()
	p.running("web", 0, "s")
	p.kill()
	p.killOVS()
	p.devices("rep1 c1pf0vf1")
	p.start()
	p.until("the agent has tried", func() bool {
		agent := p.current()
		agent.mu.Lock()
		defer agent.mu.Unlock()
		_, refused := agent.refused[contract.PodOwner("default", "web")]
		return refused
	})
	p.ovs.Restart()
	p.wantError("web", "no function pf0vf0")
	p.wantEvent("Pod/default/web FunctionLost")
}

// Host reboot: its functions go and come while the DPU lives, its pods are
// other ones or have other sandboxes, and no DEL was ever run.
func TestRecovery_HostRebootReplacesPorts(t *testing.T) { onBoth(t, testHostReboot) }

func testHostReboot(t *testing.T, p *pair) {
	p.start()
	for i, name := range []string{"static", "a", "b"} {
		p.running(name, i, name+"-1")
	}
	p.devices("repsf c1pf0sf88")
	p.wantPorts()
	p.devices("new0 c1pf0vf0", "new1 c1pf0vf1", "new2 c1pf0vf2")
	// The pods run again in other sandboxes; VFs are given in another order.
	p.write("static", vfDetails(2, "static-2"))
	p.deletePod("a")
	p.write("b", vfDetails(0, "b-2"))
	p.wantReady("static", "static-2")
	p.wantReady("b", "b-2")
	p.wantPorts("new2 default_static static-2", "new0 default_b b-2")
}

// A NIC that does not answer for a moment takes no ports away: where so many would
// go at once, the facts are looked at again first.
func TestRecovery_SilentNICKeepsPorts(t *testing.T) {
	p := newPair(t)
	var devices, ports []string
	for i := range 25 {
		devices = append(devices, fmt.Sprintf("rep%d c1pf0vf%d", i, i))
	}
	p.devices(devices...)
	p.start()
	for i := range devices {
		name := fmt.Sprintf("web%d", i)
		p.running(name, i, "s")
		ports = append(ports, fmt.Sprintf("rep%d default_%s s", i, name))
	}
	p.devices() // not a function is left
	p.until("the pass was stopped", func() bool {
		guard := &p.current().guard
		guard.mu.Lock()
		defer guard.mu.Unlock()
		return !guard.since.IsZero()
	})
	p.current().Mark() // a second pass comes soon, and is no second look
	for i := range devices {
		p.current().Changed(contract.PodOwner("default", fmt.Sprintf("web%d", i)))
	}
	p.wantPorts(ports...)
	p.devices(devices...)
	for i := range devices {
		if s := p.status(fmt.Sprintf("web%d", i)); s == nil || s.Status != contract.DPUReady {
			t.Errorf("web%d got status %+v", i, s)
		}
	}
}

// TestRecovery_BusyNICKeepsFewPorts: a NIC that is in no switchdev mode, or does not say so, while a firmware starts or
// VFs are made, takes no ports away, however few there are.
func TestRecovery_BusyNICKeepsFewPorts(t *testing.T) {
	for _, mode := range []vf.Mode{vf.Legacy, vf.NoSwitch, vf.Unknown} {
		p := newPair(t)
		p.start()
		for i, name := range []string{"a", "b"} {
			p.running(name, i, "s")
		}
		busy := clone(p.inv)
		for i := range busy.PFs {
			busy.PFs[i].Eswitch.Mode = mode
		}
		p.current().SetInventory(busy)
		for _, name := range []string{"a", "b"} {
			p.current().Changed(contract.PodOwner("default", name))
		}
		p.addPod("new") // whose turn comes after theirs
		p.write("new", vfDetails(7, "s"))
		if mode != vf.Unknown {
			p.wantError("new", "no function pf0vf7")
		}
		p.wantPorts("rep0 default_a s", "rep1 default_b s")
		p.current().SetInventory(p.inv)
		p.wantReady("a", "s")
		p.wantReady("b", "s")
		p.wantPorts("rep0 default_a s", "rep1 default_b s")
	}
}

// countingPlugger counts how often all ports are asked for.
type countingPlugger struct {
	plug.Plugger
	all int
}

func (c *countingPlugger) Plugged(pods ...contract.Owner) ([]plug.Plugged, error) {
	if len(pods) == 0 {
		c.all++
	}
	return c.Plugger.Plugged(pods...)
}

// TestPorts_RefusalWithoutPortReadsNoOthers: for a pod that has no port no ports are read,
// for one that has they are.
func TestPorts_RefusalWithoutPortReadsNoOthers(t *testing.T) {
	for _, ported := range []bool{false, true} {
		p := newPair(t)
		p.start()
		p.running("web", 0, "s")
		p.addPod("none")
		p.write("none", vfDetails(7, "s"))
		p.wantError("none", "no function pf0vf7")
		agent := p.current()
		p.kill() // its loop is not to count
		counting := &countingPlugger{Plugger: agent.deps.Plugger}
		agent.deps.Plugger = counting
		name := map[bool]string{false: "none", true: "web"}[ported]
		err := agent.refuse(t.Context(), claimant{contract.PodOwner("default", name), p.view.Pod("default", name), new(string)}, nil, agent.facts.devices(), errors.New("a reason"))
		if !errors.Is(err, reconcile.ErrNotReady) || (counting.all > 0) != ported {
			t.Errorf("%s: %v, all ports were looked at %d times", name, err, counting.all)
		}
	}
}

func TestGuard_AllowsMassDeletionAtSecondLook(t *testing.T) {
	start := time.Now()
	g := guard{stopped: func(int, int) {}}
	for _, step := range []struct {
		stale, total int
		noSwitch     bool
		after        time.Duration
		want         bool
	}{
		{20, 20, false, 0, true},  // few
		{30, 300, false, 0, true}, // a tenth
		{31, 300, false, 0, false},
		{31, 300, false, secondLook / 2, false}, // too soon
		{2, 300, false, secondLook / 2, true},   // it was nothing
		{31, 300, false, secondLook, false},     // begins anew
		{31, 300, false, 2 * secondLook, true},
		{0, 3, true, 2 * secondLook, true},
		{3, 3, true, 2 * secondLook, false}, // few, and no NIC that could have any
		{3, 3, true, 3 * secondLook, true},
	} {
		if got := g.allow(step.stale, step.total, step.noSwitch, start.Add(step.after)); got != step.want {
			t.Errorf("%+v: %t", step, got)
		}
	}
}

// Of two pods that claim one function after the ports were lost, the one that
// has the status Ready keeps it.
func TestRecovery_FormerHolderKeepsFunction(t *testing.T) {
	p := newPair(t)
	p.start()
	p.running("zeta", 0, "z")
	p.kill()
	p.ovs.Transact(`{"op":"update","table":"Bridge","where":[],"row":{"ports":["set",[]]}}`)
	p.addPod("alpha")
	p.write("alpha", vfDetails(0, "a"))
	p.start()
	p.wantError("alpha", "default/zeta")
	p.wantPorts("rep0 default_zeta z")
}

// Whatever happened, and whichever events were lost, repeated or late, a pass
// over everything ends where an agent that starts now would.
func TestRecovery_AnyHistoryEndsAsFreshAgent(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := newPair(t)
			p.start()
			random := rand.New(rand.NewPCG(seed, 1))
			names := []string{"a", "b", "c", "d"}
			for _, name := range names {
				p.addPod(name)
			}
			for step := range 30 {
				name := names[random.IntN(len(names))]
				switch random.IntN(6) {
				case 0:
					p.write(name, "")
				case 1:
					p.write(name, "rubbish")
				case 2: // an event that tells nothing
					p.current().Changed(contract.PodOwner("default", name))
				case 3: // events are lost
					p.kill()
					p.write(name, vfDetails(random.IntN(4), fmt.Sprint(step)))
					p.start()
				default:
					p.write(name, vfDetails(random.IntN(4), fmt.Sprint(step)))
				}
			}
			// In the end each has one of its own; VF 3 does not exist.
			want := []string{}
			for i, name := range names {
				p.write(name, vfDetails(i, "end"))
				if i < 3 {
					want = append(want, fmt.Sprintf("rep%d default_%s end", i, name))
				}
			}
			for _, name := range names[:3] {
				p.wantReady(name, "end")
			}
			p.wantError("d", "no function pf0vf3")
			p.wantPorts(want...)
			if n := len(p.db.Table(vswitch.PortTable)); n != 3 {
				t.Errorf("%d ports", n)
			}
		})
	}
}
