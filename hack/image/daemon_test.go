package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
)

// daemon runs the image's start script with the directories of this test.
func daemon(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "rootfs/usr/local/bin/ovn-daemon", args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+dir+"/run", "OVS_SYSCONFDIR="+dir+"/etc", "OVN_RUNDIR="+dir+"/ovn",
		"PATH="+dir+":"+os.Getenv("PATH"), "NODE_NAME=worker", "GATEWAY_INTERFACE=eth0", "BOOT_ID="+dir+"/boot_id")
	return cmd
}

func eventually(t *testing.T, what string, try func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !try(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func pid(t *testing.T, dir, name string) int {
	t.Helper()
	var n int
	eventually(t, "pid of "+name, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "run", name+".pid"))
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil && syscall.Kill(n, 0) == nil
	})
	return n
}

func startOVS(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd, _ := startContainer(t, dir, "netdev")
	eventually(t, "OVS is ready", func() bool { return daemon(t.Context(), dir, "ready", "ovs").Run() == nil })
	return cmd
}

// startContainer starts a container of Open vSwitch, and gives what it says until now.
func startContainer(t *testing.T, dir, datapath string) (cmd *exec.Cmd, said func() string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "boot_id")); err != nil {
		boot(t, dir, "first")
	}
	cmd = daemon(context.Background(), dir, "ovs", datapath)
	// The bridges' taps outlive a switch that is killed, and so stay out of the machine's own network.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	said = func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			t.Log(said())
		}
	})
	return cmd, said
}

// agent writes a script in place of the agent's binary, which records its arguments and the running daemons of OVS.
func agent(t *testing.T, dir string) {
	t.Helper()
	script(t, dir, "ovn-offload-agent", fmt.Sprintf(`echo "$@" >%[1]s/called
for daemon in ovsdb-server ovs-vswitchd; do kill -0 "$(cat %[1]s/run/$daemon.pid)" && echo "with $daemon" >>%[1]s/called; done`, dir))
}

