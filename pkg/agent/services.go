package agent

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/node/health"
	"github.com/ovn-offload/ovn-offload/pkg/node/svchealth"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

// services are those of the cluster as this node serves them.
type services struct {
	view   *kube.NodeView
	health *svchealth.Server
	// all answers for all services, at the port that kube-proxy has elsewhere.
	all *health.Server
	// changed is called when other services have no endpoint here; nil on a host with a DPU, which has the gateway
	// bridge.
	changed func()
	synced  atomic.Bool // the view is complete
	// remote are the services with policy Local without an endpoint here; nil before their endpoints are counted first.
	remote atomic.Pointer[map[types.NamespacedName]bool]
	// anyHostPorts says that the bridge has had host ports of pods to serve.
	anyHostPorts atomic.Bool
}

// newServices makes the health checks, too, which run once the view is complete.
func newServices(p *Process, view *kube.NodeView) *services {
	s := &services{view: view}
	endpoints := kube.NewLocalEndpoints(p.client, p.Node.Node, func() { s.health.Mark() })
	s.health = svchealth.New(svchealth.Deps{
		Services: view.Services, Ready: p.ready.problem,
		Endpoints: func(ctx context.Context, checked []types.NamespacedName) (map[types.NamespacedName]int, error) {
			return s.countEndpoints(ctx, endpoints, checked)
		},
		Logger: p.Logger, Registerer: p.metrics,
	})
	s.all = health.New(p.Metrics.Health, health.Deps{
		Ready: func() error { return cmp.Or(p.ready.problem(), s.known()) }, Node: func() *corev1.Node { return view.Node(p.Node.Node) }, Logger: p.Logger,
	})
	view.OnChange(func(owners ...contract.Owner) {
		if slices.ContainsFunc(owners, func(o contract.Owner) bool { return o.Kind == contract.KindService }) {
			s.health.Mark()
		}
	})
	return s
}

// countEndpoints gives the ready endpoints on this node of the services that are checked, and records which services
// with policy Local have none here. While the endpoints cannot be read, the record stays.
func (s *services) countEndpoints(ctx context.Context, endpoints *kube.LocalEndpoints, checked []types.NamespacedName) (map[types.NamespacedName]int, error) {
	var local []types.NamespacedName
	for _, svc := range s.view.Services() {
		if service.HasLocalPolicy(svc) {
			local = append(local, types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
		}
	}
	counts, err := endpoints.Count(ctx, slices.Concat(checked, local))
	remote := map[types.NamespacedName]bool{}
	for _, name := range local {
		if err == nil && counts[name] == (kube.OnNode{}) {
			remote[name] = true
		}
	}
	if last := s.remote.Load(); last == nil || err == nil && !maps.Equal(*last, remote) {
		s.remote.Store(&remote)
		if s.changed != nil {
			s.changed()
		}
	}
	ready := map[types.NamespacedName]int{}
	for _, name := range checked {
		ready[name] = counts[name].Ready
	}
	return ready, err
}

// run answers load balancers. The view is complete.
func (s *services) run(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { return s.health.Run(ctx) })
	group.Go(func() error { return s.all.Run(ctx) })
}

func (s *services) known() error {
	if s.remote.Load() == nil {
		return errors.New("the services of the cluster are not known yet")
	}
	return nil
}

// ports are not known before the view is complete, and before it is known which services have endpoints here.
func (s *services) ports(masquerade []netip.Prefix) (flows.Services, bool) {
	remote := s.remote.Load()
	if !s.synced.Load() || remote == nil {
		return flows.Services{}, false
	}
	pods := s.view.Pods()
	s.anyHostPorts.Store(slices.ContainsFunc(pods, flows.HasHostPorts))
	ports := flows.PortsOf(s.view.Services(), pods, flows.Elsewhere{Services: *remote, Masquerade: masquerade})
	ports.Subnets = s.view.ServiceSubnets()
	return ports, true
}

// setUp is what follows objects; *gateway.Setup does.
type setUp interface {
	Changed(owners ...string)
	ServicesChanged()
}

// tell tells the set-up of changed objects.
func (s *services) tell(setup setUp, owners []contract.Owner) {
	for _, owner := range owners {
		setup.Changed(owner.String())
		if s.concern(owner) {
			setup.ServicesChanged()
		}
	}
}

// concern reports whether a changed object concerns the bridge: a pod has host ports, or is gone and may have had some.
func (s *services) concern(owner contract.Owner) bool {
	switch owner.Kind {
	case contract.KindService, kube.KindServiceCIDR:
		return true
	case contract.KindPod:
		pod := s.view.Pod(owner.Namespace, owner.Name)
		if pod == nil || !contract.WantsNetwork(pod) {
			return s.anyHostPorts.Load()
		}
		return flows.HasHostPorts(pod)
	}
	return false
}
