package dpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// Health is what a host knows of its DPU.
type Health struct {
	Ready bool
	// Reason says why not.
	Reason string
	// Since is when it became so, as far as this process has seen.
	Since time.Time
	// PodMTU is what the DPU's underlay leaves to pods; 0 while it has not said.
	PodMTU int
}

// Watch follows the DPU's Lease on its host.
type Watch struct {
	client  *api.Client
	host    string
	log     *slog.Logger
	changed func(Health)
	began   time.Time

	mu       sync.Mutex
	lease    *coordinationv1.Lease
	renewed  time.Time // of this machine's clock; the DPU's may be wrong
	health   Health
	expiry   *time.Timer
	reported bool
}

// NewWatch makes a Watch. It calls changed with the first state and at each change of Ready, Reason or PodMTU; changed
// must neither block nor call back.
func NewWatch(client *api.Client, host string, log *slog.Logger, changed func(Health)) *Watch {
	return &Watch{
		client: client, host: host, log: log, changed: changed, began: time.Now(),
		health: Health{Reason: "its Lease was not read yet", Since: time.Now()},
	}
}

// Run follows the Lease until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	name := contract.DPULeasePrefix + w.host
	informer := api.NewInformer(w.client.Leases(contract.DPULeaseNamespace), &coordinationv1.Lease{}, nil, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	})
	see := func(obj any) {
		if lease, ok := obj.(*coordinationv1.Lease); ok && lease.Name == name {
			w.see(lease, time.Now())
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
		DeleteFunc: func(any) { w.see(nil, time.Now()) },
	})
	if err != nil {
		return fmt.Errorf("watching the DPU's Lease: %w", err)
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			w.look(time.Now()) // also when there is none
		}
	}()
	informer.RunWithContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expiry != nil {
		w.expiry.Stop()
	}
	return ctx.Err()
}

// Health is the last state.
func (w *Watch) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.health
}

// Age is a metric of the Lease's age.
func (w *Watch) Age() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ovn_offload_dpu_lease_age_seconds",
		Help: "Time since the DPU renewed its Lease, or since the agent started if there is no Lease.",
	}, func() float64 { return w.age(time.Now()).Seconds() })
}

func (w *Watch) age(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.renewed.IsZero() {
		return now.Sub(w.began)
	}
	return now.Sub(w.renewed)
}

// Ready says why the DPU attaches no pods; nil when it does.
func (w *Watch) Ready() error {
	if h := w.Health(); !h.Ready {
		return errors.New("the DPU of this host is not ready: " + h.Reason)
	}
	return nil
}

// see takes a new state of the Lease. A renewal counts from when it is seen,
// but the first from what it says, lest an old one pass for new.
func (w *Watch) see(lease *coordinationv1.Lease, now time.Time) {
	w.mu.Lock()
	was := w.lease
	w.lease = lease
	switch {
	case lease == nil || lease.Spec.RenewTime == nil:
		w.renewed = time.Time{}
	case was == nil:
		w.renewed = lease.Spec.RenewTime.Time
		if w.renewed.After(now) {
			w.renewed = now
		}
	case was.Spec.RenewTime == nil || !was.Spec.RenewTime.Equal(lease.Spec.RenewTime):
		w.renewed = now
	}
	w.mu.Unlock()
	w.look(now)
}

// look judges the Lease and comes back when it runs out.
func (w *Watch) look(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := judge(w.lease, w.renewed, now)
	if w.expiry != nil {
		w.expiry.Stop()
	}
	if next.Ready {
		left := w.renewed.Add(duration(w.lease)).Sub(now)
		w.expiry = time.AfterFunc(left+time.Millisecond, func() { w.look(time.Now()) })
	}
	same := next.Ready == w.health.Ready && next.Reason == w.health.Reason
	if next.Since = now; same {
		next.Since = w.health.Since
	}
	sameMTU := next.PodMTU == w.health.PodMTU
	w.health = next
	if same && sameMTU && w.reported {
		return
	}
	w.reported = true
	if next.Ready {
		w.log.Info("the DPU is ready", "mtu", next.PodMTU)
	} else {
		w.log.Warn("the DPU is not ready", "reason", next.Reason)
	}
	w.changed(next)
}

// judge is the state that a Lease stands for.
func judge(lease *coordinationv1.Lease, renewed, now time.Time) Health {
	if lease == nil {
		return Health{Reason: "it has never reported (no Lease)"}
	}
	var h Health
	h.PodMTU, _ = strconv.Atoi(lease.Annotations[contract.DPUPodMTUKey])
	switch problem := lease.Annotations[contract.DPUProblemKey]; {
	case problem != "":
		h.Reason = problem
	case now.Sub(renewed) > duration(lease):
		h.Reason = fmt.Sprintf("it has not reported for more than %s", duration(lease))
	default:
		h.Ready = true
	}
	return h
}

func duration(lease *coordinationv1.Lease) time.Duration {
	if s := lease.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	return LeaseDuration
}
