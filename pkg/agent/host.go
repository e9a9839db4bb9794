package agent

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/node/unmanaged"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
)

// host is the agent of a host with a DPU. There is no OVS here, and nothing of the machine's own network changes.
type host struct {
	*podVFs
	mtu            *dpu.PodMTU
	dpu            *dpu.Watch
	managementPort *management.Runner
	status         *nodeoffload.Publisher
	server         *cni.Server
	label          *reconcile.Single
	policies       *setup.Policies
	nics           *setup.Runner
	changed        chan struct{} // the DPU's health
}

// Host makes the agent of a host with a DPU: it answers the CNI plugin for pods that have their ports on the DPU.
func Host(ctx context.Context, p *Process) (Agent, error) {
	n, err := newParts(ctx, p)
	if err != nil {
		return nil, err
	}
	h := &host{label: n.labelMode(ModeHost), mtu: dpu.NewPodMTU(p.Node.MTU, p.Logger), changed: make(chan struct{}, 1)}
	if h.podVFs, err = newPodVFs(n, plugin.DPUUplink, plugin.DefaultDPUPools()); err != nil {
		return nil, err
	}
	h.functions.Spare = h.defaults
	if h.managementPort, err = n.management(n.nodeDeps(), h.managementVF, h.mtu.Get); err != nil {
		return nil, err
	}
	n.onLinks(n.own.links, h.managementPort.Mark)
	n.view.OnChange(h.managementPort.Changed)
	if h.status, err = h.publisher(nodeoffload.Devices, h.facts); err != nil {
		return nil, err
	}
	if err := h.openPolicies(); err != nil {
		return nil, err
	}
	h.dpu = dpu.NewWatch(n.client, n.Node.Node, n.Logger, h.healthChanged)
	n.metrics.MustRegister(h.dpu.Age())
	return h, h.openServer()
}

// openPolicies makes what sets the number of VFs as OffloadPolicies say.
func (h *host) openPolicies() (err error) {
	h.policies, h.nics, err = h.podVFs.policies(h.status.Changed, setup.DPUOVS{}, setup.Busy{
		Uplinks: setup.DPUUplinks{}, DPU: true, Pods: func() []string { return nil },
	})
	return err
}

func (h *host) openServer() (err error) {
	cfg := h.CNI
	cfg.MTU = h.mtu.Get
	if h.server, err = cni.NewServer(cfg, cni.Deps{
		Plugger: &dpu.Host{
			Node: h.Node.Node, View: h.view, Waiting: h.pods, Annotate: h.writer.AnnotatePod,
			Ready: h.dpu.Ready,
		},
		Pods: h.pods, Host: h.netns, OpenNS: cni.OpenNS, Functions: h.functions, Ready: h.dpu.Ready, Warn: h.report.Warn,
		Carried: func(physicalNetwork string) int {
			if physicalNetwork != "" {
				return 0 // the DPU has the bridge
			}
			return h.mtu.Get()
		},
	}, h.Logger, h.metrics); err != nil {
		return err
	}
	h.repair(h.server)
	h.view.OnChange(h.server.Routes().Changed)
	return nil
}

// Run is Agent's.
func (h *host) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		h.label.Run, h.dpu.Run, h.status.Run, h.devices.Run, h.serveKubelet,
		h.nics.Run, func(ctx context.Context) error { return h.policies.Run(ctx, h.nics.Mark) },
	} {
		group.Go(func() error { return run(ctx) })
	}
	group.Go(func() error {
		if err := unmanaged.Install(ctx, h.Install.Run, sysfs, nil); err != nil {
			h.Logger.Warn("network services may configure devices of the network", "error", err)
		}
		if err := h.view.Start(ctx); err != nil {
			return err
		}
		h.services.run(ctx, group)
		group.Go(func() error { return h.server.RunSweeps(ctx) })
		group.Go(func() error { return h.server.Routes().Run(ctx) })
		if err := h.waitMTU(ctx); err != nil {
			return err
		}
		group.Go(func() error { return h.managementPort.Run(ctx) })
		return h.serve(ctx, h.server, h.dpu.Ready)
	})
	return group.Wait()
}

// healthChanged publishes what the DPU's Lease says, in an Event of the Node and among the problems of its NodeOffload.
func (h *host) healthChanged(health dpu.Health) {
	if !health.Ready {
		h.report.Warn(contract.NodeOwner(h.Node.Node), "DPUNotReady", "the DPU of this host is not ready: "+health.Reason)
	}
	h.status.Changed()
	if h.mtu.Follow(health) {
		h.managementPort.Mark()
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

func (h *host) managementVF() (*node.VF, error) {
	former := ""
	if object := h.node(); object != nil {
		former = object.Annotations[contract.ManagementPortKey]
	}
	return h.own.claim(former)
}

func (h *host) facts() nodeoffload.Facts {
	facts := nodeoffload.Facts{Versions: h.versions(), Inventory: h.devices.Inventory(), Claims: h.functions.Ledger.Claims(), Reserved: h.own.notForPods(), Policies: h.nics.Results()}
	if err := h.dpu.Ready(); err != nil {
		facts.Away = err.Error()
	}
	if err := h.managementPort.Problem(); err != nil {
		facts.Problems = append(facts.Problems, err.Error())
	}
	return facts
}

// waitMTU returns when the MTU of pods is known.
func (h *host) waitMTU(ctx context.Context) error {
	for h.mtu.Get() == 0 {
		if h.dpu.Ready() == nil {
			return errors.New("the DPU does not tell which MTU pods have: --mtu is needed")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.changed:
		}
	}
	return nil
}
