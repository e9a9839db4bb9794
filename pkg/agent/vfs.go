package agent

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/attach"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
	"github.com/ovn-offload/ovn-offload/pkg/vf/podresources"
)

// podVFs gives pods their VFs.
type podVFs struct {
	*parts
	uplink    plugin.Uplink
	functions *cni.Functions
	plugin    *plugin.Plugin // nil: the agent serves no pool
	offering  sync.Mutex
}

// newPodVFs has to come before the inventory runs. A node without VFs has nothing to hand out, and does not register
// with its kubelet.
func newPodVFs(n *parts, uplink plugin.Uplink, defaults []plugin.Pool) (*podVFs, error) {
	claims, err := n.openLedger()
	if err != nil {
		return nil, err
	}
	kubelet, err := podresources.New(filepath.Join(n.VFs.KubeletDir, "pod-resources", "kubelet.sock"), n.uidOf)
	if err != nil {
		return nil, err
	}
	n.own.holder = func(device string) string {
		if claim, held := claims.Holder(device); held {
			return claim.Pod.String()
		}
		return ""
	}
	pools, resources := n.VFs.served(defaults)
	v := &podVFs{parts: n, uplink: uplink, functions: &cni.Functions{
		Resources: resources, Given: kubelet.Devices, Reserved: n.own.notForPods,
		VF: n.devices.VF, Ledger: claims,
	}}
	v.functions.Mover = v.mover()
	if len(pools) == 0 {
		return v, nil
	}
	cfg := plugin.Defaults()
	cfg.Pools, cfg.Dir = pools, filepath.Join(n.VFs.KubeletDir, "device-plugins")
	cfg.Sysfs, cfg.Logger = n.inventory.Sysfs, n.Logger
	if v.plugin, err = plugin.New(cfg, claims); err != nil {
		return nil, err
	}
	n.metrics.MustRegister(v.plugin)
	n.devices.OnChange(func(vf.Inventory) { v.offer() })
	return v, nil
}

// repair calls on the CNI server where a NIC that is back, or another state of a pod, asks for it.
func (v *podVFs) repair(server *cni.Server) {
	v.devices.OnChange(func(vf.Inventory) { server.Repair() })
	v.view.OnChange(server.Changed)
}

func (n *parts) openLedger() (*ledger.Ledger, error) {
	claims, err := ledger.Open(filepath.Join(filepath.Dir(n.Node.Checkpoint), "devices"), n.Node.Boot)
	if err != nil {
		return nil, err
	}
	for device, reason := range claims.Damaged() {
		n.Logger.Warn("record of this VF is damaged: no pod gets the VF until the record is removed", "device", device, "error", reason)
	}
	return claims, nil
}

func (n *parts) uidOf(_ context.Context, name types.NamespacedName) (types.UID, error) {
	pod := n.view.Pod(name.Namespace, name.Name)
	if pod == nil {
		return "", podresources.ErrNotFound
	}
	return pod.UID, nil
}

func (v *podVFs) mover() *attach.Mover {
	deps := attach.Deps{
		Ledger: v.functions.Ledger, Host: v.netns, Ethtool: v.kernel, Inode: netdev.Inode, Log: v.Logger,
		Open: func(path string) (attach.Netns, error) {
			ns, err := netdev.Open(path)
			if err != nil {
				return nil, err
			}
			return ns, nil
		},
		Exclusive: v.devices.Exclusive, Use: v.inventory.Use,
		Present: func(device string) (bool, []string, error) { return netdev.PCINetdevs(v.inventory.Sysfs, device) },
		RDMA:    v.inventory.Sysfs.RDMADevices,
	}
	if v.uplink == plugin.OwnUplink {
		deps.PF = v.kernel
	}
	if v.VFs.InitialNetns != "" {
		deps.Strays = []string{v.VFs.InitialNetns}
	}
	return attach.New(deps)
}

// offer tells the kubelet which VFs pods can get.
func (v *podVFs) offer() {
	v.offering.Lock()
	defer v.offering.Unlock()
	inv := v.devices.Inventory()
	if inv == nil || v.plugin == nil {
		return
	}
	purposes := v.own.purposes()
	offered := slices.DeleteFunc(plugin.FromInventory(*inv, v.uplink), func(d plugin.Device) bool {
		return purposes.Of(d.ID) != vf.ForPods
	})
	if err := v.plugin.Update(offered); err != nil {
		v.Logger.Warn("offering devices", "error", err)
	}
}

// serveKubelet begins again after an error: pods without VFs need none of it.
func (v *podVFs) serveKubelet(ctx context.Context) error {
	const pause = 10 * time.Second
	for v.plugin != nil {
		err := v.plugin.Run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.Logger.Warn("serving devices", "error", err, "retry", pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return nil
}

// publisher writes a part of the NodeOffload when devices, claims or the Node are other ones.
func (v *podVFs) publisher(part nodeoffload.Part, facts func() nodeoffload.Facts) (*nodeoffload.Publisher, error) {
	publisher, err := v.parts.publisher(part, facts)
	if err != nil {
		return nil, err
	}
	v.devices.OnChange(func(vf.Inventory) { publisher.Changed() })
	v.functions.Ledger.OnChange(publisher.Changed)
	v.onNode(publisher.Changed)
	return publisher, nil
}

// users names the pods that have VFs, by device.
func (v *podVFs) users() map[string]string {
	out := map[string]string{}
	for _, c := range v.functions.Ledger.Claims() {
		out[c.Device] = "pod " + c.Pod.String()
	}
	return out
}

// defaults are the VFs for pods that ask for none, of which pods can have any now.
func (v *podVFs) defaults() (devices []string) {
	purposes := v.own.purposes()
	for _, d := range plugin.FromInventory(v.known(), v.uplink) {
		if d.Problem == "" && purposes.Of(d.ID) == vf.ForDefaultPods {
			devices = append(devices, d.ID)
		}
	}
	return devices
}
