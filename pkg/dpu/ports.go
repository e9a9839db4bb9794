package dpu

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// workers is how many pods are worked on at once: a write that hangs in the API
// server holds up one of them.
const workers = 4

// Config of Ports.
type Config struct {
	Serves
	// FlowsTimeout is how long ovn-controller may take before the status is an error.
	FlowsTimeout time.Duration
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
}

// Defaults leaves Host to be set; it logs and registers nowhere.
func Defaults() Config {
	return Config{
		FlowsTimeout: 30 * time.Second,
		Logger:       slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
}

// Validate says what is wrong with a Config.
func (c Config) Validate() error {
	switch {
	case c.Host == "":
		return errors.New("dpu: no host is configured")
	case c.FlowsTimeout <= 0:
		return errors.New("dpu: the time for flows must be positive")
	}
	return nil
}

// Pods are the host's, as an informer sees them; *kube.NodeView has them.
type Pods interface {
	Pod(namespace, name string) *corev1.Pod
	PodsOnNode(node string) []*corev1.Pod
}

// Deps is what Ports acts on.
type Deps struct {
	Pods    Pods
	Plugger plug.Plugger
	// MTU is that of pods; asked when a pod gets its port.
	MTU func() int
	// Node is the host's, nil while it is not known.
	Node func() *corev1.Node
	// Annotate sets annotations of a pod; "" removes one.
	Annotate func(ctx context.Context, pod *corev1.Pod, annotations map[string]string) error
	// Warn puts an Event on a pod.
	Warn func(owner contract.Owner, reason, note string)
}

// Ports gives the host's pods their ports on the DPU.
type Ports struct {
	cfg     Config
	deps    Deps
	loop    *reconcile.Loop[contract.Owner]
	metrics *metrics

	facts  *facts
	bridge *bridge
	guard  guard

	mu sync.Mutex
	// refused are pods that conflict with the port or claim of another pod, and whether they have an Event.
	refused map[contract.Owner]bool
}

// NewPorts makes Ports; nothing is touched before Run.
func NewPorts(cfg Config, deps Deps) (*Ports, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Ports{
		cfg: cfg, deps: deps, metrics: newMetrics(cfg.Registerer),
		facts: &facts{Serves: cfg.Serves, pods: deps.Pods, node: deps.Node}, refused: map[contract.Owner]bool{},
	}
	lc := reconcile.Defaults("dpu")
	lc.BatchSize, lc.Workers = 1, workers
	lc.Logger, lc.Registerer = cfg.Logger, cfg.Registerer
	p.loop = reconcile.New(lc, func(ctx context.Context, owners []contract.Owner) (map[contract.Owner]error, error) {
		failed := map[contract.Owner]error{}
		for _, owner := range owners {
			failed[owner] = p.reconcile(ctx, owner)
		}
		return failed, nil
	})
	p.loop.MarkAllWith(p.everything)
	p.guard.stopped = p.stopped
	p.bridge = &bridge{
		ports: deps.Plugger, timeout: cfg.FlowsTimeout, log: cfg.Logger,
		mark: p.loop.Mark, freed: p.freed, waits: map[contract.Owner]*wait{},
	}
	return p, nil
}

// Run works until ctx ends; it leaves the ports as they are.
func (p *Ports) Run(ctx context.Context) error { return p.loop.Run(ctx) }

// Mark asks for a pass over all pods; hook it to the database's reconnect.
func (p *Ports) Mark() { p.loop.MarkAll() }

// Changed takes owners whose rows or objects have changed.
func (p *Ports) Changed(owners ...contract.Owner) {
	for _, owner := range owners {
		switch owner {
		case contract.NodeOwner(p.cfg.Host): // its management port may be another one
			p.freed()
		default:
			if owner.Kind == contract.KindPod {
				p.loop.Mark(owner)
			}
		}
	}
}

// owners are a pod's on the default network, and on each other on which it has details,
// a status or a port.
func (p *Ports) owners(pod contract.Owner) []contract.Owner {
	owners := []contract.Owner{pod}
	for _, c := range claimants(p.deps.Pods.Pod(pod.Namespace, pod.Name)) {
		owners = append(owners, c.owner)
	}
	plugged, _ := p.deps.Plugger.Plugged(pod) // without an answer a reconnect marks all again
	for _, port := range plugged {
		owners = append(owners, port.Pod)
	}
	slices.SortFunc(owners, func(a, b contract.Owner) int { return cmp.Compare(a.Network, b.Network) })
	return slices.Compact(owners)
}

// SetInventory says which devices the DPU has now. Nothing is done before the
// first call.
func (p *Ports) SetInventory(inv vf.Inventory) {
	p.facts.set(inv)
	p.Mark()
}

// Problem says why no pod could get a port; nil when one could.
func (p *Ports) Problem() error { return p.facts.problem() }

// everything is the pods with details, a status or a port.
func (p *Ports) everything() []contract.Owner {
	var owners []contract.Owner
	for _, pod := range p.deps.Pods.PodsOnNode(p.cfg.Host) {
		if pod.Annotations[contract.DPUConnectionKey] != "" || pod.Annotations[contract.DPUStatusKey] != "" {
			owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
		}
	}
	plugged, err := p.deps.Plugger.Plugged()
	if err != nil { // a reconnect marks all again
		p.cfg.Logger.Debug("ports are not known yet", "error", err)
	}
	for _, port := range plugged {
		owners = append(owners, port.Pod.On(""))
	}
	for owner := range p.held(plugged) {
		owners = slices.DeleteFunc(owners, func(other contract.Owner) bool { return other == owner.On("") })
	}
	return owners
}

// keeps reports whether the guard holds a port of the pod. The check reads all ports, and most refused pods have none.
func (p *Ports) keeps(owner contract.Owner) bool {
	own, err := p.deps.Plugger.Plugged(owner)
	if err != nil || !slices.ContainsFunc(own, func(port plug.Plugged) bool { return port.Pod == owner }) { // without an answer nothing can be unplugged either
		return false
	}
	plugged, err := p.deps.Plugger.Plugged()
	return err == nil && p.held(plugged)[owner]
}

// held are the pods whose stale ports the guard keeps for now.
func (p *Ports) held(plugged []plug.Plugged) map[contract.Owner]bool {
	stale := map[contract.Owner]bool{}
	for _, port := range plugged {
		if !p.facts.isClaimed(port) {
			stale[port.Pod] = true
		}
	}
	if p.guard.allow(len(stale), len(plugged), p.facts.problem() != nil, time.Now()) {
		return nil
	}
	return stale
}

func (p *Ports) stopped(stale, total int) {
	p.cfg.Logger.Error("mass-delete guard: too many stale ports, which are deleted if the next check has the same result", "ports", stale, "of", total, "after", secondLook)
	time.AfterFunc(secondLook, p.loop.MarkAll)
}
