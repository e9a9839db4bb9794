//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

func objectsOf(t *testing.T, resource schema.GroupVersionResource, ns string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	if ns == "" {
		return client.Resource(resource)
	}
	return client.Resource(resource).Namespace(ns)
}

// userDefined creates a UserDefinedNetwork in a namespace.
func userDefined(t *testing.T, ns, name, spec string) error {
	t.Helper()
	text := fmt.Sprintf("apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {namespace: %s, name: %s}\nspec: %s\n", ns, name, spec)
	_, err := objectsOf(t, ovnv1.UserDefinedNetworks(), ns).Create(t.Context(), object(text), metav1.CreateOptions{FieldValidation: "Strict"})
	return err
}

// nadResource is that of NetworkAttachmentDefinitions.
var nadResource = kube.NADs()

// clusterUserDefined creates a ClusterUserDefinedNetwork that ends with the test at the latest.
func clusterUserDefined(t *testing.T, name, spec string) dynamic.ResourceInterface {
	t.Helper()
	networks := objectsOf(t, ovnv1.ClusterUserDefinedNetworks(), "")
	text := fmt.Sprintf("apiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: %s}\nspec: %s\n", name, spec)
	if _, err := networks.Create(t.Context(), object(text), metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = networks.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return networks
}

func deleteObject(t *testing.T, objects dynamic.ResourceInterface, name string) {
	t.Helper()
	if err := objects.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitObjectGone waits until an object is not there.
func waitObjectGone(t *testing.T, objects dynamic.ResourceInterface, name string) {
	t.Helper()
	world.Eventually(t, world.PodWithin, name+" is gone", func() (bool, string) {
		u, err := objects.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(u, err)
	})
}

// waitCondition waits for a condition of a network, as "status reason message".
func waitCondition(t *testing.T, networks dynamic.ResourceInterface, name, condition, want string) {
	t.Helper()
	world.Eventually(t, world.Soon, name+" "+condition+" "+want, func() (bool, string) {
		u, err := networks.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		var read ovnv1.UserDefinedNetwork // whose status is that of the other kind, too
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &read); err != nil {
			return false, err.Error()
		}
		found := meta.FindStatusCondition(read.Status.Conditions, condition)
		if found == nil {
			return false, "no condition"
		}
		text := strings.Join([]string{string(found.Status), found.Reason, found.Message}, " ")
		return strings.Contains(text, want), text
	})
}

// waitNames waits for the objects of a kind.
func waitNames(t *testing.T, objects dynamic.ResourceInterface, want string) {
	t.Helper()
	world.Eventually(t, 2*time.Minute, "objects "+want, func() (bool, string) {
		list, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].GetName())
		}
		got := strings.Join(names, " ")
		return got == want, got
	})
}
