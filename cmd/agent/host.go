package main

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
)

// allVFs is the pool of a host with a DPU: what the switch of its NIC does is
// not seen from here.
const allVFs = `{"resourceList":[{"resourceName":"vf"}]}`

// workHost answers the CNI plugin on a machine whose pods have their ports on a
// DPU. There is no OVS here, and nothing of the machine's own network changes.
func (a *agent) workHost(ctx context.Context, group *errgroup.Group, client *api.Client) (err error) {
	if a.host, err = netdev.Open(""); err != nil {
		return err
	}
	if err := a.openDevices(); err != nil {
		return err
	}
	if a.view, err = kube.NewNodeView(client, a.opts.node.Node); err != nil {
		return err
	}
	a.pods = cni.NewPods(a.view.Pod)
	a.view.OnChange(a.pods.Changed)
	a.openHealthChecks(client)
	a.uplink = plugin.DPUUplink
	if a.opts.devices.pools == "" {
		a.opts.devices.pools = allVFs
	}
	if err := a.startFunctions(ctx, group); err != nil {
		return err
	}
	a.functions.Spare = a.defaultVFs
	a.podMTU.Store(int64(a.opts.node.MTU))
	a.opts.cni.MTU = func() int { return int(a.podMTU.Load()) }
	management, err := a.management(client, a.hostCarrier, a.opts.cni.MTU)
	if err != nil {
		return err
	}
	a.onCarrier(a.carrierLinks, management.Mark)
	a.view.OnChange(management.Changed)
	changed, err := a.followDPU(ctx, group, client, management)
	if err != nil {
		return err
	}
	group.Go(func() error { return a.devices.Run(ctx) })
	if err := a.view.Start(ctx); err != nil {
		return err
	}
	group.Go(func() error { return a.health.Run(ctx) })
	server, err := a.openHostServer(client)
	if err != nil {
		return err
	}
	group.Go(func() error { return server.RunSweeps(ctx) })
	if err := a.waitMTU(ctx, changed); err != nil {
		return err
	}
	group.Go(func() error { return management.Run(ctx) })
	return a.serve(ctx, server)
}

// followDPU watches the DPU's Lease and publishes what it says, in an Event of
// the Node and among the problems of its NodeOffload.
func (a *agent) followDPU(ctx context.Context, group *errgroup.Group, client *api.Client, management *management.Runner) (<-chan struct{}, error) {
	name := a.opts.node.Node
	report := kube.NewReporter(ctx, client, a.view, "ovn-offload-agent")
	kinds, err := api.NewDynamic(a.opts.kube)
	if err != nil {
		return nil, err
	}
	publisher, err := a.publisher(client, kinds, nodeoffload.Devices, func() nodeoffload.Facts { return a.hostFacts(management) })
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	a.dpu = dpu.NewWatch(client, name, a.opts.log, func(h dpu.Health) {
		if !h.Ready {
			report.Warn(contract.NodeOwner(name), "DPUNotReady", "the DPU of this host is not ready: "+h.Reason)
		}
		publisher.Changed()
		if a.takeMTU(h) {
			management.Mark()
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	a.ready = a.dpu.Ready
	a.devices.OnChange(func(vf.Inventory) { publisher.Changed() })
	a.functions.Ledger.OnChange(publisher.Changed)
	a.view.OnChange(func(owners ...contract.Owner) {
		if slices.Contains(owners, contract.NodeOwner(name)) {
			publisher.Changed()
		}
	})
	group.Go(func() error { return a.dpu.Run(ctx) })
	group.Go(func() error { return publisher.Run(ctx) })
	return changed, nil
}

func (a *agent) hostFacts(management *management.Runner) nodeoffload.Facts {
	facts := nodeoffload.Facts{Inventory: a.devices.Inventory(), Claims: a.functions.Ledger.Claims(), Reserved: a.reserved()}
	if err := a.dpu.Ready(); err != nil {
		facts.Away = err.Error()
	}
	if err := management.Problem(); err != nil {
		facts.Problems = append(facts.Problems, err.Error())
	}
	return facts
}

// takeMTU follows what the DPU says of its underlay, unless the MTU is configured. It
// reports whether pods had another MTU before.
func (a *agent) takeMTU(h dpu.Health) bool {
	if a.opts.node.MTU != 0 || h.PodMTU == 0 {
		return false
	}
	was := a.podMTU.Swap(int64(h.PodMTU))
	if was == 0 || was == int64(h.PodMTU) {
		return false
	}
	a.opts.log.Info("new pods get another MTU, as the DPU says", "mtu", h.PodMTU, "former", was)
	return true
}

// waitMTU returns when the MTU of pods is known.
func (a *agent) waitMTU(ctx context.Context, changed <-chan struct{}) error {
	for a.podMTU.Load() == 0 {
		if a.dpu.Ready() == nil {
			return errors.New("the DPU does not tell which MTU pods have: --mtu is needed")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
	return nil
}

func (a *agent) openHostServer(client *api.Client) (*cni.Server, error) {
	server, err := cni.NewServer(a.opts.cni, cni.Deps{
		Switch: &dpu.Host{
			Node: a.opts.node.Node, View: a.view, Waiting: a.pods, Annotate: kube.NewWriter(client).AnnotatePod,
			Inventory: a.known, Ready: a.ready,
		},
		Pods: a.pods, Host: a.host, OpenNS: cni.OpenNS, Functions: a.functions, Ready: a.ready,
	}, a.opts.log, a.metrics)
	if err != nil {
		return nil, err
	}
	a.server.Store(server)
	return server, nil
}

// known is empty before the first inventory.
func (a *agent) known() vf.Inventory {
	if inv := a.devices.Inventory(); inv != nil {
		return *inv
	}
	return vf.Inventory{}
}

// defaultVFs are the VFs for pods that ask for none, of which pods can have any now.
func (a *agent) defaultVFs() (devices []string) {
	purposes := a.purposes()
	for _, d := range plugin.FromInventory(a.known(), a.uplink) {
		if d.Problem == "" && purposes.Of(d.ID) == vf.ForDefaultPods {
			devices = append(devices, d.ID)
		}
	}
	return devices
}
