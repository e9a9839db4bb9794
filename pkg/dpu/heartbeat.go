package dpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// Times of the Lease in OVN-Kubernetes: renewed each ten seconds, and good for forty.
const (
	LeasePeriod   = 10 * time.Second
	LeaseDuration = 40 * time.Second
)

// renewalRetry is the pause after a renewal that failed.
const renewalRetry = time.Second

// errNodeUnknown is normal until the informer is synced. After that the node's set-up reports it.
var errNodeUnknown = errors.New("the host's cluster has no such node")

// ErrServed is a host that has another DPU. A Node has one chassis, and so one DPU.
var ErrServed = errors.New("the host has another DPU")

// errUnsure is a Lease of another DPU that may still renew it.
var errUnsure = errors.New("another DPU of the host may be there still")

// Heartbeat renews the Lease that shows a host that its DPU works. While the DPU cannot attach pods, it writes the
// reason to the Lease and does not renew it.
type Heartbeat struct {
	Client *api.Client
	// Host is the Node's name, Node its object, nil while it is not known.
	Host string
	Node func() *corev1.Node
	// Chassis is the DPU's OVS system-id.
	Chassis string
	// Problem says why no pod can be attached now.
	Problem func() error
	// MTU is what the underlay leaves to pods, 0 while that is not known.
	MTU    func() int
	Period time.Duration
	Logger *slog.Logger

	// last is the newest renewal, since the time at which this process saw it first.
	last  renewal
	since time.Time
}

// renewal is the chassis that renewed the Lease, and the time by its own clock.
type renewal struct {
	chassis string
	at      int64
}

// Alone returns nil when no other DPU renews the Lease, and ErrServed when one does. It returns nil as well if the API
// server does not answer, because the network of this DPU may be the way there.
func (p *Heartbeat) Alone(ctx context.Context) error {
	for {
		err := p.alone(ctx)
		if !errors.Is(err, errUnsure) {
			return err
		}
		p.Logger.Info("waiting whether another DPU renews the Lease", "lease", contract.DPULeasePrefix+p.Host, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.Period):
		}
	}
}

func (p *Heartbeat) alone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Period)
	defer cancel()
	lease, err := p.Client.Leases(contract.DPULeaseNamespace).Get(ctx, contract.DPULeasePrefix+p.Host, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{}
	case err != nil:
		return nil //nolint:nilerr // see Alone
	}
	return p.otherDPU(lease, time.Now())
}

// otherDPU is ErrServed when another DPU has renewed the Lease since the last call, and errUnsure until the Lease has
// expired. As in leader elections, a renewal counts from when it is seen, because the clocks of two DPUs may differ.
func (p *Heartbeat) otherDPU(lease *coordinationv1.Lease, now time.Time) error {
	first, last := p.since.IsZero(), p.last
	this := renewal{chassis: lease.Annotations[contract.DPUChassisKey]}
	if lease.Spec.RenewTime != nil {
		this.at = lease.Spec.RenewTime.UnixMicro()
	}
	if first || this != last {
		p.last, p.since = this, now
	}
	switch {
	case this.chassis == "" || this.chassis == p.Chassis || this.at == 0:
		return nil
	case !first && this != last:
		return fmt.Errorf("%w: chassis %s renews Lease %s, and this is chassis %s", ErrServed, this.chassis, lease.Name, p.Chassis)
	case now.Sub(p.since) <= duration(lease):
		return fmt.Errorf("%w: chassis %s has renewed Lease %s, and this is chassis %s", errUnsure, this.chassis, lease.Name, p.Chassis)
	}
	return nil
}

// Run renews the Lease until ctx ends, or another DPU has the Lease. The Lease then expires by itself, so a restart of
// the agent has no effect.
func (p *Heartbeat) Run(ctx context.Context) error {
	for {
		pause := p.Period
		switch err := p.renew(ctx); {
		case errors.Is(err, ErrServed):
			return err
		case errors.Is(err, errUnsure):
			p.Logger.Info("waiting whether another DPU renews the Lease", "lease", contract.DPULeasePrefix+p.Host, "error", err)
		case errors.Is(err, errNodeUnknown):
			p.Logger.Debug("renewing the Lease", "lease", contract.DPULeasePrefix+p.Host, "error", err)
			pause = min(pause, renewalRetry)
		case err != nil && ctx.Err() == nil:
			p.Logger.Warn("renewing the Lease", "lease", contract.DPULeasePrefix+p.Host, "error", err)
			pause = min(pause, renewalRetry)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (p *Heartbeat) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Period)
	defer cancel()
	leases := p.Client.Leases(contract.DPULeaseNamespace)
	lease, err := leases.Get(ctx, contract.DPULeasePrefix+p.Host, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return err
	}
	if absent {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: contract.DPULeaseNamespace, Name: contract.DPULeasePrefix + p.Host}}
	}
	if err := p.otherDPU(lease, time.Now()); err != nil {
		return err
	}
	node := p.Node()
	if node == nil {
		return fmt.Errorf("%w: %s", errNodeUnknown, p.Host)
	}
	p.fill(lease, node, time.Now())
	if absent {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

func (p *Heartbeat) fill(lease *coordinationv1.Lease, node *corev1.Node, now time.Time) {
	holder, seconds := contract.DPULeaseHolder, int32(LeaseDuration/time.Second)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, &seconds
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	annotations := maps.Clone(lease.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[contract.DPUChassisKey] = p.Chassis
	if mtu := p.MTU(); mtu != 0 {
		annotations[contract.DPUPodMTUKey] = strconv.Itoa(mtu)
	}
	if err := p.Problem(); err != nil {
		annotations[contract.DPUProblemKey] = short(err)
	} else {
		delete(annotations, contract.DPUProblemKey)
		renewed := metav1.NewMicroTime(now)
		lease.Spec.RenewTime = &renewed
	}
	lease.Annotations = annotations
}
