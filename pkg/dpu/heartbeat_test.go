package dpu

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

func newHeartbeat(api *fake.Clientset, problem func() error) *Heartbeat {
	return &Heartbeat{
		Client: apitest.Client(api), Host: host, Period: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Node:    func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host, UID: "n"}} },
		Problem: problem, MTU: func() int { return 1400 },
	}
}

func leaseOf(t *testing.T, api *fake.Clientset) *coordinationv1.Lease {
	t.Helper()
	lease, err := api.CoordinationV1().Leases("ovn-kubernetes").Get(t.Context(), "ovn-dpu-worker", metav1.GetOptions{})
	must(t, err)
	return lease
}

// The Lease has the form that OVN-Kubernetes' hosts read; it is not renewed
// while the DPU has a problem.
func TestHeartbeat_RenewsLeaseUnlessDPUHasProblem(t *testing.T) {
	api := fake.NewClientset()
	var problem error
	heartbeat := newHeartbeat(api, func() error { return problem })
	must(t, heartbeat.renew(t.Context()))
	lease := leaseOf(t, api)
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: host, UID: "n"}
	if *lease.Spec.HolderIdentity != "ovnkube-dpu-node" || *lease.Spec.LeaseDurationSeconds != 40 ||
		len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0] != owner || lease.Annotations[contract.DPUPodMTUKey] != "1400" {
		t.Errorf("lease %+v", lease)
	}
	first := lease.Spec.RenewTime.Time
	must(t, heartbeat.renew(t.Context()))
	second := leaseOf(t, api).Spec.RenewTime.Time
	if !second.After(first) {
		t.Error("not renewed")
	}
	problem = errors.New("OVS does not run")
	must(t, heartbeat.renew(t.Context()))
	lease = leaseOf(t, api)
	if !lease.Spec.RenewTime.Time.Equal(second) || lease.Annotations[contract.DPUProblemKey] != "OVS does not run" {
		t.Errorf("with a problem: %+v", lease)
	}
	problem = nil
	must(t, heartbeat.renew(t.Context()))
	if _, ok := leaseOf(t, api).Annotations[contract.DPUProblemKey]; ok {
		t.Error("the problem is still there")
	}
	heartbeat.Node = func() *corev1.Node { return nil }
	if err := heartbeat.renew(t.Context()); err == nil || !strings.Contains(err.Error(), "has no such node: worker") {
		t.Errorf("without the node: %v", err)
	}
}

// TestWatch_TellsAnotherPodMTU: the DPU's underlay may change while it is ready.
func TestWatch_TellsAnotherPodMTU(t *testing.T) {
	var reported []int
	w := NewWatch(nil, host, slog.New(slog.DiscardHandler), func(h Health) { reported = append(reported, h.PodMTU) })
	now := time.Now()
	for i, mtu := range []string{"1400", "1400", "8900"} {
		renewed := metav1.NewMicroTime(now.Add(time.Duration(i) * time.Second))
		w.see(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{contract.DPUPodMTUKey: mtu}},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
		}, renewed.Time)
	}
	w.expiry.Stop()
	if !slices.Equal(reported, []int{1400, 8900}) {
		t.Errorf("reported MTUs %v", reported)
	}
}

// TestWatch_AgeSinceRenewal: a Lease that was never there is as old as the process.
func TestWatch_AgeSinceRenewal(t *testing.T) {
	w := NewWatch(nil, host, slog.New(slog.DiscardHandler), func(Health) {})
	now := w.began.Add(time.Minute)
	if got := w.age(now); got != time.Minute {
		t.Errorf("age without a Lease %s", got)
	}
	renewed := metav1.NewMicroTime(now)
	w.see(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}, now)
	w.expiry.Stop()
	if got := w.age(now.Add(5 * time.Second)).Round(time.Millisecond); got != 5*time.Second {
		t.Errorf("age %s, five seconds after the renewal", got)
	}
	w.see(nil, now)
	if got := w.age(now); got != time.Minute {
		t.Errorf("age after the Lease was deleted %s", got)
	}
}

// A host has one DPU: a second one ends with the reason, and takes over only what
// the first has let go. What the first's clock says is neither believed nor waited
// for.
func TestHeartbeat_SecondDPUOfHostIsRefused(t *testing.T) {
	for name, skew := range map[string]time.Duration{"right": 0, "ahead": 24 * time.Hour, "behind": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testOneDPU(t, skew) })
		})
	}
}

