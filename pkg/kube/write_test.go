package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fielderrors "k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

// patches lists what was patched as "resource/subresource name body".
func patches(client *fake.Clientset) []string {
	var out []string
	for _, action := range client.Actions() {
		if p, ok := action.(clienttesting.PatchAction); ok {
			out = append(out, p.GetResource().Resource+"/"+p.GetSubresource()+" "+p.GetName()+" "+string(p.GetPatch()))
		}
	}
	client.ClearActions()
	return out
}

func TestWriter_PatchesDifferencesOnly(t *testing.T) {
	ctx := t.Context()
	pod := newPod("a", "n")
	pod.Annotations = map[string]string{"same": "1", "other": "1", "old": "1"}
	node := newNode("n", map[string]string{"same": "1"})
	client := fake.NewClientset(pod, node)
	w := NewWriter(apitest.Client(client))
	if err := w.AnnotatePod(ctx, pod, map[string]string{"same": "1", "other": "2", "old": "", "absent": ""}); err != nil {
		t.Fatal(err)
	}
	want := []string{`pods/status a {"metadata":{"annotations":{"old":null,"other":"2"},"uid":"uid-pod"}}`}
	if diff := cmp.Diff(want, patches(client)); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if err := w.AnnotateNode(ctx, node, map[string]string{"new": "1"}); err != nil {
		t.Fatal(err)
	}
	want = []string{`nodes/status n {"metadata":{"annotations":{"new":"1"},"uid":"uid-node"}}`}
	if diff := cmp.Diff(want, patches(client)); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	node.Labels = map[string]string{"ovn-offload.io/vfs": "true", "theirs": "1"}
	if err := w.LabelNode(ctx, node, map[string]string{"ovn-offload.io/vfs": "", "ovn-offload.io/sriov": "true", "absent": ""}); err != nil {
		t.Fatal(err)
	}
	want = []string{`nodes/status n {"metadata":{"labels":{"ovn-offload.io/sriov":"true","ovn-offload.io/vfs":null},"uid":"uid-node"}}`}
	if diff := cmp.Diff(want, patches(client)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if err := w.LabelNode(ctx, node, map[string]string{"theirs": "1", "absent": ""}); err != nil || len(client.Actions()) != 0 {
		t.Errorf("nothing differs: %v, %v", err, client.Actions())
	}
	for _, annotations := range []map[string]string{nil, {"same": "1"}} {
		if err := errors.Join(w.AnnotatePod(ctx, pod, annotations), w.AnnotateNode(ctx, node, annotations)); err != nil {
			t.Error(err)
		}
	}
	if got := patches(client); got != nil {
		t.Errorf("patched although nothing differs: %v", got)
	}
}

// TestWriter_ReplacedObjectIsAConflict answers as a real API server does for another object of the
// same name.
func TestWriter_ReplacedObjectIsAConflict(t *testing.T) {
	ctx := t.Context()
	pod, node := newPod("a", "n"), newNode("n", nil)
	client := fake.NewClientset()
	field := "metadata.uid"
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("X").GroupKind(), "a",
			fielderrors.ErrorList{fielderrors.Invalid(fielderrors.NewPath(field), "uid", "field is immutable")})
	})
	w := NewWriter(apitest.Client(client))
	write := func() []error {
		return []error{
			w.AnnotatePod(ctx, pod, map[string]string{"k": "v"}),
			w.AnnotateNode(ctx, node, map[string]string{"k": "v"}),
			w.SetNodeCondition(ctx, node, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable}),
		}
	}
	for i, err := range write() {
		if !apierrors.IsConflict(err) {
			t.Errorf("%d: no conflict: %v", i, err)
		}
	}
	field = "metadata.annotations"
	for i, err := range write() {
		if !apierrors.IsInvalid(err) {
			t.Errorf("%d: not invalid: %v", i, err)
		}
	}
}

