package scratch

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

func session(given bool, objects ...runtime.Object) *Session {
	client := fake.NewSimpleDynamicClient(scheme.Scheme, objects...)
	return &Session{Namespace: Namespace{Client: client, Name: "trial", Label: "example.com/trial", Purpose: "trial"}, Given: given}
}

func ready(name string) *corev1.Pod {
	p := Namespace{Name: "trial"}.Pod(name, "node", "image", "sleep")
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// TestSession_GivenNamespaceStays: only what the session has made is deleted, and nothing is made in a namespace that is not
// for it, or in use.
func TestSession_GivenNamespaceStays(t *testing.T) {
	given := session(true).Object()
	foreign := &corev1.Namespace{TypeMeta: given.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: "trial"}}
	for want, s := range map[string]*Session{
		"not found": session(true), "has no label": session(true, foreign), "has pods": session(true, given, ready("old")),
	} {
		if err := s.Make(t.Context(), []runtime.Object{ready("new")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if found, err := s.Remove(t.Context()); found || err != nil {
			t.Errorf("%s: %v, %v", want, found, err)
		}
	}
	s := session(true, given)
	if err := s.Make(t.Context(), []runtime.Object{ready("new")}); err != nil {
		t.Fatal(err)
	}
	if pods, err := List[corev1.Pod](t.Context(), s.Namespace, "Pod"); err != nil || len(pods) != 1 {
		t.Errorf("%v, %v", pods, err)
	}
	if found, err := s.Remove(t.Context()); !found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if pods, err := List[corev1.Pod](t.Context(), s.Namespace, "Pod"); err != nil || len(pods) != 0 {
		t.Errorf("%v, %v", pods, err)
	}
	if err := s.check(t.Context()); err != nil {
		t.Errorf("the namespace has gone: %v", err)
	}
}

// TestSession_OwnNamespaceGoes, with all in it. One that is there already is another session's, and one without the label is
// of another owner.
func TestSession_OwnNamespaceGoes(t *testing.T) {
	s := session(false)
	if err := s.Make(t.Context(), []runtime.Object{ready("new")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Make(t.Context(), nil); !errors.Is(err, ErrPresent) {
		t.Errorf("a second time: %v", err)
	}
	if found, err := s.Remove(t.Context()); !found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := s.Remove(t.Context()); found || err != nil {
		t.Errorf("a second time: %v, %v", found, err)
	}
	foreign := s.Object()
	foreign.Labels = nil
	if _, err := session(false, foreign).Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "has no label") {
		t.Errorf("of another owner: %v", err)
	}
}

// TestSession_SaysForWhichPodsItWaited, also when time is up while they are read.
func TestSession_SaysForWhichPodsItWaited(t *testing.T) {
	s := session(false)
	reads := 0
	s.Client.(*fake.FakeDynamicClient).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if reads++; reads > 1 {
			return true, nil, context.DeadlineExceeded
		}
		return false, nil, nil
	})
	slow := Namespace{Name: "trial"}.Pod("slow", "node", "image", "sleep")
	slow.Status.Phase = corev1.PodPending
	err := s.Make(t.Context(), []runtime.Object{ready("quick"), slow})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), ": pod/slow on node: Pending") {
		t.Errorf("%v", err)
	}
}
