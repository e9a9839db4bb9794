// Package leader keeps the writing of one zone's network to one process at a time.
package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// ErrLost says that another process may lead now: this one has to exit.
var ErrLost = errors.New("lost the leader lease")

// Config names the lease and its times. A leader stops when it has failed to renew
// for Renew, which it begins Retry after its last success. What is left of Lease is the
// time in which its last writes must end: more than kube.WriteTimeout.
type Config struct {
	Namespace, Name string
	// Identity tells processes apart, also a restarted one from its former self.
	Identity            string
	Lease, Renew, Retry time.Duration
}

// Defaults leaves only Identity to be set. A successor leads 12 to 13 s after the last renewal of a dead leader. A leader
// survives 5 s without an API server, which is the time that a load balancer and etcd need to get over a lost master.
func Defaults() Config {
	return Config{
		Namespace: "ovn-kubernetes", Name: "ovn-kubernetes-master",
		Lease: 12 * time.Second, Renew: 6 * time.Second, Retry: time.Second,
	}
}

// Validate says what is wrong with a Config.
func (c Config) Validate() error {
	switch {
	case c.Namespace == "" || c.Name == "" || c.Identity == "":
		return errors.New("leader election: namespace, name and identity must be set")
	case c.Lease-c.Renew-c.Retry <= kube.WriteTimeout:
		return fmt.Errorf("leader election: lease %s must exceed renew %s and retry %s by more than %s", c.Lease, c.Renew, c.Retry, kube.WriteTimeout)
	}
	return nil
}

// attempt bounds one request for the lease. Two of them fit into Renew.
const attempt = 2500 * time.Millisecond

// NewLeases makes the client that Run takes. A request that is not answered in time closes its connection, so that the
// next one finds another API server behind the same address; HTTP/2 would use the dead connection again.
func NewLeases(cfg api.Config) (coordination.LeasesGetter, error) {
	rc, err := cfg.REST()
	if err != nil {
		return nil, err
	}
	rc.Timeout, rc.NextProtos = attempt, []string{"http/1.1"}
	client, err := coordination.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", rc.Host, err)
	}
	return client, nil
}

// Run waits for the lease and then calls run, once. It returns after run
// has: with run's error, with ErrLost when that is why run's ctx ended, or
// with nil when ctx ended. Only then the lease is released, so a successor never
// meets a predecessor that still writes.
func Run(ctx context.Context, leases coordination.LeasesGetter, cfg Config, run func(ctx context.Context) error) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	t := &term{run: run, end: endElection, done: make(chan struct{})}
	stopWaiting := context.AfterFunc(ctx, t.giveUp)
	defer stopWaiting()
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.Name},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: cfg.Identity},
	}
	// The elector itself would release a lease that it could not renew before it
	// tells us of that, and would wait for the API server first.
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: cfg.Lease, RenewDeadline: cfg.Renew, RetryPeriod: cfg.Retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { t.lead(ctx, leading) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	elector.Run(election)
	err = t.outcome(ctx)
	if elector.IsLeader() {
		release(context.WithoutCancel(ctx), lock, cfg)
	}
	return err
}

// Confirm asks the API server whether the lease is ours still: an error that wraps
// ErrLost says that another has it.
func Confirm(ctx context.Context, leases coordination.LeasesGetter, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, kube.WriteTimeout)
	defer cancel()
	lease, err := leases.Leases(cfg.Namespace).Get(ctx, cfg.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("asking for the lease %s/%s: %w", cfg.Namespace, cfg.Name, err)
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != cfg.Identity {
		return fmt.Errorf("the lease %s/%s has another holder: %w", cfg.Namespace, cfg.Name, ErrLost)
	}
	return nil
}

// release gives up a lease that is still ours. Where it cannot, the lease ends by itself.
func release(ctx context.Context, lock *resourcelock.LeaseLock, cfg Config) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Renew)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != cfg.Identity {
		return
	}
	now := metav1.Now()
	_ = lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
}

// term is one process's time as a candidate and leader.
type term struct {
	run  func(ctx context.Context) error
	end  func()
	done chan struct{}

	mu      sync.Mutex
	leading bool
	err     error
}

// giveUp ends the candidacy; a leader ends it itself when run has returned.
func (t *term) giveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leading {
		t.end()
	}
}

func (t *term) lead(ctx, leading context.Context) {
	defer close(t.done)
	defer t.end()
	t.mu.Lock()
	t.leading = true
	t.mu.Unlock()
	running, cancel := context.WithCancel(leading)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if running.Err() == nil && ctx.Err() == nil {
		t.err = t.run(running)
	}
	if running.Err() != nil && errors.Is(t.err, context.Canceled) {
		t.err = nil // run has ended because its context ended
	}
	if ctx.Err() == nil && leading.Err() != nil {
		t.err = errors.Join(ErrLost, t.err)
	}
}

// outcome waits for run, unless the process never led.
func (t *term) outcome(ctx context.Context) error {
	t.mu.Lock()
	gaveUp := !t.leading && ctx.Err() != nil
	t.mu.Unlock()
	if gaveUp {
		return nil
	}
	<-t.done
	return t.err
}