func TestSetNodeCondition_PatchesDifferencesOnly(t *testing.T) {
	ctx := t.Context()
	since := metav1.NewTime(time.Unix(1000, 0).UTC())
	node := newNode("n", nil)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoSubnet", LastTransitionTime: since}}
	client := fake.NewClientset(node)
	w := NewWriter(apitest.Client(client))
	for _, tc := range []struct {
		status   corev1.ConditionStatus
		reason   string
		contains string
	}{
		{corev1.ConditionTrue, "NoSubnet", ""},
		{corev1.ConditionTrue, "NoID", `"lastTransitionTime":"1970-01-01T00:16:40Z","reason":"NoID"`},
		{corev1.ConditionFalse, "Allocated", `"type":"NetworkUnavailable","status":"False"`},
	} {
		err := w.SetNodeCondition(ctx, node, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: tc.status, Reason: tc.reason})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(patches(client), "")
		if !strings.Contains(got, tc.contains) || (tc.contains == "") != (got == "") || got != "" && !strings.Contains(got, `"uid":"uid-node"`) {
			t.Errorf("%s: %s", tc.reason, got)
		}
		if tc.status == corev1.ConditionFalse && strings.Contains(got, "1970") {
			t.Errorf("a transition without a time: %s", got)
		}
	}
}

func TestReporter_FailureAndRecoveryAreEvents(t *testing.T) {
	_, view, _ := startView(t, newNode("n", nil), newPod("a", "n"))
	var got []string
	r := newReporter(func(_ runtime.Object, kind, reason, note string) { got = append(got, kind+" "+reason+" "+note) }, view)
	pod, failure := contract.PodOwner("ns", "a"), errors.New("no address: 100% used")
	for n := 1; n <= 5; n++ {
		r.Failure(pod, n, failure)
	}
	for n := 6; n <= 8; n++ {
		r.Failure(pod, n, errors.New("no address: the pod's own is taken"))
	}
	r.Failure(pod, 0, nil)
	r.Failure(pod, 0, nil)
	r.Failure(contract.NodeOwner("n"), 1, failure)
	r.Failure(contract.NodeOwner("n"), 0, nil)
	refused := errors.New("part of the object is refused: spec.a")
	r.Failure(contract.NodeOwner("n"), 0, refused)
	r.Failure(contract.NodeOwner("n"), 0, refused)
	r.Failure(contract.NodeOwner("n"), 0, errors.New("part of the object is refused: spec.b"))
	r.Failure(contract.NodeOwner("n"), 0, nil)
	r.Failure(contract.PodOwner("ns", "gone"), 3, failure)
	r.Failure(contract.NetworkOwner(), 3, failure)
	r.Warn(contract.NodeOwner("n"), "Forged", strings.Repeat("ä", 1000))
	want := []string{
		"Warning NetworkFailed no address: 100% used",
		"Warning NetworkFailed no address: the pod's own is taken",
		"Normal NetworkRecovered the network of this object is set up",
		"Warning PartRefused part of the object is refused: spec.a",
		"Warning PartRefused part of the object is refused: spec.b",
		"Normal NetworkRecovered the network of this object is set up",
		"Warning Forged " + strings.Repeat("ä", 510) + "...",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestReporter_WritesEventOfInformerObject goes through the real recorder, which needs the kind of
// objects that the informers deliver without one.
// TestReporter_RemembersNoMoreThanAnEventHas: an object of a user can make an error of any length.
func TestReporter_RemembersNoMoreThanAnEventHas(t *testing.T) {
	_, view, _ := startView(t, newPod("a", "n"))
	var notes []string
	r := newReporter(func(_ runtime.Object, _, _, note string) { notes = append(notes, note) }, view)
	pod, long := contract.PodOwner("ns", "a"), strings.Repeat("network ns/x does not exist\n", 50000)
	for range 2 {
		r.Failure(pod, 0, errors.New(long))
	}
	r.Failure(pod, failuresBeforeEvent, errors.New("other "+long))
	if len(notes) != 2 || len(notes[0]) > maxNote || len(r.reported[pod]) > maxNote {
		t.Errorf("%d Events, and %d bytes are remembered; want 2, and at most %d", len(notes), len(r.reported[pod]), maxNote)
	}
}

func TestReporter_WritesEventOfInformerObject(t *testing.T) {
	client, view, _ := startView(t, newPod("a", "n"))
	created := make(chan string, 1)
	client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		select {
		case created <- action.GetNamespace():
		default:
		}
		return false, nil, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := NewReporter(ctx, apitest.Client(client), view, "ovn-offload-controller")
	r.Warn(contract.PodOwner("ns", "a"), "Forged", "note")
	select {
	case namespace := <-created:
		if namespace != "ns" {
			t.Errorf("event in namespace %q", namespace)
		}
	case <-ctx.Done():
		t.Error("no event")
	}
}
