package machine

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain is also the init of the machines that the tests make.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "machine" {
		fmt.Fprintln(os.Stderr, Run(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestFromEnviron_ReadsMachineOfLab(t *testing.T) {
	for environ, want := range map[string]*Machine{
		"A=b\x00OVN_OFFLOAD_LAB=x\x00OVN_OFFLOAD_LAB_MACHINE=n\x00":                  {Lab: "x", Name: "n"},
		"OVN_OFFLOAD_LAB=x\x00OVN_OFFLOAD_LAB_MACHINE=n\x00OVN_OFFLOAD_LAB_VM=1\x00": {Lab: "x", Name: "n", VM: true},
		"OVN_OFFLOAD_LAB=x\x00": nil, // the environment of a shell that runs the lab
		"PATH=/bin\x00":         nil,
		"":                      nil,
	} {
		if diff := cmp.Diff(want, fromEnviron(environ)); diff != "" {
			t.Errorf("%q: %s", environ, diff)
		}
	}
}

// testMachine runs on the host's own /usr, read-only.
func testMachine(t *testing.T, services []Service, forwards map[string]*os.File) *Machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes namespaces")
	}
	dir := t.TempDir()
	spec := Spec{Lab: fmt.Sprintf("test-%d", os.Getpid()), Name: "node", Root: filepath.Join(dir, "lower"), Dir: filepath.Join(dir, "node")}
	for _, path := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		if _, err := os.Stat(path); err == nil {
			spec.Binds = append(spec.Binds, Bind{From: path, To: path, ReadOnly: true})
		}
	}
	for _, path := range []string{spec.Root, spec.Config()} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := spec.SetServices(services); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for target, file := range forwards {
		spec.Forwards, files = append(spec.Forwards, target), append(files, file)
	}
	command, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m, err := Start(command, spec, files...)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(spec.Logs(), "init.log"))
		t.Fatalf("%v: %s", err, log)
	}
	t.Cleanup(func() {
		if err := m.Kill(); err != nil {
			t.Error(err)
		}
		if err := RemoveCgroups(spec.Lab, ""); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestMachine_HasOwnNamespacesAndMounts(t *testing.T) {
	before, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	m := testMachine(t, nil, nil)
	for command, want := range map[string]string{
		"hostname": "node",
		"cat /proc/1/cmdline | tr '\\0' ' ' | cut -d' ' -f2,3": "machine run",
		"ls /sys/class/net":                 "lo",
		"cat /proc/sys/net/ipv4/ip_forward": "1",
		"grep -c ':/$' /proc/1/cgroup | grep -vx 0 >/dev/null && echo yes":                             "yes",
		"cat /sys/fs/cgroup/cpu/k8s.io/cpu.shares 2>/dev/null || cat /sys/fs/cgroup/k8s.io/cpu.weight": podShares(),
		"ls /run": "netns",
		"touch /usr/x 2>/dev/null || echo read-only": "read-only",
	} {
		out, err := m.Command(t.Context(), "sh", "-c", command).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", command, got, err, want)
		}
	}
	after, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("the host's mounts changed: %s", diff)
	}
}

// podShares is the processor time of a machine's containers.
func podShares() string {
	if isV2() {
		return "1600"
	}
	return "16384"
}

func TestMachine_KillRemovesProcessesAndCgroups(t *testing.T) {
	m := testMachine(t, []Service{{Name: "sleep", Args: []string{"sleep", "1000"}}}, nil)
	pid := servicePID(t, m, 0)
	found, err := Find(m.Lab, m.Name)
	if err != nil || found == nil || found.PID != m.PID {
		t.Fatalf("found %v, %v, want process %d", found, err, m.PID)
	}
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	if found, err := Find(m.Lab, m.Name); err != nil || found != nil {
		t.Errorf("after Kill: found %v, %v", found, err)
	}
	if err := syscall.Kill(pid, 0); err == nil && alive(pid) {
		t.Errorf("process %d of the machine is still there", pid)
	}
	of := filepath.Join(cgroupRoot, "*", cgroupPrefix+m.Lab)
	if groups, err := filepath.Glob(of); err != nil || len(groups) == 0 {
		t.Errorf("no cgroups of the lab: %v", err)
	}
	if err := RemoveCgroups(m.Lab, m.Name); err != nil {
		t.Error(err)
	}
	if groups, err := filepath.Glob(filepath.Join(of, m.Name)); err != nil || len(groups) > 0 {
		t.Errorf("cgroups of the machine left: %v, %v", groups, err)
	}
	if err := RemoveCgroups(m.Lab, ""); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(of)
	if err != nil || len(left) > 0 {
		t.Errorf("cgroups left: %v, %v", left, err)
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestMachine_KilledServiceIsRestarted(t *testing.T) {
	m := testMachine(t, []Service{{Name: "sleep", Args: []string{"sleep", "1000"}}, {Name: "absent", Args: []string{"no-such-program"}}}, nil)
	first := servicePID(t, m, 0)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if second := servicePID(t, m, first); second == first {
		t.Errorf("process %d is the one that was killed", second)
	}
}

// TestMachine_ProcessesThatAreWanted: of the machine only, though others outside have the same command line.
func TestMachine_ProcessesThatAreWanted(t *testing.T) {
	m := testMachine(t, []Service{{Name: "sleep", Args: []string{"sleep", "1000"}}}, nil)
	inside := servicePID(t, m, 0)
	outside := exec.Command("sleep", "1000")
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = outside.Process.Kill(), outside.Wait() }()
	found, err := m.ProcessesThat(func(p Process) bool { return p.Args[0] == "sleep" })
	if err != nil || len(found) != 1 || found[0].PID != inside || found[0].Machine() != m.Name {
		t.Errorf("%v, %v; want process %d", found, err, inside)
	}
}

// servicePID waits for a sleep in the machine that is not the process old.
func servicePID(t *testing.T, m *Machine, old int) int {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		processes, err := m.Processes()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range processes {
			if p.Args[0] == "sleep" && p.PID != old {
				return p.PID
			}
		}
	}
	t.Fatal("the service does not run")
	return 0
}

// TestMachine_HostReachesForwardedPort: the host reaches a port inside the machine, over a socket of the host's.
func TestMachine_HostReachesForwardedPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	m := testMachine(t, nil, map[string]*os.File{"127.0.0.1:7777": file})
	file.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// perl-base is on every Debian.
	const serve = `use Socket; $| = 1; system("ip link set lo up"); socket(S, PF_INET, SOCK_STREAM, 0);
bind(S, sockaddr_in(7777, INADDR_ANY)) or die $!; listen(S, 5); print "listening\n";
while (accept(C, S)) { syswrite(C, "inside"); close C }`
	cmd := m.Command(ctx, "perl", "-e", serve)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	got := make([]byte, 6)
	if _, err := conn.Read(got); err != nil || string(got) != "inside" {
		t.Errorf("read %q, %v", got, err)
	}
}

// A machine that has just been started is given its services at once.
func TestMachine_ReloadAtOnceDoesNotEndIt(t *testing.T) {
	for range 5 {
		m := testMachine(t, nil, nil)
		if err := m.Reload(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // an init that ends takes a moment
		if out, err := m.Command(t.Context(), "hostname").CombinedOutput(); err != nil {
			t.Fatalf("the machine has ended: %v: %s", err, out)
		}
		if err := m.Kill(); err != nil {
			t.Fatal(err)
		}
	}
}
