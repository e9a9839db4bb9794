package openflow

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// ovs is a switch of its own with dummy devices: no root, no kernel.
type ovs struct {
	t        *testing.T
	dir      string
	vswitchd *exec.Cmd
}

func startOVS(t *testing.T) *ovs {
	t.Helper()
	ovsdbtest.Need(t, "ovsdb-server", "ovs-vswitchd", "ovs-ofctl", "ovs-vsctl")
	dir, err := os.MkdirTemp("", "of") // short: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("OVS_RUNDIR", dir)
	o := &ovs{t: t, dir: dir}
	o.run("ovsdb-tool", "create", dir+"/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
	o.start("ovsdb-server", "--remote=punix:"+dir+"/db.sock", dir+"/conf.db")
	o.waitFor("db.sock")
	o.run("ovs-vsctl", "--no-wait", "--db=unix:"+dir+"/db.sock", "init")
	o.startSwitch()
	o.run("ovs-vsctl", "--db=unix:"+dir+"/db.sock", "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy")
	o.waitFor("br0.mgmt")
	return o
}

func (o *ovs) startSwitch() {
	o.vswitchd = o.start("ovs-vswitchd", "--enable-dummy=override", "--disable-system", "unix:"+o.dir+"/db.sock")
}

func (o *ovs) start(name string, args ...string) *exec.Cmd {
	o.t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func (o *ovs) run(name string, args ...string) {
	o.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		o.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func (o *ovs) waitFor(name string) {
	o.t.Helper()
	await(o.t, filepath.Join(o.dir, name))
}

func (o *ovs) bridge() string { return filepath.Join(o.dir, "br0.mgmt") }

func (o *ovs) dump() (flows []string) {
	o.t.Helper()
	if err := tables.Dump(o.t.Context(), o.bridge(), "", func(flow string) { flows = append(flows, flow) }); err != nil {
		o.t.Fatal(err)
	}
	return flows
}

var tables = Tables{Log: slog.New(slog.DiscardHandler)}

var wanted = []string{"priority=100,in_port=LOCAL actions=NORMAL", "priority=50 actions=drop"}

func TestReplace_WritesWantedFlows(t *testing.T) {
	o := startOVS(t)
	if cmp.Equal(wanted, o.dump()) {
		t.Fatal("the bridge has the wanted flows before they were written")
	}
	for range 2 { // the second time changes nothing
		if err := tables.Replace(t.Context(), o.bridge(), wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, o.dump()); diff != "" {
			t.Errorf("flows (-want +got):\n%s", diff)
		}
	}
}

func TestReplace_BadTableChangesNothing(t *testing.T) {
	o := startOVS(t)
	if err := tables.Replace(t.Context(), o.bridge(), wanted); err != nil {
		t.Fatal(err)
	}
	if err := tables.Replace(t.Context(), o.bridge(), []string{"priority=1,actions=drop", "priority=2,actions=nonsense"}); err == nil {
		t.Error("a flow that does not parse was accepted")
	}
	if diff := cmp.Diff(wanted, o.dump()); diff != "" {
		t.Errorf("a refused table changed the bridge (-want +got):\n%s", diff)
	}
}

func TestWatch_ReportsChangedFlows(t *testing.T) {
	o := startOVS(t)
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		tables.Watch(ctx, o.bridge(), func(string) { signal(changed) })
		close(ended)
	}()
	next := func(what string) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatalf("no event after %s", what)
		}
	}
	next("connecting")
	if err := tables.Replace(t.Context(), o.bridge(), wanted); err != nil {
		t.Fatal(err)
	}
	next("flows were written")
	drain(changed)
	o.run("ovs-ofctl", "del-flows", o.bridge())
	next("another process removed the flows")
	drain(changed)
	o.vswitchd.Process.Kill()
	o.vswitchd.Wait()
	o.startSwitch()
	next("the switch restarted")
	cancel()
	<-ended
}

