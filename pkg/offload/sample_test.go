package offload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// script is a Switch with prepared answers. Each dump takes a second, and slow more once.
type script struct {
	dumps [][]string
	at    int
	slow  time.Duration
	// busy is the processor time of a dump; 0: the process cannot be read.
	busy, used time.Duration
}

func (s *script) Instance() (unixctl.Instance, error) { return unixctl.Instance{PID: 1}, nil }

func (s *script) ProcessorTime() (time.Duration, error) {
	if s.busy == 0 {
		return 0, errors.New("no such process")
	}
	return s.used, nil
}

func (s *script) Call(context.Context, string, ...string) (string, error) {
	return "system@ovs-system\n", nil
}

func (s *script) Lines(_ context.Context, line func(string) error, _ string, _ ...string) error {
	time.Sleep(time.Second + s.slow)
	s.slow = 0
	s.used += s.busy
	dump := s.dumps[min(s.at, len(s.dumps)-1)]
	s.at++
	if dump == nil {
		return errors.New("away")
	}
	for _, l := range dump {
		if err := line(l); err != nil {
			return err
		}
	}
	return nil
}

func flow(packets int) string {
	return fmt.Sprintf("ufid:1, recirc_id(0),in_port(rep0), packets:%d, bytes:%d, used:0.1s, offloaded:yes, dp:tc, actions:rep1", packets, packets)
}

func TestSampler_ReportsAtEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sw := &script{dumps: [][]string{{flow(10), "nonsense"}, {flow(30)}, nil, {flow(50)}}}
		s := Sampler{
			Switch: sw, Interval: 10 * time.Second,
			State: func() State { return State{Ports: []Port{web}, Settings: Settings{HWOffload: true}} },
		}
		ctx, cancel := context.WithCancel(t.Context())
		var story []string
		began := time.Now()
		s.Run(ctx, func(got Sample, d *Delta) {
			text := fmt.Sprintf("%s flows %d malformed %d", got.At.Sub(began), got.Report.Total.Hardware.Flows, got.Report.Malformed)
			if d != nil {
				text += fmt.Sprintf(" packets %d", d.Ports[0].From.Hardware.Packets)
			}
			if story = append(story, text); len(story) == 4 {
				cancel()
			}
		}, func(err error) { story = append(story, err.Error()) })
		// 1 % of the time: a dump of one second is followed by a hundred of rest.
		want := "0s flows 1 malformed 1; 1m41s flows 1 malformed 0 packets 20; " +
			"dumping the flows of system@ovs-system: away; 5m3s flows 1 malformed 0"
		if got := strings.Join(story, "; "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// TestSampler_RestsByProcessorTime: a node whose processors are busy is no reason to rest long; work is one. Without
// processor time, the duration of the dump decides.
func TestSampler_RestsByProcessorTime(t *testing.T) {
	for name, c := range map[string]struct{ busy, slow, want time.Duration }{
		"slow, little work": {10 * time.Millisecond, time.Minute, 61*time.Second + time.Second},
		"slow, much work":   {2 * time.Second, time.Minute, 61*time.Second + 200*time.Second},
		"fast, much work":   {900 * time.Millisecond, 0, time.Second + 90*time.Second},
		"slow, not read":    {0, time.Second, 2*time.Second + 200*time.Second},
		"very slow, unread": {0, time.Minute, 61*time.Second + 300*time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := Sampler{
				Switch: &script{dumps: [][]string{{flow(10)}}, slow: c.slow, busy: c.busy}, Interval: time.Millisecond,
				State: func() State { return State{} },
			}
			ctx, cancel := context.WithCancel(t.Context())
			began, samples := time.Now(), 0
			var second time.Duration
			s.Run(ctx, func(got Sample, _ *Delta) {
				if samples++; samples == 2 {
					second = got.At.Sub(began)
					cancel()
				}
			}, func(err error) { t.Error(err) })
			if second != c.want {
				t.Errorf("%s: the second sample after %s, want %s", name, second, c.want)
			}
		})
	}
}

// TestMeasureDump_OfAnotherProcess: after a restart, the processor time is not that of one process.
func TestMeasureDump_OfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sw := &script{busy: time.Second, used: time.Hour}
		busy := MeasureDump(sw)
		time.Sleep(time.Minute)
		sw.used = time.Second
		if got := busy(); got != time.Minute {
			t.Errorf("%s, want the time that passed", got)
		}
	})
}

// A dump that waited for a processor does not keep the sampler away for as long as one percent asks.
func TestSampler_ALongDumpIsNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Sampler{Switch: &script{dumps: [][]string{{flow(10)}}, slow: time.Minute}, State: func() State { return State{} }}
		ctx, cancel := context.WithCancel(t.Context())
		var samples []time.Duration
		began := time.Now()
		s.Run(ctx, func(got Sample, _ *Delta) {
			if samples = append(samples, got.At.Sub(began)); len(samples) == 3 {
				cancel()
			}
		}, func(err error) { t.Error(err) })
		if want := []time.Duration{0, 6*time.Minute + time.Second, 7*time.Minute + 42*time.Second}; !slices.Equal(samples, want) {
			t.Errorf("samples at %v, want %v", samples, want)
		}
	})
}

