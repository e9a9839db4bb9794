// Package agent joins the parts of a node's agent. Each kind of node has a constructor:
//
//	Full  a node with its own OVS: gateway.Setup, then cni.Server -> plug.OVS -> br-int;
//	      OffloadPolicies, the node's NodeOffload
//	Host  a host with a DPU: cni.Server -> dpu.Host -> annotations of pods; no OVS
//	DPU   the DPU of a host: gateway.Setup, dpu.Ports -> plug.OVS -> br-int, the Lease
//
// Place in the data flow:
//
//	cmd/agent: flags -> Config -> Run -> one of these -> kube.NodeView, ovsdb.DB (the local OVS), netdev
//
// A constructor makes the parts and subscribes each to the events of the others; it starts nothing. Run starts the
// parts in the order in which they need each other. The network's configuration for the container runtime is written
// last. Metrics and health are served first, even without an API server.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// Agent is the agent of one kind of node.
type Agent interface {
	// Run works until ctx ends.
	Run(ctx context.Context) error
}

// Process is what an agent has before the kind of its node is known.
type Process struct {
	Config
	client  *api.Client
	kinds   dynamic.Interface
	metrics *prometheus.Registry
	ready   readiness
	// remote is about what the agent does not need itself: services' health checks and the CNI server leave it out.
	remote readiness
}

// NewProcess makes a Process; the API server is not asked yet.
func NewProcess(cfg Config) (*Process, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	client, err := api.New(cfg.Kube)
	if errors.Is(err, fs.ErrNotExist) && cfg.Mode == ModeDPU {
		return nil, fmt.Errorf("%w: run kubectl offload dpu join for the host of this DPU", err)
	}
	if err != nil {
		return nil, err
	}
	kinds, err := api.NewDynamic(cfg.Kube)
	if err != nil {
		return nil, err
	}
	p := &Process{Config: cfg, client: client, kinds: kinds, metrics: expose.NewRegistry(cfg.Version)}
	p.remote.set(func() error { return nil })
	return p, nil
}

// Run is the agent until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	p, err := NewProcess(cfg)
	if err != nil {
		return err
	}
	p.Logger.Info("agent starts", "version", p.Version, "mode", p.Mode)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { // answers before the API server does: only tokens wait for that
		return expose.Run(ctx, expose.Config{
			Local: p.Metrics.Local, Secure: p.Metrics.Secure, Gatherer: p.metrics, Ready: func() error { return cmp.Or(p.ready.problem(), p.remote.problem()) },
			Allowed: p.client.Allowed, Logger: p.Logger,
		})
	})
	group.Go(func() error {
		a, err := p.choose(ctx)
		if err != nil {
			return err
		}
		return a.Run(ctx)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// choose makes the agent of the node's kind.
func (p *Process) choose(ctx context.Context) (Agent, error) {
	mode := p.Mode
	if mode == ModeAuto {
		var err error
		if mode, err = p.detect(ctx); err != nil {
			return nil, fmt.Errorf("finding out the mode: %w", err)
		}
		p.Logger.Info("mode chosen", "mode", mode)
	}
	switch mode {
	case ModeHost:
		return Host(ctx, p)
	case ModeDPU:
		return DPU(ctx, p)
	default:
		return Full(ctx, p)
	}
}

var errNotSetUp = errors.New("the node is not set up yet")

// readiness says why no pod can be attached now, and why the node serves no services.
type readiness struct{ check atomic.Pointer[func() error] }

func (r *readiness) problem() error {
	if check := r.check.Load(); check != nil {
		return (*check)()
	}
	return errNotSetUp
}

func (r *readiness) set(check func() error) { r.check.Store(&check) }