// TestDump_GivesMatchingFlowsAndGroups: flows of one address, of one table, and one group of three.
func TestDump_GivesMatchingFlowsAndGroups(t *testing.T) {
	o := startOVS(t)
	for _, id := range []string{"3", "4", "33"} {
		o.run("ovs-ofctl", "-O", version, "add-group", o.bridge(), "group_id="+id+",type=select,bucket=actions=ct(commit,nat(dst=10.0.0."+id+":80))")
	}
	one := "udp,nw_dst=10.96.0.1,tp_dst=80 actions=load:0x1->NXM_NX_REG10[3],group:3"
	other := "table=2, udp,nw_dst=10.96.0.2,tp_dst=80 actions=group:4"
	if err := tables.Replace(t.Context(), o.bridge(), []string{one, other, "ip actions=drop"}); err != nil {
		t.Fatal(err)
	}
	for match, want := range map[string][]string{"ip,nw_dst=10.96.0.1": {one}, "table=2": {other}, "ip,nw_dst=10.96.0.3": nil} {
		var got []string
		if err := tables.Dump(t.Context(), o.bridge(), match, func(flow string) { got = append(got, flow) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", match, diff)
		}
	}
	for id, want := range map[string]int{"": 3, "3": 1, "5": 0} {
		n := 0
		if err := tables.Groups(t.Context(), o.bridge(), id, func(group string) { n += strings.Count(group, "nat(dst=10.0.0.") }); err != nil || n != want {
			t.Errorf("group %q: %d, %v", id, n, err)
		}
	}
}

// TestDump_JoinsPiecesOfOutput: the pieces of a program's output may end within a line.
func TestDump_JoinsPiecesOfOutput(t *testing.T) {
	long := strings.Repeat("x", 200000)
	bin := t.TempDir()
	dump := "#!/bin/sh\nprintf ' a'; sleep 0.1; printf 'b\\n\\nc\\n'; head -c 200000 /dev/zero | tr '\\0' x\necho; exit $FAILS\n"
	if err := os.WriteFile(filepath.Join(bin, "ovs-ofctl"), []byte(dump), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, fails := range []string{"0", "1"} {
		t.Setenv("FAILS", fails)
		var got []string
		if err := tables.Groups(t.Context(), "br0", "", func(group string) { got = append(got, group) }); (err != nil) != (fails == "1") {
			t.Errorf("a program that ends with %s: %v", fails, err)
		}
		if diff := cmp.Diff([]string{"ab", "", "c", long}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestWatch_ContinuesAfterLongFlow: a flow with more actions than a scanner's default would end
// the watch without an error, because ovs-ofctl waits until the rest is read.
func TestWatch_ContinuesAfterLongFlow(t *testing.T) {
	bin := t.TempDir()
	monitor := "#!/bin/sh\nhead -c 200000 /dev/zero | tr '\\0' x\necho; echo group:1; exec sleep 60\n"
	if err := os.WriteFile(filepath.Join(bin, "ovs-ofctl"), []byte(monitor), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	changed := make(chan struct{}, 1)
	go tables.Watch(t.Context(), "br0", func(flow string) {
		if flow == "group:1" {
			signal(changed)
		}
	})
	select {
	case <-changed:
	case <-time.After(20 * time.Second):
		t.Error("no event for a change after a flow of 200 kB")
	}
}

func signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// drain waits until no event has come for a moment: one change may be several.
func drain(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}

// TestReplace_IsWholeAfterAKill: a process that is killed after it has started ovs-ofctl leaves ovs-ofctl the whole table,
// not the part that was written until then. The table is larger than a pipe.
func TestReplace_IsWholeAfterAKill(t *testing.T) {
	table := strings.Split(strings.Repeat("priority=1,actions=NORMAL\n", 5000), "\n")
	if dir := os.Getenv("REPLACE_AND_DIE"); dir != "" {
		t.Fatal(Tables{}.Replace(t.Context(), "br0", table))
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	slow := "#!/bin/sh\ntouch started\nuntil [ -e killed ]; do sleep 0.01; done\ncat >taken\nmv taken table\n"
	if err := os.WriteFile(at("ovs-ofctl"), []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "REPLACE_AND_DIE="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, at("started"))
	cmd.Process.Kill()
	cmd.Wait()
	if err := os.WriteFile(at("killed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, at("table"))
	got, err := os.ReadFile(at("table"))
	if want := strings.Join(table, "\n") + "\n"; err != nil || string(got) != want {
		t.Errorf("%v: ovs-ofctl has %d of %d bytes of the table", err, len(got), len(want))
	}
}

func await(t *testing.T, file string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
	}
	t.Fatalf("no %s after 20s", file)
}
