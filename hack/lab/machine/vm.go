package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

// VM is what a machine has that is a virtual one: simulated NICs, of which the
// first is its way to the fabric. Its init is QEMU's parent on the host; the
// directories of Spec.Binds are shared with it, and Spec.Upper has the containerd
// directory that it starts from.
type VM struct {
	Config vm.Config
	// Module is the NICs' driver, one of Config.Files; Command the lab's binary, another.
	Module, Command string
	VFs             int // of the first NIC, which is in switchdev mode
	// Systemd makes the machine one that boots with systemd, from a disk that stays. Its NIC is the card of its cable; the
	// services are units. No image is on its disk before it has pulled one.
	Systemd   bool
	Addresses []netip.Prefix
	Gateways  []netip.Addr
}

// controlPort is where commands are taken, in the VM and where its QEMU runs.
const controlPort = 7022

// Where a VM has the read-only parts of its containerd directory; of SnapshotsShare its Spec has a bind.
const (
	storeShare     = "/opt/lab/containerd"
	SnapshotsShare = "/opt/lab/snapshots"
	containerdDir  = "/var/lib/containerd"
	snapshotsDir   = containerdDir + "/io.containerd.snapshotter.v1.overlayfs/snapshots"
)

// scratch is a VM's directory for what its kernel starts from.
func (s Spec) scratch() string { return filepath.Join(s.Dir, "vm") }

// console is a VM's log of its kernel.
func (s Spec) console() string { return filepath.Join(s.Logs(), "console.log") }

// virtual is the init of a machine that is a VM: it ends with it.
func virtual(spec Spec, ready *os.File) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	if err := os.RemoveAll(spec.scratch()); err != nil {
		return err
	}
	if err := os.MkdirAll(spec.scratch(), 0o755); err != nil {
		return err
	}
	job, err := spec.job()
	if err != nil {
		return err
	}
	cfg := spec.VM.Config
	cfg.Control, cfg.Console = controlPort, spec.console()
	cfg.Cables = []*os.File{os.NewFile(4, "cable")}
	if spec.VM.Systemd {
		if cfg.Drive, err = spec.drive(); err != nil {
			return err
		}
	}
	if _, err := ready.Write([]byte{1}); err != nil {
		return err
	}
	if err := ready.Close(); err != nil {
		return err
	}
	exit, err := vm.Run(context.Background(), cfg, job, os.Stdout)
	if err != nil {
		return err
	}
	return fmt.Errorf("the init inside ended with status %d", exit)
}

// job is what vminit does for the machine.
func (s Spec) job() (vm.Job, error) {
	encoded, err := json.Marshal(s)
	if err != nil {
		return vm.Job{}, err
	}
	if s.VM.Systemd {
		return s.hostJob(string(encoded)), nil
	}
	job := vm.Job{
		Args:   []string{filepath.Base(s.VM.Command), "machine", "guest", string(encoded)},
		Module: filepath.Base(s.VM.Module), VFs: s.VM.VFs, Switchdev: true, Bare: s.VM.Config.NICs - 1,
		Shares: []vm.Share{
			{From: s.Config(), To: configDir},
			{From: s.Logs(), To: "/var/log", Writable: true},
			{From: filepath.Join(s.Upper(), containerdDir), To: storeShare},
		},
	}
	for _, bind := range s.Binds {
		job.Shares = append(job.Shares, vm.Share{From: bind.From, To: bind.To, Writable: !bind.ReadOnly})
	}
	return job, nil
}

// processesInside asks the VM.
func (m *Machine) processesInside() ([]Process, error) {
	out, err := m.Command(context.Background(), "pgrep", "--ns", "1", "--nslist", "net", "-f", "-a", ".").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the processes of %s: %w", m.Name, err)
	}
	var processes []Process
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if pid, err := strconv.Atoi(fields[0]); err == nil && len(fields) > 1 {
			processes = append(processes, Process{machine: m, PID: pid, Args: fields[1:]})
		}
	}
	return processes, nil
}
