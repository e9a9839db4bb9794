package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/node/svchealth"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

// problem says why no pod can be attached now, and why the node serves no
// services; nil when it can and does.
func (a *agent) problem() error {
	if !a.serving.Load() {
		if a.chassis != nil && a.chassis.Problem() != nil {
			return fmt.Errorf("the node is not set up yet: %w", a.chassis.Problem())
		}
		return errors.New("the node is not set up yet")
	}
	return a.ready()
}

// openHealthChecks makes what answers at the health check ports of services, to
// be run when the view is complete.
func (a *agent) openHealthChecks(client *api.Client) {
	endpoints := kube.NewLocalEndpoints(client, a.opts.node.Node, func() { a.health.Mark() })
	a.health = svchealth.New(svchealth.Deps{
		Services: a.view.Services, Ready: a.problem,
		Endpoints: func(ctx context.Context, checked []types.NamespacedName) (map[types.NamespacedName]int, error) {
			return a.countEndpoints(ctx, endpoints, checked)
		},
		Logger: a.opts.log, Registerer: a.metrics,
	})
	a.view.OnChange(func(owners ...contract.Owner) {
		if slices.ContainsFunc(owners, func(o contract.Owner) bool { return o.Kind == contract.KindService }) {
			a.health.Mark()
		}
	})
}

// countEndpoints gives the ready endpoints on this node of the services that are
// checked, and learns which services with policy Local have none here. While the
// endpoints cannot be read, it goes by what they were last.
func (a *agent) countEndpoints(ctx context.Context, endpoints *kube.LocalEndpoints, checked []types.NamespacedName) (map[types.NamespacedName]int, error) {
	var local []types.NamespacedName
	for _, s := range a.view.Services() {
		if service.IsLocalAtNodes(s) {
			local = append(local, types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		}
	}
	counts, err := endpoints.Count(ctx, slices.Concat(checked, local))
	elsewhere := map[types.NamespacedName]bool{}
	for _, name := range local {
		if err == nil && counts[name] == (kube.OnNode{}) {
			elsewhere[name] = true
		}
	}
	if last := a.elsewhere.Load(); last == nil || err == nil && !maps.Equal(*last, elsewhere) {
		a.elsewhere.Store(&elsewhere)
		if a.setup != nil { // nil on a host with a DPU, which has the bridge
			a.setup.ServicesChanged()
		}
	}
	ready := map[types.NamespacedName]int{}
	for _, name := range checked {
		ready[name] = counts[name].Ready
	}
	return ready, err
}
