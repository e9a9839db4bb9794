package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	envLab  = "OVN_OFFLOAD_LAB"
	envName = "OVN_OFFLOAD_LAB_MACHINE"
	envVM   = "OVN_OFFLOAD_LAB_VM"
	// Path is the search path inside machines.
	Path = "/opt/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/lab/kubernetes"
)

// Spec describes a machine; it is handed to its init as JSON.
type Spec struct {
	Lab      string // name of the lab: what Find and All look for
	Name     string // host name
	Root     string // directory: the root file system, shared, never written
	Dir      string // directory of its own on disk: overlay, logs, Config
	Binds    []Bind
	Forwards []string // TCP addresses that the inherited listeners are forwarded to
	VM       *VM      // nil: the machine is nothing but namespaces
}

// Bind shows a directory of the host inside the machine.
type Bind struct {
	From, To string
	ReadOnly bool
}

// Config is the directory of the machine's configuration on the host, /etc/kubernetes inside.
func (s Spec) Config() string { return filepath.Join(s.Dir, "config") }

// Upper holds, on the host, every file that the machine changed; it may be filled before Start.
func (s Spec) Upper() string { return filepath.Join(s.Dir, "upper") }

// Logs is the directory of its logs on the host, /var/log inside.
func (s Spec) Logs() string { return filepath.Join(s.Dir, "log") }

// Machine is a running machine, known by the process id of its init in the host's PID namespace.
type Machine struct {
	Lab, Name string
	PID       int
	// VM: what the machine runs is behind QEMU, and not in the init's namespaces.
	VM bool
}

// Start makes the machine and returns when its mounts are in place. command is
// the lab's binary, which must call Run with the arguments of the verb "machine".
// files are inherited: listening sockets, one for each of Spec.Forwards; of a VM its cables.
func Start(command string, spec Spec, files ...*os.File) (*Machine, error) {
	// An overlay that is volatile refuses the work directory of an earlier one.
	if err := os.RemoveAll(filepath.Join(spec.Dir, "work")); err != nil {
		return nil, err
	}
	for _, dir := range []string{spec.Config(), spec.Logs(), spec.Upper(), filepath.Join(spec.Dir, "work"), filepath.Join(spec.Dir, "root")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(spec.Logs(), "init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ready, readyWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	cmd := exec.Command(command, "machine", "join", string(encoded))
	cmd.Env = []string{envLab + "=" + spec.Lab, envName + "=" + spec.Name, "PATH=" + Path, "HOME=/root"}
	if spec.VM != nil {
		cmd.Env = append(cmd.Env, envVM+"=1", "TMPDIR="+spec.scratch())
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = append([]*os.File{readyWrite}, files...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	err = cmd.Start()
	readyWrite.Close()
	if err != nil {
		return nil, fmt.Errorf("starting machine %s: %w", spec.Name, err)
	}
	go func() { _ = cmd.Wait() }() // reaps it, should it end while this process still lives
	m := &Machine{Lab: spec.Lab, Name: spec.Name, PID: cmd.Process.Pid, VM: spec.VM != nil}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		err := fmt.Errorf("starting machine %s: its init ended, see %s", spec.Name, log.Name())
		return nil, errors.Join(err, m.Kill())
	}
	return m, nil
}

// All finds the running machines of a lab; of every lab when lab is "".
func All(lab string) ([]*Machine, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var machines []*Machine
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if m := initAt(pid); m != nil && (lab == "" || m.Lab == lab) {
			machines = append(machines, m)
		}
	}
	return machines, nil
}

// initAt is the machine whose init a process is; nil for other processes.
func initAt(pid int) *Machine {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil // ended since
	}
	m := fromEnviron(string(environ))
	if m == nil || !isInit(strconv.Itoa(pid)) {
		return nil
	}
	m.PID = pid
	return m
}

// Runs says whether the machine still runs. It reads one process, where Find reads all of them.
func (m *Machine) Runs() bool {
	now := initAt(m.PID)
	return now != nil && *now == *m
}

// fromEnviron gives nil for a process that is no machine's init.
func fromEnviron(environ string) *Machine {
	var m Machine
	for variable := range strings.SplitSeq(environ, "\x00") {
		key, value, _ := strings.Cut(variable, "=")
		switch key {
		case envLab:
			m.Lab = value
		case envName:
			m.Name = value
		case envVM:
			m.VM = true
		}
	}
	if m.Lab == "" || m.Name == "" {
		return nil
	}
	return &m
}

// isInit tells an init from its child that has not executed its own program yet.
func isInit(pid string) bool {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "NSpid:" {
			return fields[len(fields)-1] == "1"
		}
	}
	return false
}

