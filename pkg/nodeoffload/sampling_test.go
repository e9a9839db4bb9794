package nodeoffload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// fakeOVS is a switch and its database. Its one flow is from the representor
// of VF 0, and carries a thousand packets a second.
type fakeOVS struct {
	began  time.Time
	config map[string]string

	mu    sync.Mutex
	place string
	away  error
	dumps int
	known *vf.Inventory
}

// set changes it while it is being asked.
func (f *fakeOVS) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeOVS) gone() (err error) { f.set(func() { err = f.away }); return err }

func (f *fakeOVS) inventory() (inv *vf.Inventory) { f.set(func() { inv = f.known }); return inv }

func (f *fakeOVS) Instance() (unixctl.Instance, error) { return unixctl.Instance{PID: 9}, f.gone() }

func (f *fakeOVS) ProcessorTime() (time.Duration, error) { return 0, f.gone() }

func (f *fakeOVS) Call(context.Context, string, ...string) (string, error) {
	return "system@ovs", f.gone()
}

func (f *fakeOVS) Lines(_ context.Context, line func(string) error, _ string, _ ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dumps++
	return line(fmt.Sprintf("ufid:1, recirc_id(0),in_port(ens1f0npf0vf0), packets:%d, bytes:0, used:0.1s, %s, actions:ens1f0np0",
		1000*int(time.Since(f.began).Seconds()), f.place))
}

func (f *fakeOVS) Table(name string) []any {
	if name == vswitch.OpenvSwitchTable {
		return []any{&vswitch.OpenvSwitch{OtherConfig: f.config}}
	}
	return []any{
		&vswitch.Interface{Name: "ens1f0npf0vf0", ExternalIDs: map[string]string{ovsdb.OwnerKey: "Pod/default/web"}},
		&vswitch.Interface{Name: "ens1f0np0"},
	}
}

type events struct{ text []string }

func (e *events) Warn(owner contract.Owner, reason, note string) {
	e.text = append(e.text, fmt.Sprintf("warn %s %s %s", owner, reason, note))
}

func (e *events) Note(owner contract.Owner, reason, _ string) {
	e.text = append(e.text, fmt.Sprintf("note %s %s", owner, reason))
}

func TestSampling_ReportsTrafficAndEvents(t *testing.T) {
	inv, legacy := inventory(t, "connectx6dx-switchdev"), inventory(t, "connectx6dx-legacy")
	synctest.Test(t, func(t *testing.T) {
		running, err := offload.LoadRunning(filepath.Join(t.TempDir(), "running"))
		if err != nil {
			t.Fatal(err)
		}
		const outside, inside = "offloaded:no, dp:tc", "offloaded:yes, dp:tc"
		ovs := &fakeOVS{began: time.Now(), place: outside, config: map[string]string{offload.HWOffloadKey: "true"}}
		var written events
		var log bytes.Buffer
		sampled := 0
		registry := prometheus.NewRegistry()
		s := NewSampling(SamplingDeps{
			Switch: ovs, DB: ovs, Running: running, Events: &written, Sampled: func() { sampled++ },
			Inventory: ovs.inventory,
			Logger:    slog.New(slog.NewTextHandler(&log, nil)), Registerer: registry,
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = s.Run(ctx); close(done) }()
		after := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		after(time.Minute)
		ovs.set(func() { ovs.known = legacy })
		after(time.Minute)
		if ovs.dumps != 0 || s.Report() != nil {
			t.Errorf("%d dumps without a device in switchdev mode", ovs.dumps)
		}
		ovs.set(func() { ovs.known = inv })
		after(5 * time.Minute)
		want := "warn Pod/default/web OutsideHardware 1000 packets/s of ens1f0npf0vf0, 100% of its traffic, stay out of hardware: " + offload.ReasonRefused.Explain()
		if len(written.text) != 1 || written.text[0] != want {
			t.Errorf("Events %q", written.text)
		}
		if status := Status(Facts{Inventory: inv, Report: s.Report()}); len(status.Traffic) != 1 || status.Traffic[0].Packets.TC != 100 {
			t.Errorf("traffic %+v", status.Traffic)
		}
		if n, err := testutil.GatherAndCount(registry, "ovn_offload_namespace_packets_total"); n == 0 || err != nil || sampled == 0 {
			t.Errorf("%d series, %v, %d samples published", n, err, sampled)
		}
		ovs.set(func() { ovs.place = inside })
		after(5 * time.Minute)
		if len(written.text) != 2 || written.text[1] != "note Pod/default/web TrafficOffloaded" {
			t.Errorf("Events %q", written.text)
		}
		ovs.set(func() { ovs.away = errors.New("away") })
		after(5 * time.Minute)
		if s.Settings() != nil || strings.Count(log.String(), "cannot be read") != 1 {
			t.Errorf("settings %+v, log %s", s.Settings(), log.String())
		}
		ovs.set(func() { ovs.away = nil })
		after(time.Minute)
		if !strings.Contains(log.String(), "read again") {
			t.Error(log.String())
		}
		stop()
		<-done
	})
}

func TestSwitchPorts_RepresentorsInSwitchdevMode(t *testing.T) {
	ports := switchPorts(inventory(t, "connectx6dx-switchdev"))
	for name, want := range map[string]offload.Device{
		"ens1f0np0":     {Representor: true, HWTC: true},
		"ens1f0npf0vf3": {Representor: true, HWTC: true, Function: true},
		"ens1f1np1":     {}, // legacy
		"ens1f0v0":      {}, // a VF is behind a representor, and none itself
	} {
		if ports[name] != want {
			t.Errorf("%s is %+v, want %+v", name, ports[name], want)
		}
	}
	if ports := switchPorts(inventory(t, "e810-switchdev")); ports["ens2f0npf0vf0"].Limit == "" {
		t.Errorf("the limit of an E810 is not known: %+v", ports)
	}
	if len(switchPorts(nil)) != 0 {
		t.Error("ports of nothing")
	}
}
