package permit

import (
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// TestMay_AsksForTheVerbResourceAndNamespace: each alone decides.
func TestMay_AsksForTheVerbResourceAndNamespace(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = a.Verb == "create" && a.Group == "ovn-offload.io" && a.Resource == Captures && a.Namespace == "shop"
		return true, review, nil
	})
	for _, c := range []struct {
		namespace, resource string
		may                 bool
	}{{"shop", Captures, true}, {"shop", Injections, false}, {"bank", Captures, false}, {"bank", Injections, false}} {
		err := May(t.Context(), client, c.namespace, c.resource)
		if (err == nil) != c.may {
			t.Errorf("%s in %s: %v", c.resource, c.namespace, err)
		}
		if err != nil && !strings.Contains(err.Error(), "you may not create "+c.resource+".ovn-offload.io in namespace "+c.namespace) {
			t.Error(err)
		}
	}
}

// TestLeave_EventOfThePod: it is about the pod of this UID, and an API server that refuses it is an error.
func TestLeave_EventOfThePod(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "jane"}}}, nil
	})
	who, err := Who(t.Context(), client)
	if err != nil || who != "jane" {
		t.Errorf("%q, %v", who, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "7"}}
	if err := Leave(t.Context(), client, pod, "Injected", "by jane"); err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if e := list.Items[0]; e.InvolvedObject.UID != "7" || e.Reason != "Injected" || e.Message != "by jane" || e.LastTimestamp.IsZero() {
		t.Errorf("%+v", e)
	}
	client.PrependReactor("create", "events", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") })
	if err := Leave(t.Context(), client, pod, "Injected", ""); err == nil || !strings.Contains(err.Error(), "pod shop/web: forbidden") {
		t.Error(err)
	}
}
