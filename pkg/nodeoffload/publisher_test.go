package nodeoffload

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// bed is a publisher with a fake API.
type bed struct {
	*Publisher
	client *dynamicfake.FakeDynamicClient
	log    bytes.Buffer

	mu     sync.Mutex
	facts  Facts
	node   *corev1.Node
	labels map[string]string
}

func newBed(t *testing.T, facts Facts) *bed {
	t.Helper()
	b := &bed{
		facts: facts, node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}},
		client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{v1alpha1.NodeOffloads(): "NodeOffloadList"}),
	}
	cfg := Defaults("n1")
	cfg.Logger, cfg.Registerer = slog.New(slog.NewTextHandler(&b.log, nil)), prometheus.NewRegistry()
	var err error
	b.Publisher, err = New(cfg, Deps{
		Client:     b.client,
		Facts:      func() Facts { b.mu.Lock(); defer b.mu.Unlock(); return b.facts },
		NodeObject: func() *corev1.Node { b.mu.Lock(); defer b.mu.Unlock(); return b.node },
		Label: func(_ context.Context, _ *corev1.Node, labels map[string]string) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.labels = maps.Clone(labels)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) set(change func(*Facts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.facts)
}

// writes are the changes of the API since the last call.
func (b *bed) writes() string {
	var verbs []string
	for _, a := range b.client.Actions() {
		if a.GetVerb() != "get" {
			verbs = append(verbs, a.GetVerb())
		}
	}
	b.client.ClearActions()
	return strings.Join(verbs, " ")
}

func (b *bed) published(t *testing.T) *v1alpha1.NodeOffload {
	t.Helper()
	u, err := b.client.Resource(v1alpha1.NodeOffloads()).Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object, err := v1alpha1.Decode[v1alpha1.NodeOffload](u)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func (b *bed) mustPass(t *testing.T) {
	t.Helper()
	if err := b.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPublisher_HostAndDPUWriteOneObject: a host with a DPU and the DPU write one object, each its part.
func TestPublisher_HostAndDPUWriteOneObject(t *testing.T) {
	host := newBed(t, Facts{Versions: v1alpha1.Versions{Agent: "v1", Kernel: "6.12"}, Inventory: inventory(t, "connectx6dx-legacy"), Claims: []ledger.Claim{claim("0000:03:00.2", "web")}})
	host.cfg.Part = Devices
	dpu := newBed(t, Facts{Versions: v1alpha1.Versions{Agent: "v2", Kernel: "5.15", OpenVSwitch: "3.5.0", OVN: "25.03.0"}, Inventory: inventory(t, "bluefield2-dpu"), Settings: &offload.Settings{HWOffload: true}, Report: &offload.Report{Ports: []offload.PortReport{
		port("pf0vf0", "web", true, offload.Share{Hardware: count(1, 70), OVS: count(1, 30)}, offload.Share{}),
	}}})
	dpu.cfg.Part, dpu.deps.Client = Traffic, host.client
	if err := dpu.pass(t.Context()); !errors.Is(err, reconcile.ErrNotReady) {
		t.Errorf("before there is an object: %v", err)
	}
	host.mustPass(t)
	got := host.published(t).Status
	if got.Offload != v1alpha1.OffloadOff || got.Reason != "the DPU has not said yet" || len(got.UsedVFs) != 1 || len(got.Traffic) != 0 {
		t.Errorf("of the host alone: %+v", got)
	}
	for range 2 { // neither takes the other's part away
		dpu.mustPass(t)
		host.mustPass(t)
	}
	got = host.published(t).Status
	if got.Offload != v1alpha1.OffloadOn || got.Reason != "" || len(got.UsedVFs) != 1 || len(got.Traffic) != 1 || got.HardwarePercent == nil || *got.HardwarePercent != 70 {
		t.Errorf("of both: %+v", got)
	}
	if diff := cmp.Diff(v1alpha1.Versions{Agent: "v1", Kernel: "6.12", OpenVSwitch: "3.5.0", OVN: "25.03.0"}, got.Versions); diff != "" {
		t.Errorf("versions of both (-want +got):\n%s", diff)
	}
	if got.DeviceCount != Status(host.facts).DeviceCount || host.labels[LabelOffload] != "true" || dpu.labels != nil {
		t.Errorf("%d devices, labels %v of the host and %v of the DPU", got.DeviceCount, host.labels, dpu.labels)
	}
	host.client.ClearActions()
	dpu.mustPass(t)
	host.mustPass(t)
	if w := host.writes(); w != "" {
		t.Errorf("nothing has changed: %q", w)
	}

	dpu.set(func(f *Facts) { f.Problems = []string{"hw-offload is off"} })
	host.set(func(f *Facts) { f.Problems = []string{"no VF is reserved"} })
	dpu.mustPass(t)
	for range 2 { // neither doubles the other's problems
		host.mustPass(t)
		dpu.mustPass(t)
	}
	got = host.published(t).Status
	if want := []string{"no VF is reserved", "the DPU: hw-offload is off"}; !slices.Equal(got.Problems, want) || got.Problem != want[0] {
		t.Errorf("problems %q, the first is %q; want %q", got.Problems, got.Problem, want)
	}
	dpu.set(func(f *Facts) { f.Problems = nil })
	dpu.mustPass(t)
	if got = host.published(t).Status; !slices.Equal(got.Problems, []string{"no VF is reserved"}) {
		t.Errorf("after the end of the DPU's problem: %q", got.Problems)
	}
	dpu.set(func(f *Facts) { f.Problems = []string{"hw-offload is off"} })
	dpu.mustPass(t)
	host.set(func(f *Facts) { f.Problems = nil })

	host.set(func(f *Facts) { f.Away = "the DPU of this host is not ready: it is off" })
	host.mustPass(t)
	got = host.published(t).Status
	if got.Offload != v1alpha1.OffloadOff || got.Reason != host.facts.Away || got.Problem != host.facts.Away || len(got.Problems) != 1 || len(got.Traffic) != 0 || got.HardwarePercent != nil {
		t.Errorf("with a DPU that is not ready: %+v", got)
	}
}

func TestPublisher_WritesDifferencesOnly(t *testing.T) {
	b := newBed(t, Facts{Inventory: inventory(t, "connectx6dx-switchdev"), Settings: &offload.Settings{HWOffload: true}})
	b.mustPass(t)
	if w := b.writes(); w != "create" {
		t.Errorf("first: %q", w)
	}
	got := b.published(t)
	if diff := cmp.Diff(Status(b.facts), got.Status); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	if o := got.OwnerReferences; len(o) != 1 || o[0].UID != types.UID("u1") {
		t.Errorf("owners %+v", o)
	}
	if b.labels[LabelOffload] != "true" {
		t.Errorf("labels %v", b.labels)
	}
	b.mustPass(t)
	if w := b.writes(); w != "" {
		t.Errorf("nothing has changed: %q", w)
	}
	b.set(func(f *Facts) { f.Claims = []ledger.Claim{claim("0000:03:00.2", "web")} })
	b.mustPass(t)
	if w := b.writes(); w != "update" || b.published(t).Status.UsedVFs[0].Pod != "default/web" {
		t.Errorf("a pod came: %q", w)
	}
	// An edit by another client, and a Node that was created again.
	u, err := v1alpha1.Encode(&v1alpha1.NodeOffload{
		TypeMeta: got.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"theirs": "1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.Resource(v1alpha1.NodeOffloads()).Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.node.UID = "u2"
	b.mustPass(t)
	got = b.published(t)
	if got.Status.DeviceCount != 2 || got.OwnerReferences[0].UID != "u2" || got.Annotations["theirs"] != "1" {
		t.Errorf("after an edit: %+v", got)
	}
}

// Before the first inventory the labels of a former life of the agent stay.
// TestPublisher_WritesAnotherVersion: after an upgrade of OVN only the versions differ.
func TestPublisher_WritesAnotherVersion(t *testing.T) {
	b := newBed(t, Facts{Versions: v1alpha1.Versions{Agent: "v1", OVN: "25.03.0"}, Inventory: inventory(t, "connectx6dx-switchdev")})
	b.mustPass(t)
	b.set(func(f *Facts) { f.Versions.OVN = "26.03.1" })
	b.writes()
	b.mustPass(t)
	if w := b.writes(); w != "update" || b.published(t).Status.Versions.OVN != "26.03.1" {
		t.Errorf("writes %q, versions %+v", w, b.published(t).Status.Versions)
	}
	b.mustPass(t)
	if w := b.writes(); w != "" {
		t.Errorf("without a change: %q", w)
	}
}

func TestPublisher_UnknownDevicesKeepLabels(t *testing.T) {
	b := newBed(t, Facts{})
	b.mustPass(t)
	if b.labels != nil {
		t.Errorf("labels %v", b.labels)
	}
	b.set(func(f *Facts) { f.Inventory = &vf.Inventory{} })
	b.mustPass(t)
	if len(b.labels) != 4 || b.labels[LabelSRIOV] != "" {
		t.Errorf("labels %v", b.labels)
	}
}

// An API server without the kind: labels are written all the same, it is said
// once, and the kind is taken when it comes.
func TestPublisher_AbsentKindStillWritesLabels(t *testing.T) {
	b := newBed(t, Facts{Inventory: &vf.Inventory{}})
	absent := true
	b.client.PrependReactor("*", "nodeoffloads", func(clienttesting.Action) (bool, runtime.Object, error) {
		return absent, nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	for range 3 {
		b.mustPass(t)
	}
	if n := strings.Count(b.log.String(), "has no NodeOffloads"); n != 1 || b.labels == nil {
		t.Errorf("said %d times, labels %v", n, b.labels)
	}
	absent = false
	b.mustPass(t)
	if b.published(t).Status.Offload != v1alpha1.OffloadNone || !strings.Contains(b.log.String(), "has NodeOffloads now") {
		t.Errorf("the kind came: %s", b.log.String())
	}
}

func TestPublisher_FailuresAreErrors(t *testing.T) {
	for _, verb := range []string{"get", "create"} {
		b := newBed(t, Facts{})
		b.client.PrependReactor(verb, "nodeoffloads", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no")
		})
		if err := b.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "n1") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	b := newBed(t, Facts{})
	b.node = nil
	if err := b.pass(t.Context()); err == nil {
		t.Error("published for a node that is not known")
	}
}

// Devices are published after a pause, traffic after a longer one, and many
// changes at once are one write.
func TestPublisher_CombinesManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, Facts{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = b.Run(ctx); close(done) }()
		synctest.Wait()
		if w := b.writes(); w != "create" {
			t.Errorf("at the start: %q", w)
		}
		reads := func(wait time.Duration) int {
			time.Sleep(wait)
			synctest.Wait()
			defer b.client.ClearActions()
			return len(b.client.Actions())
		}
		b.Sampled()
		if n := reads(30 * time.Second); n != 0 {
			t.Errorf("%d passes for traffic at once", n)
		}
		if n := reads(31 * time.Second); n != 1 {
			t.Errorf("%d passes for traffic", n)
		}
		b.Sampled()
		for range 100 {
			b.Changed()
		}
		if n := reads(3 * time.Second); n != 1 {
			t.Errorf("%d passes for a hundred changes", n)
		}
		stop()
		<-done
	})
}

// TestPublisher_FollowsEndOfClaim: each end of a claim is published, whenever it comes.
func TestPublisher_FollowsEndOfClaim(t *testing.T) {
	for name, release := range map[string]func(b *bed, release func()){
		"before the publisher runs": func(_ *bed, release func()) { release() },
		"later":                     func(_ *bed, release func()) { time.AfterFunc(10*time.Minute, release) },
		"while the first report is written": func(b *bed, release func()) {
			b.client.PrependReactor("create", "nodeoffloads", func(clienttesting.Action) (bool, runtime.Object, error) {
				release()
				return false, nil, nil
			})
		},
		"while the API server is down": func(b *bed, release func()) {
			var back atomic.Bool
			b.client.PrependReactor("get", "nodeoffloads", func(clienttesting.Action) (bool, runtime.Object, error) {
				return !back.Load(), nil, errors.New("no route to host")
			})
			time.AfterFunc(10*time.Minute, release)
			time.AfterFunc(20*time.Minute, func() { back.Store(true) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claims, err := ledger.Open(t.TempDir(), "boot")
				if err != nil {
					t.Fatal(err)
				}
				wanted := ledger.Claim{Pod: types.NamespacedName{Namespace: "default", Name: "web"}, UID: "u", Sandbox: "s", Interface: "eth0"}
				if _, err := claims.Take([]string{"0000:03:00.2", "0000:03:00.3"}, wanted); err != nil {
					t.Fatal(err)
				}
				b := newBed(t, Facts{})
				b.deps.Facts = func() Facts { return Facts{Claims: claims.Claims()} }
				claims.OnChange(b.Changed)
				release(b, func() { _ = claims.Release("0000:03:00.2", "s") })
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { _ = b.Run(ctx); close(done) }()
				time.Sleep(22 * time.Minute) // less than from one full pass to the next
				if used := b.published(t).Status.UsedVFs; len(used) != 0 {
					t.Errorf("published is %+v", used)
				}
				stop()
				<-done
			})
		})
	}
}

func TestNew_NodeWithoutNameIsRefused(t *testing.T) {
	if _, err := New(Defaults(""), Deps{}); err == nil {
		t.Error("a node without a name")
	}
}
