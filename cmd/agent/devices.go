package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/attach"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
	"github.com/ovn-offload/ovn-offload/pkg/vf/podresources"
)

// deviceOptions are the flags about VFs.
type deviceOptions struct {
	kubeletDir, pools, foreign string
	stray                      string
	management, gateway        string
	defaultPods                string
	purposes                   vf.Settings // these three, read
}

// startFunctions hands out VFs. It has to come before the inventory runs. A node
// without VFs has nothing to hand out, and its kubelet does not hear of us.
func (a *agent) startFunctions(ctx context.Context, group *errgroup.Group) error {
	claims, err := a.openLedger()
	if err != nil {
		return err
	}
	pools, resources, err := a.opts.devices.resources()
	if err != nil {
		return err
	}
	kubelet, err := podresources.New(filepath.Join(a.opts.devices.kubeletDir, "pod-resources", "kubelet.sock"), a.uidOf)
	if err != nil {
		return err
	}
	a.functions = &cni.Functions{
		Resources: resources, Given: kubelet.Devices, Reserved: a.reserved,
		VF: a.devices.VF, Ledger: claims, Mover: a.mover(claims),
	}
	a.devices.OnChange(func(vf.Inventory) {
		if server := a.server.Load(); server != nil {
			server.Repair() // a NIC may be back, and its pods without network
		}
	})
	a.view.OnChange(func(owners ...contract.Owner) {
		if server := a.server.Load(); server != nil {
			server.Changed(owners...)
		}
	})
	return a.startPlugin(ctx, group, pools)
}

func (o *deviceOptions) complete() (err error) {
	if _, _, err := o.resources(); err != nil {
		return err
	}
	if o.purposes.Management, err = vf.ParseSelector(o.management); err != nil {
		return fmt.Errorf("--management-vf: %w", err)
	}
	if o.purposes.Gateway, err = vf.ParseSelector(o.gateway); err != nil {
		return fmt.Errorf("--gateway-vf: %w", err)
	}
	if o.purposes.DefaultPods, err = vf.ParseSelector(o.defaultPods); err != nil {
		return fmt.Errorf("--reserved-vfs: %w", err)
	}
	return nil
}

// resources gives the pools that are ours to serve, and all resources whose
// devices become a pod's network.
func (o deviceOptions) resources() (pools []plugin.Pool, resources []string, err error) {
	pools = plugin.DefaultPools()
	if o.pools != "" {
		if pools, err = plugin.ParsePools([]byte(o.pools)); err != nil {
			return nil, nil, fmt.Errorf("--vf-pools: %w", err)
		}
	}
	for name := range strings.SplitSeq(o.foreign, ",") {
		if name != "" {
			resources = append(resources, strings.TrimSpace(name))
		}
	}
	pools = slices.DeleteFunc(pools, func(p plugin.Pool) bool { return slices.Contains(resources, p.Resource) })
	for _, p := range pools {
		resources = append(resources, p.Resource)
	}
	return pools, resources, nil
}

func (a *agent) openLedger() (*ledger.Ledger, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	claims, err := ledger.Open(filepath.Join(filepath.Dir(a.opts.node.Checkpoint), "devices"), boot)
	if err != nil {
		return nil, err
	}
	for device, reason := range claims.Damaged() {
		a.opts.log.Warn("record of this VF is damaged: no pod gets the VF until the record is removed", "device", device, "error", reason)
	}
	return claims, nil
}

func (a *agent) mover(claims *ledger.Ledger) *attach.Mover {
	deps := attach.Deps{
		Ledger: claims, Host: a.host, Ethtool: a.kernel, Inode: netdev.Inode, Log: a.opts.log,
		Open: func(path string) (attach.Netns, error) {
			ns, err := netdev.Open(path)
			if err != nil {
				return nil, err
			}
			return ns, nil
		},
		Exclusive: a.devices.Exclusive, Use: a.inventory.Use,
		Present: func(device string) (bool, []string, error) { return netdev.PCINetdevs(a.inventory.Sysfs, device) },
		RDMA:    a.inventory.Sysfs.RDMADevices,
	}
	if a.uplink == plugin.OwnUplink {
		deps.PF = a.kernel
	}
	if a.opts.devices.stray != "" {
		deps.Strays = []string{a.opts.devices.stray}
	}
	return attach.New(deps)
}

func (a *agent) startPlugin(ctx context.Context, group *errgroup.Group, pools []plugin.Pool) error {
	if len(pools) == 0 {
		a.offer = func() {}
		return nil
	}
	cfg := plugin.Defaults()
	cfg.Pools, cfg.Dir = pools, filepath.Join(a.opts.devices.kubeletDir, "device-plugins")
	cfg.Sysfs, cfg.Logger = a.inventory.Sysfs, a.opts.log
	devices, err := plugin.New(cfg, a.functions.Ledger)
	if err != nil {
		return err
	}
	a.metrics.MustRegister(devices)
	var one sync.Mutex
	a.offer = func() {
		one.Lock()
		defer one.Unlock()
		known := a.devices.Inventory()
		if known == nil {
			return
		}
		purposes := a.purposes()
		offered := slices.DeleteFunc(plugin.FromInventory(*known, a.uplink), func(d plugin.Device) bool {
			return purposes.Of(d.ID) != vf.ForPods
		})
		if err := devices.Update(offered); err != nil {
			a.opts.log.Warn("offering devices", "error", err)
		}
	}
	a.devices.OnChange(func(vf.Inventory) { a.offer() })
	group.Go(func() error { return a.servePlugin(ctx, devices) })
	return nil
}

// servePlugin begins again after an error: pods without VFs need none of it.
func (a *agent) servePlugin(ctx context.Context, devices *plugin.Plugin) error {
	const pause = 10 * time.Second
	for {
		err := devices.Run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.opts.log.Warn("serving devices", "error", err, "retry", pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// purposes are those of the VFs of the newest inventory.
func (a *agent) purposes() vf.Purposes {
	var reserved map[string]int
	if a.policy != nil {
		reserved = a.policy.Reserved()
	}
	return a.opts.devices.purposes.Purposes(a.devices.Inventory(), reserved, func(device string) string {
		if claim, held := a.functions.Ledger.Holder(device); held {
			return claim.Pod.String()
		}
		return ""
	})
}

func (a *agent) reserved() map[string]bool { return a.purposes().NotForPods() }

func (a *agent) uidOf(_ context.Context, name types.NamespacedName) (types.UID, error) {
	pod := a.view.Pod(name.Namespace, name.Name)
	if pod == nil {
		return "", podresources.ErrNotFound
	}
	return pod.UID, nil
}

// users says who has a VF, by its device.
func (a *agent) users() map[string]string {
	out := map[string]string{}
	for _, c := range a.functions.Ledger.Claims() {
		out[c.Device] = "pod " + c.Pod.String()
	}
	return out
}

// hold keeps VFs from pods.
func (a *agent) hold(devices []string, reason string) (release func(), err error) {
	return a.functions.Ledger.Hold(devices, reason)
}