func testOneDPU(t *testing.T, skew time.Duration) {
	api := fake.NewClientset()
	start := func(chassis string) *Heartbeat {
		p := newHeartbeat(api, func() error { return nil })
		p.Chassis, p.Period = chassis, LeasePeriod
		return p
	}
	first, began := start("one"), time.Now()
	must(t, start("two").Alone(t.Context())) // there is no Lease
	must(t, first.renew(t.Context()))
	must(t, start("one").Alone(t.Context())) // as after a restart
	if waited := time.Since(began); waited != 0 {
		t.Errorf("it waits %s for itself", waited)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for what, run := range map[string]func(context.Context) error{"start": start("two").Alone, "run": start("two").Run} {
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		time.Sleep(LeasePeriod / 2)
		setRenewed(t, api, time.Now().Add(skew))
		const reason = "chassis one renews Lease ovn-dpu-worker, and this is chassis two"
		if err := <-ended; !errors.Is(err, ErrServed) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if chassis := leaseOf(t, api).Annotations[contract.DPUChassisKey]; chassis != "one" {
		t.Errorf("the Lease is of chassis %s", chassis)
	}
	second, began := start("two"), time.Now()
	must(t, second.Alone(ctx))
	if waited := time.Since(began); waited <= LeaseDuration || waited > LeaseDuration+LeasePeriod {
		t.Errorf("it has waited for %s", waited)
	}
	must(t, second.renew(t.Context()))
	if err := first.renew(t.Context()); !errors.Is(err, ErrServed) {
		t.Errorf("the first, back: %v", err)
	}
}

func setRenewed(t *testing.T, api *fake.Clientset, at time.Time) {
	t.Helper()
	lease, when := leaseOf(t, api), metav1.NewMicroTime(at)
	lease.Spec.RenewTime = &when
	_, err := api.CoordinationV1().Leases(contract.DPULeaseNamespace).Update(t.Context(), lease, metav1.UpdateOptions{})
	must(t, err)
}

// TestHeartbeat_WritesNothingBeforeLeaseIsRead: a DPU that could not ask at its start writes nothing before it
// knows.
func TestHeartbeat_WritesNothingBeforeLeaseIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset()
		first, second := newHeartbeat(api, func() error { return nil }), newHeartbeat(api, func() error { return nil })
		first.Chassis, second.Chassis, second.Period = "one", "two", LeasePeriod
		must(t, first.renew(t.Context())) // its last
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- second.Run(ctx) }()
		for _, want := range []string{"one", "two"} {
			time.Sleep(LeaseDuration - LeasePeriod/2)
			if chassis := leaseOf(t, api).Annotations[contract.DPUChassisKey]; chassis != want {
				t.Errorf("the Lease is of chassis %s, not %s", chassis, want)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestJudge_LeaseDecidesHealth(t *testing.T) {
	now := time.Now()
	lease := func(annotations ...string) *coordinationv1.Lease {
		seconds := int32(40)
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds}}
		l.Annotations = map[string]string{}
		for i := 0; i < len(annotations); i += 2 {
			l.Annotations[annotations[i]] = annotations[i+1]
		}
		return l
	}
	for name, tc := range map[string]struct {
		lease   *coordinationv1.Lease
		renewed time.Time
		want    Health
	}{
		"no Lease":      {nil, time.Time{}, Health{Reason: "it has never reported (no Lease)"}},
		"fresh":         {lease(contract.DPUPodMTUKey, "1400"), now.Add(-39 * time.Second), Health{Ready: true, PodMTU: 1400}},
		"run out":       {lease(), now.Add(-41 * time.Second), Health{Reason: "it has not reported for more than 40s"}},
		"never renewed": {lease(), time.Time{}, Health{Reason: "it has not reported for more than 40s"}},
		"a problem":     {lease(contract.DPUProblemKey, "OVS does not run"), now, Health{Reason: "OVS does not run"}},
		"no duration":   {&coordinationv1.Lease{}, now.Add(-41 * time.Second), Health{Reason: "it has not reported for more than 40s"}},
	} {
		if got := judge(tc.lease, tc.renewed, now); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// TestWatch_FollowsHealthOfDPU follows a DPU through its life; clocks of the two sides differ.
func TestWatch_FollowsHealthOfDPU(t *testing.T) {
	api := fake.NewClientset()
	var mu sync.Mutex
	var received []string
	w := NewWatch(apitest.Client(api), host, slog.New(slog.DiscardHandler), func(h Health) {
		mu.Lock()
		defer mu.Unlock()
		received = append(received, h.Reason)
	})
	go func() { _ = w.Run(t.Context()) }()
	want := func(reason string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			h := w.Health()
			if h.Ready == (reason == "") && strings.Contains(h.Reason, reason) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v, want %q", h, reason)
			}
		}
	}
	want("never reported")
	if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "not ready: it has never") {
		t.Error(err)
	}
	renew := func(at time.Time, annotations map[string]string) {
		t.Helper()
		seconds, when := int32(1), metav1.NewMicroTime(at)
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: contract.DPULeaseNamespace, Name: "ovn-dpu-worker", Annotations: annotations},
			Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &when},
		}
		leases := api.CoordinationV1().Leases(contract.DPULeaseNamespace)
		if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			_, err = leases.Create(t.Context(), lease, metav1.CreateOptions{})
			must(t, err)
		}
	}
	hourAgo := time.Now().Add(-time.Hour)
	renew(hourAgo, nil)
	want("has not reported for more than 1s") // an old Lease is not a sign of life
	renew(hourAgo.Add(time.Second), nil)
	want("") // a renewal is, though that clock is an hour behind
	must(t, w.Ready())
	want("has not reported for more than 1s") // by itself
	renew(hourAgo.Add(2*time.Second), map[string]string{contract.DPUProblemKey: "OVS does not run"})
	want("OVS does not run")
	must(t, api.CoordinationV1().Leases(contract.DPULeaseNamespace).Delete(t.Context(), "ovn-dpu-worker", metav1.DeleteOptions{}))
	want("never reported")
	mu.Lock()
	defer mu.Unlock()
	got := strings.Join(received, ";")
	if got != "it has never reported (no Lease);it has not reported for more than 1s;;it has not reported for more than 1s;"+
		"OVS does not run;it has never reported (no Lease)" {
		t.Errorf("received %q", got)
	}
}
