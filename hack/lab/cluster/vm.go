package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

const (
	bootWithin = 5 * time.Minute
	vmMemory   = 3072
	vmNICs     = 2 // the node's own, with VFs, and a bare one
	vmVFs      = 4
	// vmLabel is on the nodes that are VMs.
	vmLabel = "lab.test/vm"
	// vmGroup is the group of the chart that they are in.
	vmGroup = "vm"
)

// benchFiles are what VMs start from.
type benchFiles struct {
	Kernel string // what QEMU boots
	Module string
	Init   string
	Root   string `json:",omitempty"` // of VMs with systemd
}

func (l *Lab) buildBench(ctx context.Context) error {
	if l.cfg.VMNodes == 0 {
		return nil
	}
	if err := l.cache.BenchPackages(ctx, build.DefaultPlatform()); err != nil {
		return err
	}
	b := &l.bin.Bench
	kernel, err := l.cache.Kernel(ctx, build.DefaultPlatform())
	if err != nil {
		return err
	}
	b.Kernel = kernel.Image
	if l.cfg.pulls() {
		b.Root, err = l.cache.SystemdRoot(ctx)
	} else {
		b.Module, err = l.cache.Swsim(ctx, kernel)
	}
	if err != nil {
		return err
	}
	b.Init = l.path("vm", vm.InitFile)
	return l.cache.VMInit(ctx, kernel.Platform, b.Init)
}

// virtual completes the description of a machine that is a VM.
func (l *Lab) virtual(spec machine.Spec) machine.Spec {
	b := l.bin.Bench
	v := &machine.VM{
		Config: vm.Config{
			Kernel: b.Kernel, Root: spec.Root, Init: b.Init, Files: []string{b.Module, l.cfg.Command}, NICs: vmNICs, Memory: vmMemory,
		},
		Module: b.Module, Command: l.cfg.Command, VFs: vmVFs, Gateways: l.cfg.Addresses(fabric),
	}
	for i, addr := range l.cfg.Addresses(spec.Name) {
		v.Addresses = append(v.Addresses, netip.PrefixFrom(addr, l.cfg.Subnets[i].Bits()))
	}
	spec.VM = v
	if l.cfg.pulls() {
		v.Systemd, v.Config.Reboots, v.Config.Root = true, true, b.Root
		v.Config.NICs, v.VFs, v.Module, v.Config.Files = 0, 0, "", []string{l.cfg.Command}
		return spec
	}
	spec.Binds = append(spec.Binds, machine.Bind{From: filepath.Join(spec.Dir, "snapshots"), To: machine.SnapshotsShare, ReadOnly: true})
	return spec
}

// startVM boots the node, unless it runs.
func (l *Lab) startVM(name string, hub *machine.Machine, ca *authority) error {
	m, err := machine.Find(l.cfg.Name, name)
	if m != nil || err != nil {
		return err
	}
	spec := l.spec(name)
	if err := os.MkdirAll(spec.Config(), 0o755); err != nil {
		return err
	}
	if err := l.nodeFiles(name, spec.Config(), ca); err != nil {
		return fmt.Errorf("writing the files of %s: %w", name, err)
	}
	if err := spec.SetServices(l.services(name)); err != nil {
		return err
	}
	cable, err := tap(hub, name)
	if err != nil {
		return fmt.Errorf("connecting %s to the fabric: %w", name, err)
	}
	defer func() { _ = cable.Close() }()
	_, err = machine.Start(l.cfg.Command, spec, cable)
	return err
}

// tap makes a port of the fabric whose other end is a file, and which lives as long as that.
func tap(hub *machine.Machine, name string) (*os.File, error) {
	var file *os.File
	return file, inside(hub, func(handle *netlink.Handle, ns netns.NsHandle) error {
		bridge, err := handle.LinkByName(bridgeName)
		if err != nil {
			return err
		}
		if file, err = openTap(ns, name); err != nil {
			return err
		}
		link, err := handle.LinkByName(name)
		if err == nil {
			err = handle.LinkSetMaster(link, bridge)
		}
		if err == nil {
			err = handle.LinkSetUp(link)
		}
		return err
	})
}

// openTap leaves its thread in the namespace, so that it ends. Frames have no
// header of virtio's: what leaves the machine has its checksums, as on a cable.
func openTap(ns netns.NsHandle, name string) (*os.File, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	type result struct {
		file *os.File
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			done <- result{err: err}
			return
		}
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		}
		done <- result{os.NewFile(uintptr(fd), name), err}
	}()
	r := <-done
	return r.file, r.err
}

// booted waits until the nodes that are VMs take commands.
func (l *Lab) booted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	for _, name := range l.cfg.VMNames() {
		for {
			m, err := l.find(name)
			if err != nil {
				return fmt.Errorf("%w; see %s", err, l.spec(name).Logs())
			}
			if err = m.Command(ctx, "true").Run(); err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s takes no commands: %w; see %s", name, err, l.spec(name).Logs())
			case <-time.After(runEvery):
			}
		}
	}
	return nil
}

// patience is a deadline for what VMs are waited for in: they are ten times slower,
// of which much is not waiting.
func (l *Lab) patience(within time.Duration) time.Duration {
	if l.cfg.VMNodes > 0 {
		return 4 * within
	}
	return within
}

// Remove takes the last of the nodes that are VMs away.
func (l *Lab) Remove(ctx context.Context, name string) error {
	if names := l.cfg.VMNames(); len(names) == 0 || names[len(names)-1] != name {
		return fmt.Errorf("removing %s: the last node that is a VM can be removed, of %v", name, names)
	}
	m, err := machine.Find(l.cfg.Name, name)
	if err != nil {
		return err
	}
	if m != nil {
		if err := m.Kill(); err != nil {
			return err
		}
	}
	if err := l.kubectl(ctx, "delete", "node", name, "--ignore-not-found"); err != nil {
		return err
	}
	if err := os.RemoveAll(l.path("machines", name)); err != nil {
		return err
	}
	l.cfg.VMNodes--
	return l.writeState()
}
