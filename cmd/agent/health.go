package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/node"
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
	a.health = node.NewHealthChecks(node.HealthDeps{
		Services: a.view.Services, Endpoints: endpoints.Count, Ready: a.problem,
		Logger: a.opts.log, Registerer: a.metrics,
	})
	a.view.OnChange(func(owners ...kube.Owner) {
		if slices.ContainsFunc(owners, func(o kube.Owner) bool { return o.Kind == kube.KindService }) {
			a.health.Mark()
		}
	})
}
