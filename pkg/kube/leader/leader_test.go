package leader

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func candidate(identity string) Config {
	cfg := Defaults()
	cfg.Identity = identity
	cfg.Retry = 50 * time.Millisecond
	return cfg
}

func holder(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	lease, err := client.CoordinationV1().Leases("ovn-kubernetes").Get(t.Context(), "ovn-kubernetes-master", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// TestLeader_StartsAfterFormerHasStopped: the second starts when the first has stopped, and
// the first keeps the lease for as long as its work takes to end.
func TestLeader_StartsAfterFormerHasStopped(t *testing.T) {
	client := fake.NewClientset()
	var working atomic.Int32
	results := make(chan error, 2)
	started := make(chan string, 2)
	ctx1, stop1 := context.WithCancel(t.Context())
	ctx2, stop2 := context.WithCancel(t.Context())
	finish := make(chan struct{})
	work := func(name string, finish <-chan struct{}) func(context.Context) error {
		return func(ctx context.Context) error {
			if working.Add(1) > 1 {
				t.Error("two leaders at once")
			}
			started <- name
			<-ctx.Done()
			<-finish
			working.Add(-1)
			return ctx.Err()
		}
	}
	go func() { results <- Run(ctx1, client.CoordinationV1(), candidate("one"), work("one", finish)) }()
	wait(t, started, "one")
	closed := make(chan struct{})
	close(closed)
	go func() { results <- Run(ctx2, client.CoordinationV1(), candidate("two"), work("two", closed)) }()
	stop1()
	if got := holder(t, client); got != "one" {
		t.Errorf("%q holds the lease while the first still works", got)
	}
	close(finish)
	wait(t, started, "two")
	wait(t, results, nil)
	stop2()
	wait(t, results, nil)
	if got := holder(t, client); got != "" {
		t.Errorf("%q holds the lease at the end", got)
	}
}

func wait[T comparable](t *testing.T, ch <-chan T, want T) {
	t.Helper()
	select {
	case got := <-ch:
		if got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("waited in vain for %v", want)
	}
}

func TestCandidate_EndsWithItsContext(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("unreachable")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := Run(ctx, client.CoordinationV1(), candidate("one"), func(context.Context) error {
		t.Error("leads without a lease")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLeader_LostLeaseIsAnError(t *testing.T) {
	client := fake.NewClientset()
	var unreachable atomic.Bool
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return unreachable.Load(), nil, errors.New("unreachable")
	})
	cfg := candidate("one")
	cfg.Renew = 300 * time.Millisecond
	err := Run(t.Context(), client.CoordinationV1(), cfg, func(ctx context.Context) error {
		unreachable.Store(true)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, ErrLost) || errors.Is(err, context.Canceled) {
		t.Errorf("error %v, which main must not take for an orderly end", err)
	}
}

// TestLeader_ReleasesLeaseAfterItsWorkEnds: an API server that refuses renewals
// for a while and then takes a release would let a second leader in.
func TestLeader_ReleasesLeaseAfterItsWorkEnds(t *testing.T) {
	client := fake.NewClientset()
	var working, refusing atomic.Bool
	client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		lease, _ := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		if released := lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == ""; released {
			if working.Load() {
				t.Error("released while the leader works")
			}
			return false, nil, nil
		}
		return refusing.Load(), nil, errors.New("overloaded")
	})
	cfg := candidate("one")
	cfg.Renew = 300 * time.Millisecond
	err := Run(t.Context(), client.CoordinationV1(), cfg, func(ctx context.Context) error {
		working.Store(true)
		refusing.Store(true)
		<-ctx.Done()
		working.Store(false)
		return ctx.Err()
	})
	if !errors.Is(err, ErrLost) {
		t.Errorf("error %v", err)
	}
	if got := holder(t, client); got != "" {
		t.Errorf("%q holds the lease at the end", got)
	}
}

func TestLeader_FailureReleasesLease(t *testing.T) {
	client := fake.NewClientset()
	failure := errors.New("broken")
	if err := Run(t.Context(), client.CoordinationV1(), candidate("one"), func(context.Context) error { return failure }); !errors.Is(err, failure) || errors.Is(err, ErrLost) {
		t.Errorf("error %v", err)
	}
	if got := holder(t, client); got != "" {
		t.Errorf("%q holds the lease at the end", got)
	}
}

func TestConfig_InvalidSettingsAreRefused(t *testing.T) {
	cfg := Defaults()
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "identity") {
		t.Errorf("without identity: %v", err)
	}
	cfg.Identity = "x"
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	// The last renewal that succeeded was up to Retry before the first that did not.
	cfg.Lease, cfg.Renew, cfg.Retry = 15*time.Second, 10*time.Second, 2*time.Second
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "must exceed renew") {
		t.Errorf("with writes that outlive the lease: %v", err)
	}
}

// versioned makes a fake refuse updates of old versions, as the API server does.
func versioned(client *fake.Clientset) {
	var version atomic.Int64
	client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		changed, ok := action.(interface{ GetObject() runtime.Object })
		if !ok {
			return false, nil, nil
		}
		lease, now := changed.GetObject().(*coordinationv1.Lease), strconv.FormatInt(version.Load(), 10)
		if lease.ResourceVersion != "" && lease.ResourceVersion != now {
			return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), lease.Name, errors.New("it has changed"))
		}
		lease.ResourceVersion = strconv.FormatInt(version.Add(1), 10)
		return false, nil, nil
	})
}

// TestAnnounce_WritesTheLeaseOfItsHolder, which the elector then keeps.
func TestAnnounce_WritesTheLeaseOfItsHolder(t *testing.T) {
	client := fake.NewClientset()
	versioned(client)
	cfg := candidate("one")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	value := func() string {
		lease, err := client.CoordinationV1().Leases(cfg.Namespace).Get(t.Context(), cfg.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return lease.Annotations["k"]
	}
	renewed := make(chan struct{}, 100)
	led := make(chan error, 1)
	go func() {
		led <- Run(ctx, client.CoordinationV1(), cfg, func(leading context.Context) error {
			Announce(leading, client.CoordinationV1(), candidate("one"), "k", "here")
			client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				renewed <- struct{}{}
				return false, nil, nil
			})
			<-leading.Done()
			return nil
		})
	}()
	for range 3 {
		<-renewed
	}
	if got := value(); got != "here" {
		t.Errorf("after renewals: %q", got)
	}
	past, cancel := context.WithTimeout(t.Context(), 3*cfg.Retry)
	defer cancel()
	Announce(past, client.CoordinationV1(), candidate("two"), "k", "there")
	if got := value(); got != "here" {
		t.Errorf("who does not hold the lease wrote %q", got)
	}
	Announce(t.Context(), client.CoordinationV1(), candidate("one"), "k", "")
	if got := value(); got != "" {
		t.Errorf("it was not removed: %q", got)
	}
	stop()
	if err := <-led; err != nil {
		t.Error(err)
	}
}