// Find gives nil without an error when the machine does not run.
func Find(lab, name string) (*Machine, error) {
	machines, err := All(lab)
	if err != nil {
		return nil, err
	}
	for _, m := range machines {
		if m.Name == name {
			return m, nil
		}
	}
	return nil, nil
}

// Kill ends the machine with everything in it and returns when it is gone.
func (m *Machine) Kill() error {
	if err := syscall.Kill(m.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing machine %s: %w", m.Name, err)
	}
	// The last thread of the init waits until the kernel has killed every process
	// of its PID namespace. An init that is not reaped stays as a zombie, and its
	// first thread may be a zombie while the last still waits.
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.PID))
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", m.PID))
		if _, state, there := strings.Cut(string(stat), ") "); !there || strings.HasPrefix(state, "Z") && len(threads) <= 1 {
			return nil
		}
	}
	return fmt.Errorf("killing machine %s: process %d is still there", m.Name, m.PID)
}

// Reload lets the init read the Services file again.
func (m *Machine) Reload() error { return syscall.Kill(m.PID, syscall.SIGHUP) }

// NetNS opens the machine's network namespace; the caller closes it.
func (m *Machine) NetNS() (netns.NsHandle, error) { return netns.GetFromPid(m.PID) }

// Enter is the command line that runs args in all namespaces of a process.
func Enter(pid string, args ...string) []string {
	return append([]string{"nsenter", "-t", pid, "-m", "-n", "-u", "-i", "-p", "-C", "--root", "--wd", "--"}, args...)
}

// Command runs args in all namespaces of the machine. Besides them it runs nsenter alone, and no shell: tests run thousands.
func (m *Machine) Command(ctx context.Context, args ...string) *exec.Cmd {
	pid := strconv.Itoa(m.PID)
	if m.VM {
		return exec.CommandContext(ctx, "nsenter", append([]string{"-t", pid, "-n", "--", fmt.Sprintf("/proc/%d/exe", m.PID), "machine", "command", "--"}, args...)...)
	}
	line := Enter(pid, args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = []string{"PATH=" + Path, "HOME=/root"}
	if term := os.Getenv("TERM"); term != "" {
		cmd.Env = append(cmd.Env, "TERM="+term)
	}
	return cmd
}

// Process is a process of a machine's network namespace: its own services and
// the containers of pods with the host's network. PID is the host's, or a VM's own.
type Process struct {
	PID     int
	Args    []string
	machine *Machine
}

// Machine is the name of the machine that the process runs on.
func (p Process) Machine() string { return p.machine.Name }

// Is tells whether it is the same process.
func (p Process) Is(other Process) bool {
	return p.PID == other.PID && p.machine.Name == other.machine.Name
}

// Kill sends SIGKILL; that the process has ended since is no error.
func (p Process) Kill(ctx context.Context) error {
	if p.machine.VM { // where root's kill fails for this reason only
		_, err := p.machine.Command(ctx, "sh", "-c", "kill -KILL "+strconv.Itoa(p.PID)+" || true").Output()
		return err
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// inNetns says that a process is in a network namespace, with one of its threads at least: a thread of an agent, also
// the first, is in a pod's namespace while it configures the pod's interface.
func inNetns(process, netns string) bool {
	links, err := filepath.Glob(process + "/task/*/ns/net")
	return err == nil && slices.ContainsFunc(links, func(link string) bool {
		found, err := os.Readlink(link)
		return err == nil && found == netns
	})
}

// Processes lists what runs in the machine's network namespace.
func (m *Machine) Processes() ([]Process, error) {
	return m.ProcessesThat(func(Process) bool { return true })
}

// ProcessesThat lists those of them that are wanted. It looks for the namespaces of these alone: such a look reads a
// link for each thread.
func (m *Machine) ProcessesThat(wanted func(Process) bool) ([]Process, error) {
	if m.VM {
		processes, err := m.processesInside()
		return slices.DeleteFunc(processes, func(p Process) bool { return !wanted(p) }), err
	}
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", m.PID))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var processes []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil || len(cmdline) == 0 {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		p := Process{machine: m, PID: pid, Args: args}
		if wanted(p) && inNetns(filepath.Join("/proc", entry.Name()), own) {
			processes = append(processes, p)
		}
	}
	return processes, nil
}