// script replaces a program of the containers.
func script(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// boot is a start of the machine.
func boot(t *testing.T, dir, id string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "boot_id"), []byte(id+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func vsctl(t *testing.T, dir string, args ...string) string {
	t.Helper()
	args = append([]string{"--timeout=10", "--no-wait", "--db=unix:" + dir + "/run/db.sock"}, args...)
	out, err := exec.Command("ovs-vsctl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ovs-vsctl %v: %v: %s", args, err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// TestOVSContainer_WaitsForTheOneBefore: an upgrade starts the new container beside the old one.
func TestOVSContainer_WaitsForTheOneBefore(t *testing.T) {
	needOVS(t)
	dir := t.TempDir()
	agent(t, dir)
	old := startOVS(t, dir)
	switchd, server := pid(t, dir, "ovs-vswitchd"), pid(t, dir, "ovsdb-server")
	next, said := startContainer(t, dir, "netdev")
	eventually(t, "the new container waits", func() bool { return strings.Contains(said(), "waiting for the end") })
	if err := daemon(t.Context(), dir, "ready", "ovs").Run(); err != nil {
		t.Errorf("while the new container waits: %v", err)
	}
	// A container that waits ends at once.
	third, saidThird := startContainer(t, dir, "netdev")
	eventually(t, "a third container waits", func() bool { return strings.Contains(saidThird(), "waiting for the end") })
	end(t, third)
	time.Sleep(500 * time.Millisecond)
	if pid(t, dir, "ovs-vswitchd") != switchd || pid(t, dir, "ovsdb-server") != server {
		t.Error("the waiting container has changed a daemon")
	}
	end(t, old)
	eventually(t, "the new container runs the daemons", func() bool {
		return pid(t, dir, "ovs-vswitchd") != switchd && daemon(t.Context(), dir, "ready", "ovs").Run() == nil
	})
	end(t, next)
}

// TestOVSContainer_KernelsDatapathAtItsEnd: flows go on. The address goes back to the NIC only when no other part would
// move it.
func TestOVSContainer_KernelsDatapathAtItsEnd(t *testing.T) {
	needOVS(t)
	for name, tt := range map[string]struct {
		agent, next bool
		called      string
	}{
		"the agent runs":        {agent: true},
		"a container waits":     {next: true},
		"neither runs or waits": {called: "fail-back --node-name=worker --gateway-interface=eth0 --datapath=system\nwith ovsdb-server\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			agent(t, dir)
			script(t, dir, "modprobe", "exit 0")
			cmd, _ := startContainer(t, dir, "system")
			eventually(t, "OVS is ready", func() bool { return daemon(t.Context(), dir, "ready", "ovs").Run() == nil })
			if tt.agent {
				listen(t, fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid), "127.0.0.1:9410")
			}
			if tt.next {
				_, said := startContainer(t, dir, "system")
				eventually(t, "a container waits", func() bool { return strings.Contains(said(), "waiting for the end") })
				time.Sleep(200 * time.Millisecond) // until it has the lock
			}
			end(t, cmd)
			if called, _ := os.ReadFile(filepath.Join(dir, "called")); string(called) != tt.called {
				t.Errorf("the agent was called with %q, want %q", called, tt.called)
			}
		})
	}
}

// listen takes connections in a network namespace until the test ends.
func listen(t *testing.T, netns, address string) {
	t.Helper()
	ns, err := netdev.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	if err := ns.SetLink("lo", netdev.Settings{State: netdev.Up}); err != nil {
		t.Fatal(err)
	}
	if err := netdevtest.Inside(netns, func() error {
		listener, err := net.Listen("tcp", address)
		if err == nil {
			t.Cleanup(func() { _ = listener.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestOVSContainer_RemovesUplinksThatHaveLeftTheDatapath: they have the host's addresses, which ovs-vswitchd would cut off.
func TestOVSContainer_RemovesUplinksThatHaveLeftTheDatapath(t *testing.T) {
	needOVS(t)
	dir := t.TempDir()
	agent(t, dir)
	script(t, dir, "modprobe", "ip link add ovs-system type bridge; ip link add eth1 type veth peer eth0; ip link set eth1 master ovs-system")
	start := func(datapath string) *exec.Cmd {
		t.Helper()
		cmd, _ := startContainer(t, dir, datapath)
		eventually(t, "OVS is ready", func() bool { return daemon(t.Context(), dir, "ready", "ovs").Run() == nil })
		return cmd
	}
	cmd := start("netdev")
	vsctl(t, dir, "add-br", "br0")
	for port, owner := range map[string]string{
		"eth0": "Node/worker", "eth1": "Node/worker", "eth2": "SecondGateway/worker", "eth3": "PhysicalNetwork/p", "pod": "Pod/default/web",
	} {
		vsctl(t, dir, "add-port", "br0", port, "--", "set", "Interface", port, "external_ids:ovn-offload.io/owner=\""+owner+"\"")
	}
	end(t, cmd)
	for _, tt := range []struct{ datapath, want string }{{"netdev", "eth0 eth1 eth2 eth3 pod"}, {"system", "eth1 eth3 pod"}} {
		cmd := start(tt.datapath)
		if got := vsctl(t, dir, "list-ports", "br0"); got != tt.want {
			t.Errorf("datapath %s: ports %q, want %q", tt.datapath, got, tt.want)
		}
		end(t, cmd)
	}
}

// end ends a container in its grace period.
func end(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(8 * time.Second):
		t.Fatal("SIGTERM does not end the container within its grace period")
	}
}

// TestOVSContainer_RemovesPortsOfPodsAndNICsAtBoot: a container that starts again in the same
// boot keeps them, and so does the first one that records the boot. The port of the NIC is as the agent makes it.
func TestOVSContainer_RemovesPortsOfPodsAndNICsAtBoot(t *testing.T) {
	needOVS(t)
	dir := t.TempDir()
	agent(t, dir)
	cmd := startOVS(t, dir)
	vsctl(t, dir, "add-br", "br0", "--", "add-port", "br0", "uplink", "--",
		"add-port", "br0", "pod1", "--", "set", "Port", "pod1", "other_config:transient=true", "--",
		"add-port", "br0", "pod2", "--", "set", "Port", "pod2", "other_config:transient=true")
	vsctl(t, dir, "add-port", "br0", "eth0")
	for key, value := range node.PortRows("br0", &vswitch.Interface{Name: "eth0"})[0].Model.(*vswitch.Port).OtherConfig {
		vsctl(t, dir, "set", "Port", "eth0", "other_config:"+key+"="+value)
	}
	vsctl(t, dir, "add-port", "br0", "former", "--", "set", "Interface", "former", `external_ids:"ovn-offload.io/owner"="Node/n"`, "--",
		"add-port", "br0", "own", "--", "set", "Interface", "own", "type=internal", `external_ids:"ovn-offload.io/owner"="Node/n"`)
	again := func(when, want string) {
		t.Helper()
		if err := syscall.Kill(cmd.Process.Pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		cmd = startOVS(t, dir)
		if got := vsctl(t, dir, "list-ports", "br0"); got != want {
			t.Errorf("%s: ports %q, want %q", when, got, want)
		}
	}
	again("the same boot", "eth0 former own pod1 pod2 uplink")
	boot(t, dir, "second")
	again("another boot", "own uplink")
	vsctl(t, dir, "add-port", "br0", "pod3", "--", "set", "Port", "pod3", "other_config:transient=true")
	again("the second boot", "own pod3 uplink")
	if err := os.Remove(filepath.Join(dir, "etc", "boot-id")); err != nil {
		t.Fatal(err)
	}
	again("an image from before the record", "own pod3 uplink")
}

func get(t *testing.T, dir, column string) string {
	t.Helper()
	out, err := exec.Command("ovs-vsctl", "--timeout=10", "--db=unix:"+dir+"/run/db.sock", "--if-exists", "get", "Open_vSwitch", ".", column).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", column, err, out)
	}
	return strings.TrimSpace(string(out))
}

func needOVS(t *testing.T) {
	t.Helper()
	for _, need := range []string{"/usr/share/openvswitch/vswitch.ovsschema", "/usr/sbin/ovs-vswitchd"} {
		if _, err := os.Stat(need); err != nil {
			t.Skip("openvswitch-switch is not installed")
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("ovs-vswitchd locks its memory: needs root")
	}
}

func TestOVSContainer_RestartsKilledDaemonAndStops(t *testing.T) {
	needOVS(t)
	dir := t.TempDir()
	agent(t, dir)
	cmd := startOVS(t, dir)
	id := get(t, dir, "external_ids:system-id")
	if tso := get(t, dir, "other_config:userspace-tso-enable"); len(id) < 30 || tso != `"true"` {
		t.Errorf("system-id %s, userspace-tso-enable %s", id, tso)
	}

	for _, name := range []string{"ovs-vswitchd", "ovsdb-server"} {
		other := map[string]string{"ovs-vswitchd": "ovsdb-server", "ovsdb-server": "ovs-vswitchd"}[name]
		killed, kept := pid(t, dir, name), pid(t, dir, other)
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" is back", func() bool {
			return pid(t, dir, name) != killed && daemon(t.Context(), dir, "ready", "ovs").Run() == nil
		})
		if pid(t, dir, other) != kept {
			t.Errorf("killing %s restarted %s", name, other)
		}
	}

	// The agent may end ovs-vswitchd, because the container starts it again.
	switchd := setup.Vswitchd{Client: unixctl.Client{Dir: filepath.Join(dir, "run"), Daemon: "ovs-vswitchd"}}
	before := pid(t, dir, "ovs-vswitchd")
	if err := switchd.Restart(t.Context()); err != nil || pid(t, dir, "ovs-vswitchd") == before {
		t.Errorf("restarting ovs-vswitchd: %v", err)
	}

	server, vswitchd := pid(t, dir, "ovsdb-server"), pid(t, dir, "ovs-vswitchd")
	end(t, cmd)
	if syscall.Kill(server, 0) == nil || syscall.Kill(vswitchd, 0) == nil {
		t.Error("SIGTERM left a daemon running")
	}

	called, err := os.ReadFile(filepath.Join(dir, "called"))
	if want := "fail-back --node-name=worker --gateway-interface=eth0 --datapath=netdev\nwith ovsdb-server\n"; err != nil || string(called) != want {
		t.Errorf("the agent was called with %q, want %q: %v", called, want, err)
	}

	if _, err := os.Stat(filepath.Join(dir, "run/ovs-vswitchd.kept")); err == nil {
		t.Error("after the end of the container a file still says that ovs-vswitchd would be started again")
	}

	startOVS(t, dir)
	if again := get(t, dir, "external_ids:system-id"); again != id {
		t.Errorf("system-id was %s and is %s", id, again)
	}
}

// The Southbound's port for nodes has the role that the mounted Secret says. When
// the role or the authorities change, the clients have to come anew: a connection
// goes on with what it began with.
func TestSouthboundContainer_FollowsItsSecret(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "ovsdb-tool", `touch "$2"`)
	script(t, dir, "ovsdb-server", "exec sleep 60")
	script(t, dir, "ovs-appctl", `echo "$@" >>`+dir+"/commands")
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		content, _ := os.ReadFile(filepath.Join(dir, name))
		return string(content)
	}
	write("ca.crt", "chassis and shared")
	cmd := daemon(context.Background(), dir, "sb", "ssl:172.18.0.3:6642")
	cmd.Env = append(cmd.Env, "OVN_DBDIR="+dir+"/db", "OVN_CERTS="+dir, "FOLLOW_SECONDS=0.1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	eventually(t, "the configuration", func() bool { return strings.Contains(read("ovn/ovnsb_db.json"), "}}}") })
	if config := read("ovn/ovnsb_db.json"); strings.Contains(config, "role") || !json.Valid([]byte(config)) {
		t.Errorf("without a role: %s", config)
	}
	time.Sleep(300 * time.Millisecond)
	if commands := read("commands"); commands != "" {
		t.Errorf("without a change: %s", commands)
	}
	write("role", "ovn-controller")
	write("ca.crt", "chassis")
	eventually(t, "clients come anew", func() bool { return strings.Contains(read("commands"), "reconnect") })
	config := read("ovn/ovnsb_db.json")
	remotes := strings.Split(config, "pssl:6642:")
	if !json.Valid([]byte(config)) || len(remotes) != 2 || strings.Contains(remotes[0], "role") || !strings.Contains(remotes[1], `"role": "ovn-controller"`) {
		t.Errorf("with a role: %s", config)
	}
	lines := strings.Split(strings.TrimSpace(read("commands")), "\n")
	if !strings.HasSuffix(lines[0], "ovsdb-server/reload") || !strings.HasSuffix(lines[1], "ovsdb-server/reconnect") {
		t.Errorf("commands: %q", lines)
	}
}

// TestControllerContainer_BridgeExistsBeforeItsStart: ovn-controller 25.03 often ends with a
// segmentation fault when it makes its bridge itself, and the pod restarts.
func TestControllerContainer_BridgeExistsBeforeItsStart(t *testing.T) {
	needOVS(t)
	dir := t.TempDir()
	startOVS(t, dir)
	vsctl(t, dir, "set", "Open_vSwitch", ".", "external_ids:ovn-remote=unix:x", "external_ids:ovn-bridge-datapath-type=netdev")
	script := fmt.Sprintf("#!/bin/sh\n[ $1 != --version ] || { echo ovn-controller 25.03.9; echo Open vSwitch Library 3.5.9; exit; }\n"+
		"test -S %s/run/br-int.mgmt && echo the bridge is there\n", dir)
	for name, text := range map[string]string{"ovn-controller": script, "tls.crt": "certificate"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time the bridge exists
		cmd := daemon(t.Context(), dir, "controller")
		cmd.Env = append(cmd.Env, "OVN_CERTS="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "the bridge is there\n" {
			t.Errorf("%v: %s", err, out)
		}
	}
	if got := vsctl(t, dir, "get", "Bridge", "br-int", "datapath_type", "fail_mode"); got != "netdev secure" {
		t.Errorf("the bridge is %s", got)
	}
	if ovn, ovs := get(t, dir, "external_ids:ovn-controller-version"), get(t, dir, "ovs_version"); ovn != `"25.03.9"` || len(ovs) < 5 {
		t.Errorf("versions: OVN %s, OVS %s", ovn, ovs)
	}
}

func TestDaemonCommand_RefusesWrongArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"nothing"}, {"nb"}, {"ready"}, {"ready", "nothing"}, {"alive", "nothing"}} {
		if out, err := daemon(t.Context(), t.TempDir(), args...).CombinedOutput(); err == nil || len(out) == 0 {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
}