// An idle sampler asks nothing, and takes no delta over the time.
func TestSampler_IdleAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sw := &script{dumps: [][]string{{flow(10)}}}
		began := time.Now()
		s := Sampler{
			Switch: sw, Interval: 10 * time.Second, State: func() State { return State{} },
			Idle: func() bool {
				now := time.Since(began)
				return now < time.Minute || now > 2*time.Minute && now < 4*time.Minute
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var story []string
		s.Run(ctx, func(got Sample, d *Delta) {
			if story = append(story, fmt.Sprint(got.At.Sub(began), " ", d != nil)); len(story) == 2 {
				cancel()
			}
		}, func(err error) { t.Error(err) })
		if got := strings.Join(story, "; "); got != "1m0s false; 4m1s false" {
			t.Error(got)
		}
	})
}

// bare is a switch without a bridge.
type bare struct {
	script
	text string
}

func (b *bare) Call(context.Context, string, ...string) (string, error) {
	return "", fmt.Errorf("asking: %w", &unixctl.Refused{Method: "dpctl/dump-dps", Text: b.text})
}

func TestRead_NoDatapathIsNoError(t *testing.T) {
	if r, err := Read(t.Context(), &bare{text: "\n"}, State{Settings: Settings{HWOffload: true}}); err != nil || !r.Settings.HWOffload {
		t.Errorf("no datapath: %+v, %v", r, err)
	}
	if _, err := Read(t.Context(), &bare{text: "permission denied"}, State{}); err == nil {
		t.Error("a refusal was taken for an answer")
	}
}

// TestRead_RealSwitchIsUnderstood asks an ovs-vswitchd with a datapath in userspace and dummy
// links, which needs neither root nor the kernel's part.
func TestRead_RealSwitchIsUnderstood(t *testing.T) {
	dir := startSwitch(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	sw := unixctl.Client{Dir: dir, Daemon: "ovs-vswitchd"}
	run(t, dir, "ovs-vsctl", "--db=unix:"+filepath.Join(dir, "db.sock"), "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy",
		"--", "add-port", "br0", "rep0", "--", "set", "interface", "rep0", "type=dummy",
		"--", "add-port", "br0", "rep1", "--", "set", "interface", "rep1", "type=dummy")
	const packet = "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800)," +
		"ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1000,dst=53)"
	state := State{
		Ports: []Port{
			{Name: "rep0", Pod: contract.PodOwner("shop", "web"), Device: Device{Representor: true, HWTC: true, Function: true}},
			{Name: "rep1", Device: Device{Representor: true, HWTC: true}},
		},
	}
	// The first packet makes the flow; those after it are counted, some time after.
	for {
		if _, err := sw.Call(ctx, "netdev-dummy/receive", "rep0", packet); err != nil {
			t.Fatal(err)
		}
		report, err := Read(ctx, sw, state)
		if err != nil {
			t.Fatal(err)
		}
		if report.Malformed > 0 {
			t.Fatalf("%d lines not understood", report.Malformed)
		}
		rep0, rep1 := report.Ports[0], report.Ports[1]
		if rep0.From.OVS.Packets > 0 && rep1.To.OVS.Packets == rep0.From.OVS.Packets {
			if len(rep0.Outside) != 1 || rep0.Outside[0].Reason != ReasonOff {
				t.Errorf("%+v", rep0.Outside)
			}
			break
		}
	}
	if used, err := sw.ProcessorTime(); err != nil || used <= 0 || used > time.Hour {
		t.Errorf("processor time %s, %v", used, err)
	}
	var refused *unixctl.Refused
	if err := sw.Lines(ctx, func(string) error { return nil }, "dpctl/dump-flows", "type=nonsense"); !errors.As(err, &refused) {
		t.Error(err)
	}
}

func startSwitch(t *testing.T) string {
	t.Helper()
	ovsdbtest.Need(t, "ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl")
	const schema = "/usr/share/openvswitch/vswitch.ovsschema"
	if _, err := os.Stat(schema); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "ovs") // short: the path of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run(t, dir, "ovsdb-tool", "create", filepath.Join(dir, "conf.db"), schema)
	db := "unix:" + filepath.Join(dir, "db.sock")
	// Both say that they are ready by putting themselves into the background.
	run(t, dir, "ovsdb-server", filepath.Join(dir, "conf.db"), "--remote=p"+db, "--pidfile", "--detach", "--no-chdir", "--log-file=/dev/null")
	t.Cleanup(func() { stop(t, dir, "ovsdb-server") })
	run(t, dir, "ovs-vsctl", "--db="+db, "--no-wait", "init")
	run(t, dir, "ovs-vswitchd", db, "--enable-dummy", "--disable-system", "--pidfile", "--detach", "--no-chdir", "--log-file=/dev/null")
	t.Cleanup(func() { stop(t, dir, "ovs-vswitchd") })
	return dir
}

func stop(t *testing.T, dir, daemon string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := (unixctl.Client{Dir: dir, Daemon: daemon}).Call(ctx, "exit"); err != nil {
		t.Errorf("stopping %s: %v", daemon, err)
	}
}

func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+dir, "OVS_LOGDIR="+dir, "OVS_DBDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}
