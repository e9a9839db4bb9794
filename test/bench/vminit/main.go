// Vminit is the first process of the bench's virtual machines: it mounts the
// root file system and what programs expect, loads the NICs' driver, runs the
// job and switches the machine off. The kernel starts it from the directory that
// the host shares; package vm is the other side.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

const jobDir = "/job"

func main() {
	exit, err := run(os.Args[1:])
	if err != nil {
		say(err)
		exit = 125
	}
	if err := vm.WriteStatus(jobDir, exit); err != nil {
		say(err)
	}
	unix.Sync()
	say(unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)) // QEMU ends at a restart
	select {}
}

// say goes to the console; the host shows it when the machine gave no status.
func say(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "vminit:", err)
	}
}

func run(args []string) (int, error) {
	var job vm.Job
	var err error
	if len(args) == 1 && args[0] == unitArgument {
		job, err = vm.ReadJob(jobDir)
	} else if job, err = setUp(); err == nil && job.Systemd {
		return 0, systemd(job)
	}
	if err != nil {
		return 0, err
	}
	output, err := os.OpenFile(vm.OutputPort, os.O_WRONLY, 0)
	if err != nil {
		return 0, fmt.Errorf("opening the output: %w", err)
	}
	if !job.Systemd {
		if err := nics(job); err != nil {
			return 0, err
		}
	}
	return execute(job, output)
}

func setUp() (vm.Job, error) {
	job, err := vm.ReadJob("/")
	if err != nil {
		return job, err
	}
	if err := enterRoot(job); err != nil {
		return job, fmt.Errorf("mounting the root file system: %w", err)
	}
	for _, m := range mounts() {
		if err := m.mount(); err != nil {
			return job, err
		}
	}
	for n, share := range job.Shares {
		m := ninep(vm.ShareTag(n), share.To)
		if share.Writable { // what is written is the host's at once
			m.flags, m.data = 0, "trans=virtio,version=9p2000.L,msize=512000,cache=mmap"
		}
		if err := m.mount(); err != nil {
			return job, err
		}
	}
	if err := unix.Sethostname([]byte("bench")); err != nil {
		return job, err
	}
	if err := os.MkdirAll("/run/openvswitch", 0o755); err != nil { // ovs-ofctl monitor does not live without
		return job, err
	}
	env := map[string]string{
		"PATH": vm.FilesDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": "/root", "TERM": "dumb",
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			return job, err
		}
	}
	return job, exec.Command("ip", "link", "set", "lo", "up").Run()
}

// mount is one file system.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) mount() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mounting %s: %w", m.target, err)
	}
	return nil
}

func ninep(tag, target string) mount {
	return mount{tag, target, "9p", unix.MS_RDONLY, "trans=virtio,version=9p2000.L,msize=512000,cache=loose"}
}

func mounts() []mount {
	return []mount{
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""},
		{"devtmpfs", "/dev", "devtmpfs", 0, ""},
		{"devpts", "/dev/pts", "devpts", 0, "ptmxmode=666"},
		{"shm", "/dev/shm", "tmpfs", 0, ""},
		{"run", "/run", "tmpfs", 0, ""},
		{"tmp", "/tmp", "tmpfs", 0, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""},
		{"bpf", "/sys/fs/bpf", "bpf", 0, ""},
		{"debugfs", "/sys/kernel/debug", "debugfs", 0, ""},
	}
}

// changes mounts what is over the root file system: the machine's memory, or its disk.
func changes(job vm.Job, at string) error {
	if !job.Disk {
		return (mount{"memory", at, "tmpfs", 0, "size=80%"}).mount()
	}
	if err := (mount{"devtmpfs", "/dev", "devtmpfs", 0, ""}).mount(); err != nil {
		return err
	}
	return (mount{vm.Drive, at, "ext4", 0, ""}).mount()
}

// enterRoot makes the host's read-only tree, with the machine's memory or disk over it,
// the root; the directory of the job comes along.
func enterRoot(job vm.Job) error {
	const stage = "/tmp"
	if err := changes(job, stage); err != nil {
		return err
	}
	if err := ninep(vm.RootTag, stage+"/lower").mount(); err != nil {
		return err
	}
	for _, dir := range []string{"/upper", "/work", "/root"} {
		if err := os.MkdirAll(stage+dir, 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", stage)
	if err := (mount{"root", stage + "/root", "overlay", 0, layers}).mount(); err != nil {
		return err
	}
	if err := (mount{"/", stage + "/root" + jobDir, "", unix.MS_BIND, ""}).mount(); err != nil {
		return err
	}
	for _, dir := range job.Apart {
		if err := os.MkdirAll(stage+"/apart"+dir, 0o755); err != nil {
			return err
		}
		if err := (mount{stage + "/apart" + dir, stage + "/root" + dir, "", unix.MS_BIND, ""}).mount(); err != nil {
			return err
		}
	}
	if err := os.Chdir(stage + "/root"); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return os.Chdir("/")
}

// nics gives the emulated functions to the driver and sets them up.
func nics(job vm.Job) error {
	if job.Module == "" {
		return nil
	}
	if err := insmod(filepath.Join(vm.FilesDir, job.Module)); err != nil {
		return fmt.Errorf("loading %s: %w", job.Module, err)
	}
	driver := "/sys/bus/pci/drivers/" + strings.TrimSuffix(job.Module, ".ko")
	if err := os.WriteFile(driver+"/new_id", []byte("1b36 0010"), 0); err != nil {
		return fmt.Errorf("giving functions to the driver: %w", err)
	}
	functions, err := filepath.Glob(driver + "/0000:*")
	if err != nil {
		return err
	}
	for _, function := range functions[:max(0, len(functions)-job.Bare)] {
		if err := configure(function, job); err != nil {
			return err
		}
	}
	return nil
}

func configure(function string, job vm.Job) error {
	if job.Switchdev {
		out, err := exec.Command("devlink", "dev", "eswitch", "set", "pci/"+filepath.Base(function), "mode", "switchdev").CombinedOutput()
		if err != nil {
			return fmt.Errorf("switching %s over: %w: %s", filepath.Base(function), err, out)
		}
	}
	if job.VFs == 0 {
		return nil
	}
	if err := os.WriteFile(function+"/sriov_numvfs", []byte(strconv.Itoa(job.VFs)), 0); err != nil {
		return fmt.Errorf("making VFs: %w", err)
	}
	return nil
}

func insmod(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.FinitModule(int(file.Fd()), "", 0)
}

// execute also reaps daemons, which become children of the first process.
func execute(job vm.Job, output *os.File) (int, error) {
	cmd := exec.Command(job.Args[0], job.Args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = job.Dir, output, output
	cmd.Env = append(os.Environ(), job.Env...)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case pid == cmd.Process.Pid && status.Exited():
			return status.ExitStatus(), nil
		case pid == cmd.Process.Pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		}
	}
}
