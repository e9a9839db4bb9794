package main

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// What a node can be.
const (
	modeFull = "full"
	modeHost = "host"
	modeDPU  = "dpu"
	modeAuto = "auto"
)

// dpuOptions are the flags about hosts and DPUs.
type dpuOptions struct {
	host, controller string
	controllers      []uint32 // controller, read
}

func (o *dpuOptions) complete() (err error) {
	if o.controllers, err = dpu.ParseControllers(o.controller); err != nil {
		return fmt.Errorf("--dpu-host-controller: %w", err)
	}
	return nil
}

// hostKey is the contract's setting of whose DPU this is.
const hostKey = "host-k8s-nodename"

// workDPU sets the DPU up as the network side of its host's Node, whose cluster
// the client is of, and gives the host's pods their ports.
func (a *agent) workDPU(ctx context.Context, group *errgroup.Group, client *api.Client) error {
	serves, err := a.serves()
	if err != nil {
		return err
	}
	a.opts.node.Node = serves.Host
	a.opts.log = a.opts.log.With("host", serves.Host)
	if err := a.prepare(client); err != nil {
		return err
	}
	bridge := &cni.OVS{DB: a.db, Bridge: contract.IntegrationBridge, Host: a.host, Functions: a.kernel}
	report := kube.NewReporter(ctx, client, a.view, "ovn-offload-agent")
	ports, err := a.hostPorts(client, serves, bridge, report)
	if err != nil {
		return err
	}
	publisher, err := a.hostTraffic(client)
	if err != nil {
		return err
	}
	if err := a.openSampling(a.devices.Inventory, report, publisher.Sampled); err != nil {
		return err
	}
	a.ready = func() error { return cmp.Or(bridge.Ready(), a.setup.Ready(), ports.Problem()) }
	pulse := a.pulse(client, serves)
	if err := pulse.Alone(ctx); err != nil {
		return err
	}
	group.Go(func() error { return pulse.Run(ctx) })
	a.devices.OnChange(ports.SetInventory)
	management, err := a.dpuManagement(client, ports, report)
	if err != nil {
		return err
	}
	a.devices.OnChange(func(vf.Inventory) { publisher.Changed() })
	group.Go(func() error { return a.devices.Run(ctx) })
	group.Go(func() error { return a.sampling.Run(ctx) })
	group.Go(func() error { return publisher.Run(ctx) })
	changed := func(owners ...contract.Owner) { ports.Changed(owners...); management.Changed(owners...) }
	if err := a.follow(ctx, group, changed); err != nil {
		return err
	}
	if err := a.settled(ctx); err != nil {
		return err
	}
	a.db.OnReconnect(func() { ports.Mark(); management.Mark() })
	group.Go(func() error { return management.Run(ctx) })
	a.serving.Store(true)
	a.opts.log.Info("DPU is ready for the pods of its host")
	return ports.Run(ctx)
}

func (a *agent) pulse(client *api.Client, serves dpu.Serves) *dpu.Pulse {
	return &dpu.Pulse{
		Client: client, Host: serves.Host, Chassis: a.setting("system-id"), Period: dpu.LeasePeriod, Logger: a.opts.log,
		Node:    func() *corev1.Node { return a.view.Node(serves.Host) },
		Problem: a.ready, MTU: a.setup.MTU,
	}
}

// setting is one of the local Open_vSwitch, "" when it is not set.
func (a *agent) setting(key string) string {
	for _, row := range a.db.Table(vswitch.OpenvSwitchTable) {
		if settings, ok := row.(*vswitch.OpenvSwitch); ok {
			return settings.ExternalIDs[key]
		}
	}
	return ""
}

// serves asks the flags and then the local database, which is where who installs
// a DPU writes it.
func (a *agent) serves() (dpu.Serves, error) {
	out := dpu.Serves{Host: cmp.Or(a.opts.dpu.host, a.setting(hostKey)), Controllers: a.opts.dpu.controllers}
	if out.Host == "" {
		return out, fmt.Errorf("whose DPU is this? Neither --dpu-host nor external_ids:%s of the local Open_vSwitch says", hostKey)
	}
	return out, nil
}

// hostTraffic writes into the host's NodeOffload where its traffic is.
func (a *agent) hostTraffic(client *api.Client) (*nodeoffload.Publisher, error) {
	kinds, err := api.NewDynamic(a.opts.kube)
	if err != nil {
		return nil, err
	}
	return a.publisher(client, kinds, nodeoffload.Traffic, func() nodeoffload.Facts {
		return nodeoffload.Facts{Inventory: a.devices.Inventory(), Settings: a.sampling.Settings(), Report: a.sampling.Report()}
	})
}

func (a *agent) hostPorts(client *api.Client, serves dpu.Serves, bridge cni.Switch, report *kube.Reporter) (*dpu.Ports, error) {
	cfg := dpu.Defaults()
	cfg.Serves, cfg.Logger, cfg.Registerer = serves, a.opts.log, a.metrics
	return dpu.NewPorts(cfg, dpu.Deps{
		Pods: a.view, Node: func() *corev1.Node { return a.view.Node(serves.Host) }, Switch: bridge, MTU: a.setup.MTU,
		Annotate: kube.NewWriter(client).AnnotatePod, Warn: report.Warn,
	})
}
