// Package reroute gives running pods the routes that their networks have now.
//
// Place in the data flow:
//
//	routes of a network or a chain change -> pkg/ipam -> annotation pod-networks -> Routes -> podlink.Link.Reroute
//
// Only routes of further networks change. A route has the agent's protocol number, which the routes of the pod itself do not have.
package reroute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/cni/podlink"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Deps is what Routes looks at and acts on.
type Deps struct {
	// Pod is nil when the pod is absent.
	Pod func(namespace, name string) *corev1.Pod
	// Plugged gives the ports of pods, of all when none is named.
	Plugged func(pods ...contract.Owner) ([]plug.Plugged, error)
	// Netns is the path of the namespace of a port's interface, "" where that is not known or the interface has no netdev.
	Netns func(p plug.Plugged) string
	// Busy says that an ADD of the pod is under way. Call Changed at its end: it makes the routes of the time at which it began.
	Busy func(pod contract.Owner) bool
	// OpenNS opens a namespace; its error wraps fs.ErrNotExist for one that is gone.
	OpenNS func(path string) (Netns, error)
}

// Netns is what is needed of a pod's namespace.
type Netns interface {
	podlink.NS
	io.Closer
}

// Routes are those of the node's pods.
type Routes struct {
	deps Deps
	loop *reconcile.Loop[contract.Owner]
	// has is the annotation whose routes a pod has. Only the loop's one worker uses it.
	has map[contract.Owner]string
}

// New makes Routes; nothing is touched before Run. Without a Registerer there are no metrics.
func New(deps Deps, log *slog.Logger, reg prometheus.Registerer) *Routes {
	cfg := reconcile.Defaults("routes")
	cfg.Logger = log
	if reg != nil {
		cfg.Registerer = reg
	}
	r := &Routes{deps: deps, has: map[contract.Owner]string{}}
	r.loop = reconcile.New(cfg, func(_ context.Context, pods []contract.Owner) (map[contract.Owner]error, error) {
		failed := map[contract.Owner]error{}
		for _, pod := range pods {
			failed[pod] = r.follow(pod)
		}
		return failed, nil
	})
	r.loop.MarkAllWith(func() (pods []contract.Owner) {
		ports, _ := deps.Plugged() // without a database, each pod changes when it is connected
		for _, p := range ports {
			pods = append(pods, p.Pod.On(""))
		}
		return contract.Unique(pods)
	})
	return r
}

// Changed takes the owners whose objects or ports have changed. It does not block.
func (r *Routes) Changed(owners ...contract.Owner) {
	for _, o := range owners {
		if o.Kind == contract.KindPod {
			r.loop.Mark(o.On(""))
		}
	}
}

// Run works until ctx ends. The pods must be known. It begins with all of them, which may have changed while there was no
// agent.
func (r *Routes) Run(ctx context.Context) error { return r.loop.Run(ctx) }

func (r *Routes) follow(owner contract.Owner) error {
	pod := r.deps.Pod(owner.Namespace, owner.Name)
	if pod == nil {
		delete(r.has, owner)
		return nil
	}
	annotation := pod.Annotations[contract.PodNetworksKey]
	if r.has[owner] == annotation || r.deps.Busy(owner) {
		return nil
	}
	if len(podlink.Further(pod)) == 0 {
		r.has[owner] = annotation
		return nil
	}
	ports, err := r.deps.Plugged(owner)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range ports {
		if p.Pod.Network != "" && p.UID == string(pod.UID) {
			errs = append(errs, r.reroute(pod, p))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.has[owner] = annotation
	return nil
}

// reroute is about one interface, unless its namespace is gone or another interface has its name there.
func (r *Routes) reroute(pod *corev1.Pod, p plug.Plugged) error {
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], p.Pod.NetworkKey())
	path := r.deps.Netns(p)
	if err != nil || network == nil || path == "" {
		return err
	}
	ns, err := r.deps.OpenNS(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	link, err := ns.Link(p.IfName)
	if errors.Is(err, netdev.ErrNotFound) || err == nil && link.MAC.String() != network.MAC.String() {
		return nil
	}
	if err == nil {
		err = podlink.Of(pod, p.Pod.Network, p.IfName, network).Reroute(ns)
	}
	if err != nil {
		return fmt.Errorf("routes of %s in pod %s: %w", p.IfName, p.Pod.On(""), err)
	}
	return nil
}
