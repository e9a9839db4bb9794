//go:build bench

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Script gives the path of the image's start script.
func Script(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../../hack/image/rootfs/usr/local/bin/ovn-daemon")
	must(t, err)
	return path
}

// ScriptKeepingPorts gives the path of a start script that removes no port after a boot: the control.
func ScriptKeepingPorts(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(Script(t))
	must(t, err)
	const call = "\n\twithout_transient\n"
	if strings.Count(string(text), call) != 1 {
		t.Fatalf("%s does not call without_transient once", Script(t))
	}
	path := filepath.Join(t.TempDir(), "ovn-daemon")
	must(t, os.WriteFile(path, []byte(strings.Replace(string(text), call, "\n", 1)), 0o755))
	return path
}

// OVS is Open vSwitch as the ovs-node pod has it, with that pod's start script and the kernel's datapath.
type OVS struct {
	testing.TB
	Script string
	// Run has the sockets, Config the database and the record of the boot.
	Run, Config string
	// Boot is the file with the id of the boot; "": the kernel's.
	Boot string

	cmd *exec.Cmd
}

// Start runs the daemons until the test ends. It waits until they answer.
func (o *OVS) Start() {
	o.Helper()
	o.cmd = o.command("ovs", "system")
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(o, o.cmd.Start())
	o.Cleanup(o.stop)
	Eventually(o, "OVS answers", func() bool { return o.command("ready", "ovs").Run() == nil })
}

func (o *OVS) command(args ...string) *exec.Cmd {
	cmd := exec.Command(o.Script, args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+o.Run, "OVS_SYSCONFDIR="+o.Config, "OVN_RUNDIR="+o.Run+"/ovn")
	if o.Boot != "" {
		cmd.Env = append(cmd.Env, "BOOT_ID="+o.Boot)
	}
	return cmd
}

func (o *OVS) stop() {
	if o.cmd != nil {
		_ = o.cmd.Process.Signal(syscall.SIGTERM)
		_ = o.cmd.Wait()
		o.cmd = nil
	}
}

// PowerOff leaves of Open vSwitch what a loss of power does: the files.
func (o *OVS) PowerOff() {
	o.Helper()
	must(o, syscall.Kill(-o.cmd.Process.Pid, syscall.SIGKILL))
	_ = o.cmd.Wait()
	o.cmd = nil
	Run(o, "ovs-dpctl", "del-dp", "system@ovs-system")
	must(o, os.RemoveAll(o.Run))
}

// DB is the address of the database.
func (o *OVS) DB() string { return "unix:" + o.Run + "/db.sock" }

// Ports gives the ports of a bridge, in the order of their names.
func (o *OVS) Ports(bridge string) string {
	o.Helper()
	return strings.Join(strings.Fields(Run(o, "ovs-vsctl", "--timeout=60", "--db="+o.DB(), "list-ports", bridge)), " ")
}

// Run runs a program and gives what it prints.
func Run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Patience is how long Eventually waits: a machine without KVM is slow.
const Patience = 3 * time.Minute

// Eventually waits for what has no event to wait for.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within %s", what, Patience)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
