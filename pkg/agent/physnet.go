package agent

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/physnet"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// physicalNetworks keep the bridges that PhysicalNetworks and ProviderNetworks want on the node.
type physicalNetworks struct {
	reconciler *physnet.Reconciler
	objects    *api.Followed[v1alpha1.PhysicalNetwork]
	providers  *api.Followed[opnfv.ProviderNetwork]
	loop       *reconcile.Single
}

func (o *ovs) newPhysicalNetworks(changed func()) (*physicalNetworks, error) {
	p := &physicalNetworks{}
	cfg := reconcile.Defaults("physical-networks")
	cfg.Logger = o.Logger // no metrics: the NodeOffload has the problems, and the series of a node are limited
	p.reconciler = &physnet.Reconciler{
		Node: func() (map[string]string, bool) {
			if object := o.node(); object != nil {
				return object.Labels, true
			}
			return nil, false
		},
		Networks: p.list,
		DB:       o.db, Links: node.Local{NS: o.netns}, Datapath: o.Node.Datapath, Changed: changed,
	}
	p.loop = reconcile.NewSingle(cfg, func(ctx context.Context) error {
		return errors.Join(p.reconciler.Reconcile(ctx), o.labelPhysical(ctx))
	})
	var err error
	if p.objects, err = api.NewFollowed[v1alpha1.PhysicalNetwork](o.kinds, v1alpha1.PhysicalNetworks(), o.Logger, p.loop.Mark); err != nil {
		return nil, err
	}
	if p.providers, err = api.NewFollowed[opnfv.ProviderNetwork](o.kinds, opnfv.ProviderNetworks(), o.Logger, p.loop.Mark); err != nil {
		return nil, err
	}
	o.onNode(p.loop.Mark)
	o.db.OnReconnect(p.loop.Mark)
	o.db.OnForeign(func(tables []string) {
		for _, table := range tables {
			if table == vswitch.OpenvSwitchTable || table == vswitch.BridgeTable {
				p.loop.Mark()
				return
			}
		}
	})
	return p, nil
}

// labelPhysical keeps the labels of the Node that say to which physical networks it is connected, also by bridges that an
// administrator has made.
func (o *ovs) labelPhysical(ctx context.Context) error {
	object := o.node()
	if object == nil || !o.db.Connected() {
		return nil // their events come
	}
	return o.writer.LabelNode(ctx, object, node.PhysicalLabels(setting(o.db, node.BridgeMappings), object.Labels))
}

// list is not ok before all are read.
func (p *physicalNetworks) list() (networks []physnet.Network, ok bool) {
	objects, objectsRead := p.objects.List()
	providers, providersRead := p.providers.List()
	for _, object := range objects {
		networks = append(networks, physnet.OfPhysical(object))
	}
	for _, provider := range providers {
		networks = append(networks, physnet.OfProvider(provider))
	}
	return networks, objectsRead && providersRead
}

// run keeps them until ctx ends. An interface that comes later is found by the retry.
func (p *physicalNetworks) run(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { return p.objects.Run(ctx, p.loop.Mark) })
	group.Go(func() error { return p.providers.Run(ctx, p.loop.Mark) })
	group.Go(func() error { return p.loop.Run(ctx) })
}
