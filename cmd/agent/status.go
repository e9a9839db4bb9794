package main

import (
	"context"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// openDevices takes the inventory of the node's own namespace.
func (a *agent) openDevices() error {
	devices, err := netdev.OpenDevices(a.host)
	if err != nil {
		return err
	}
	a.devices = vf.NewLive(&vf.Node{
		Sysfs: netdev.OpenSysfs("/sys"), Kernel: devices, Links: a.host, Events: devices, Names: vf.DefaultNames(),
	}, a.opts.log)
	return nil
}

// startStatus publishes what the node has to offload to. Nothing waits for it,
// and nothing that pods need comes out of it.
func (a *agent) startStatus(ctx context.Context, group *errgroup.Group, writer *kube.Writer) error {
	client, err := kube.NewDynamicClient(a.opts.kube)
	if err != nil {
		return err
	}
	name := a.opts.node.Node
	cfg := nodeoffload.Defaults(name)
	cfg.Logger, cfg.Registerer = a.opts.log, a.metrics
	publisher, err := nodeoffload.New(cfg, nodeoffload.Deps{
		Client: client, Facts: a.facts, Label: writer.LabelNode,
		NodeObject: func() *corev1.Node { return a.view.Node(name) },
	})
	if err != nil {
		return err
	}
	a.devices.OnChange(func(vf.Inventory) { publisher.Changed() })
	a.view.OnChange(func(owners ...kube.Owner) {
		for _, owner := range owners {
			if owner == kube.NodeOwner(name) {
				publisher.Changed()
			}
		}
	})
	group.Go(func() error { return publisher.Run(ctx) })
	group.Go(func() error { return a.devices.Run(ctx) })
	return nil
}

// facts is what is known at this moment.
func (a *agent) facts() nodeoffload.Facts {
	return nodeoffload.Facts{Inventory: a.devices.Inventory()}
}
