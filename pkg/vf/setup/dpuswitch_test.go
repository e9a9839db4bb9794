package setup

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// dpuSwitch is a DPUSwitch with the OVS of a world. The world has its Events.
func dpuSwitch(w *world, ovs OVSControl, changed func()) *DPUSwitch {
	event := func(reason, message string) { w.events = append(w.events, reason+": "+message) }
	return NewDPUSwitch(DPUSwitchDeps{OVS: ovs, Warn: event, Note: event, Changed: changed, Logger: slog.New(slog.NewTextHandler(&w.log, nil))})
}

// TestDPUSwitch_SetsHWOffloadIfUnset: the agent of a DPU sets hw-offload, restarts ovs-vswitchd where this is safe, and
// leaves alone what an administrator has set.
func TestDPUSwitch_SetsHWOffloadIfUnset(t *testing.T) {
	for name, c := range map[string]struct {
		config, running map[string]string
		unsupervised    bool
		asking          error
		steps           []string
		problem         string
		event           string
	}{
		"unset": {steps: []string{"ovs map[hw-offload:true]", "ovs restart"}, event: reasonOffloadSet},
		"unset, unsupervised": {
			unsupervised: true, steps: []string{"ovs map[hw-offload:true]"}, problem: "no service of systemd", event: reasonOffloadOff,
		},
		"unset, systemd does not answer": {
			unsupervised: true, asking: errors.New("access denied"), steps: []string{"ovs map[hw-offload:true]"},
			problem: "because access denied", event: reasonOffloadOff,
		},
		"true":                {config: map[string]string{"hw-offload": "true"}, running: map[string]string{"hw-offload": "true"}},
		"true, restart due":   {config: map[string]string{"hw-offload": "true"}, running: map[string]string{}, steps: []string{"ovs restart"}},
		"false":               {config: map[string]string{"hw-offload": "false"}, running: map[string]string{}, problem: `is "false"`, event: reasonOffloadOff},
		"false, still in use": {config: map[string]string{"hw-offload": "false"}, running: map[string]string{"hw-offload": "true"}, problem: `is "false"`, event: reasonOffloadOff},
		"not a value":         {config: map[string]string{"hw-offload": "yes"}, running: map[string]string{}, problem: `is "yes"`, event: reasonOffloadOff},
		"OVS-DOCA":            {config: map[string]string{"doca-init": "true"}, running: map[string]string{"doca-init": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.supervised = !c.unsupervised
			if c.config != nil {
				w.config, w.running = c.config, c.running
			}
			changed := 0
			d := dpuSwitch(w, asked{w, c.asking}, func() { changed++ })
			for range 2 { // the second pass has nothing to say
				if err := d.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(w.steps, c.steps) {
				t.Errorf("steps %q, want %q", w.steps, c.steps)
			}
			problem := d.Problem()
			if (problem != nil) != (c.problem != "") || problem != nil && !strings.Contains(problem.Error(), c.problem) {
				t.Errorf("problem %v, want %q", problem, c.problem)
			}
			if want := len(c.problem) > 0; (changed == 1) != want {
				t.Errorf("the status has changed %d times", changed)
			}
			warned := slices.ContainsFunc(w.events, func(e string) bool { return strings.HasPrefix(e, c.event) })
			if (c.event != "") != warned || len(w.events) > 2 {
				t.Errorf("Events %q, want one of %s", w.events, c.event)
			}
		})
	}
}

// TestDPUSwitch_ProblemEndsWithItsCause: an administrator corrects the value, and later a restart fails once.
func TestDPUSwitch_ProblemEndsWithItsCause(t *testing.T) {
	w := newWorld(t, nil)
	w.config, w.running = map[string]string{"hw-offload": "false"}, map[string]string{}
	d := dpuSwitch(w, w, func() {})
	if err := d.Reconcile(t.Context()); err != nil || d.Problem() == nil {
		t.Fatal(err, d.Problem())
	}
	delete(w.config, "hw-offload") // by the administrator
	w.crashAt = w.changes + 2
	if err := d.Reconcile(t.Context()); !errors.Is(err, errCrash) || !errors.Is(d.Problem(), errCrash) {
		t.Errorf("error %v, problem %v: want that of the restart", err, d.Problem())
	}
	if err := d.Reconcile(t.Context()); err != nil || d.Problem() != nil || w.restarts != 1 {
		t.Errorf("error %v, problem %v, %d restarts", err, d.Problem(), w.restarts)
	}
	gone := dpuSwitch(w, DPUOVS{}, func() { t.Error("changed") })
	if err := gone.Reconcile(t.Context()); err != nil || gone.Problem() != nil {
		t.Errorf("without OVS: %v, %v", err, gone.Problem())
	}
}

// asked is an OVS whose host could not be asked for its services.
type asked struct {
	*world
	err error
}

func (a asked) Observe() *OVS {
	ovs := a.world.Observe()
	ovs.Unsupervised = a.err
	return ovs
}
