package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/devlink"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

const (
	sysfs      = "/sys"
	bootIDFile = "/proc/sys/kernel/random/boot_id"
)

// machine is the kernel that the agent runs on, in the node's own network namespace.
type machine struct {
	netns     *netdev.NS
	kernel    *devlink.Devices
	inventory *vf.Node
	devices   *vf.Live
}

func openMachine(sysfs string, log *slog.Logger) (*machine, error) {
	netns, err := netdev.Open("")
	if err != nil {
		return nil, err
	}
	kernel, err := devlink.Open(netns)
	if err != nil {
		_ = netns.Close()
		return nil, err
	}
	inventory := &vf.Node{
		Sysfs: netdev.OpenSysfs(sysfs), Kernel: kernel, Links: netns, Events: kernel, Names: vf.NewNames(netdev.PCINames),
	}
	return &machine{netns, kernel, inventory, vf.NewLive(inventory, log)}, nil
}

func (m *machine) close() { _ = m.kernel.Close(); _ = m.netns.Close() }

// known is empty before the first inventory.
func (m *machine) known() vf.Inventory {
	if inv := m.devices.Inventory(); inv != nil {
		return *inv
	}
	return vf.Inventory{}
}

// onLinks calls mark when the text that links makes of the inventory is another one.
func (m *machine) onLinks(links func(vf.Inventory) string, mark func()) {
	last := ""
	m.devices.OnChange(func(inv vf.Inventory) {
		if now := links(inv); now != last {
			last = now
			mark()
		}
	})
}

func bootID() (string, error) {
	id, err := os.ReadFile(bootIDFile)
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// Inventory gives write the node's devices: once, or at each change until write fails.
func Inventory(ctx context.Context, sysfs string, watch bool, write func(vf.Inventory) error) error {
	m, err := openMachine(sysfs, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer m.close()
	if !watch {
		inv, err := m.inventory.Read()
		if err != nil {
			return err
		}
		return write(inv)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err = m.inventory.Watch(ctx, func(inv vf.Inventory) {
		if err := write(inv); err != nil {
			stop(err) // the reader has closed the output
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// detect finds out what this machine is. A DPU need not be a Node of the cluster whose address it is given.
func (p *Process) detect(ctx context.Context) (string, error) {
	labels := map[string]string{}
	if name := p.Node.Node; name != "" {
		node, err := p.client.Nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
		labels = node.Labels
	}
	m, err := openMachine(sysfs, p.Logger)
	if err != nil {
		return "", err
	}
	defer m.close()
	inventory, err := m.inventory.Read()
	if err != nil {
		return "", err
	}
	return modeOf(labels, inventory), nil
}

// modeOf prefers the Node's labels, which an administrator has set. A machine with the representors of another machine
// is a DPU. A host does not show that its NIC is one.
func modeOf(labels map[string]string, inventory vf.Inventory) string {
	if _, ok := labels[contract.DPUHostLabel]; ok {
		return ModeHost
	}
	if _, ok := labels[contract.DPULabel]; ok {
		return ModeDPU
	}
	for _, pf := range inventory.PFs {
		if slices.ContainsFunc(pf.Representors, func(r vf.Representor) bool { return r.Function.External }) {
			return ModeDPU
		}
	}
	return ModeFull
}
