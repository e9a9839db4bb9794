package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Run is a machine's init, in two stages that are executed one after the other:
// "join" enters the cgroups, "run" does the rest and never returns while the machine lives.
// With a VM "run" is QEMU's parent, and "guest" does the rest in the VM, or "prepare" before systemd.
func Run(stage, encoded string) error {
	var spec Spec
	if err := json.Unmarshal([]byte(encoded), &spec); err != nil {
		return fmt.Errorf("reading the machine's description: %w", err)
	}
	switch stage {
	case "guest":
		return guest(spec)
	case "prepare":
		return prepare(spec)
	}
	if os.Getpid() != 1 {
		return errors.New("machine: this verb is for the lab's own use")
	}
	if stage == "join" {
		runtime.LockOSThread()
		if err := joinCgroups(spec.Lab, spec.Name); err != nil {
			return err
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		return unix.Exec(program, []string{program, "machine", "run", encoded}, os.Environ())
	}
	ready := os.NewFile(3, "ready")
	if spec.VM != nil {
		return virtual(spec, ready)
	}
	return namespaces(spec, ready)
}

// namespaces is the init of a machine that is nothing else.
func namespaces(spec Spec, ready *os.File) error {
	if err := mounts(spec); err != nil {
		return err
	}
	if err := ownCgroups(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(spec.Name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := kernelSettings(); err != nil {
		return err
	}
	s := newSupervisor("/var/log")
	for i, target := range spec.Forwards {
		if err := forward(os.NewFile(uintptr(4+i), "listener"), target); err != nil {
			return err
		}
	}
	if _, err := ready.Write([]byte{1}); err != nil {
		return err
	}
	ready.Close()
	return s.run(servicesFile)
}

type mount struct {
	from, to, kind string
	flags          uintptr
	data           string
}

// mounts makes the machine's file system tree and moves into it.
func mounts(spec Spec) error {
	root := filepath.Join(spec.Dir, "root")
	at := func(path string) string { return filepath.Join(root, path) }
	// volatile: nothing of a lab has to outlive a crash of the host, and a busy
	// disk would otherwise hold up whatever syncs: databases, containerd, kubelet.
	overlay := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,volatile", spec.Root, spec.Upper(), filepath.Join(spec.Dir, "work"))
	list := []mount{
		{to: "/", flags: unix.MS_REC | unix.MS_PRIVATE},
		{from: "overlay", to: root, kind: "overlay", data: overlay},
		{from: "proc", to: at("/proc"), kind: "proc"},
		{from: "sysfs", to: at("/sys"), kind: "sysfs"},
		{from: "tmpfs", to: at("/run"), kind: "tmpfs", data: "mode=755"},
		{from: "tmpfs", to: at("/tmp"), kind: "tmpfs", data: "mode=1777"},
		{from: "tmpfs", to: at("/dev"), kind: "tmpfs", data: "mode=755"},
		{from: "devpts", to: at("/dev/pts"), kind: "devpts", data: "newinstance,ptmxmode=0666,mode=620"},
		{from: "mqueue", to: at("/dev/mqueue"), kind: "mqueue"},
		{from: "tmpfs", to: at("/dev/shm"), kind: "tmpfs", data: "mode=1777"},
		{from: spec.Config(), to: at("/etc/kubernetes"), flags: unix.MS_BIND},
		{from: spec.Logs(), to: at("/var/log"), flags: unix.MS_BIND},
	}
	cgroups, err := cgroupMounts(root)
	if err != nil {
		return err
	}
	list = append(list, cgroups...)
	for _, bind := range spec.Binds {
		list = append(list, mount{from: bind.From, to: at(bind.To), flags: unix.MS_BIND})
		if bind.ReadOnly {
			list = append(list, mount{to: at(bind.To), flags: unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY})
		}
	}
	for _, m := range list {
		if err := os.MkdirAll(m.to, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting %s %s: %w", m.to, m.data, err)
		}
	}
	if err := devices(at("/dev")); err != nil {
		return err
	}
	return enter(root)
}

func devices(dir string) error {
	for _, d := range []struct {
		path         string
		major, minor uint32
	}{
		{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"kmsg", 1, 11}, {"tty", 5, 0}, {"net/tun", 10, 200},
	} {
		path := filepath.Join(dir, d.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("making device %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	return nil
}

// enter makes root the root of the mount namespace. Everything below it is shared
// then, as systemd does: pods mount with HostToContainer and Bidirectional.
func enter(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("moving to the root %s: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the host's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing the mounts: %w", err)
	}
	return os.MkdirAll("/run/netns", 0o755)
}

// kernelSettings are those of the machine's own network namespace.
func kernelSettings() error {
	for path, value := range map[string]string{
		"net/ipv4/ip_forward":                 "1",
		"net/ipv4/conf/all/rp_filter":         "0",
		"net/ipv4/conf/default/rp_filter":     "0",
		"net/ipv6/conf/all/disable_ipv6":      "0",
		"net/ipv6/conf/default/disable_ipv6":  "0",
		"net/ipv6/conf/all/forwarding":        "1",
		"net/ipv6/conf/default/accept_dad":    "0",
		"net/ipv6/conf/default/accept_ra":     "0",
		"net/ipv4/ping_group_range":           "0 2147483647",
		"net/ipv4/ip_unprivileged_port_start": "0",
	} {
		if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("setting %s: %w", path, err)
		}
	}
	return nil
}
