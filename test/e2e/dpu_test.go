//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/deploy"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// refusal is a request once with what it may not write and once without.
type refusal struct {
	name    string
	with    func(context.Context) error
	without func(context.Context) error
	message string
}

func (r refusal) check(t *testing.T) {
	t.Helper()
	if err := r.with(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), r.message) {
		t.Errorf("%s: %v, want it forbidden: %s", r.name, err, r.message)
	}
	if err := r.without(t.Context()); err != nil {
		t.Errorf("%s, without that: %v", r.name, err)
	}
}

// dpuRights are what the chart has for hosts with a DPU, which tests beside each other share.
var dpuRights struct {
	sync.Mutex
	users int
	made  []madeObject
}

type madeObject struct {
	in   dynamic.ResourceInterface
	name string
}

// applyDPURights makes what the chart has for hosts with a DPU, without workloads, until the last test with these rights ends.
func applyDPURights(t *testing.T) {
	t.Helper()
	dpuRights.Lock()
	defer dpuRights.Unlock()
	dpuRights.users++
	t.Cleanup(func() {
		dpuRights.Lock()
		defer dpuRights.Unlock()
		if dpuRights.users--; dpuRights.users > 0 {
			return
		}
		for _, object := range slices.Backward(dpuRights.made) {
			removeObject(t, object.in, object.name)
		}
		dpuRights.made = nil
	})
	if dpuRights.users == 1 {
		makeDPURights(t)
	}
}

func makeDPURights(t *testing.T) {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	resources := map[string]string{
		"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles", "Role": "roles",
		"ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings",
		"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	}
	values := deploy.Example()
	values["dpuHosts"] = map[string]any{"enabled": true}
	rendered, err := deploy.Render(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"25-dpu-host-rbac.yaml", "26-dpu-host-admission.yaml"} {
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(rendered[file])))
		for doc, err := reader.Read(); err == nil; doc, err = reader.Read() {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(doc, &object.Object); err != nil {
				t.Fatal(err)
			}
			group, version, found := strings.Cut(object.GetAPIVersion(), "/")
			if !found {
				group, version = "", group
			}
			kind := schema.GroupVersionResource{Group: group, Version: version, Resource: resources[object.GetKind()]}
			in := client.Resource(kind).Namespace(object.GetNamespace())
			if _, err := in.Create(t.Context(), object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
			dpuRights.made = append(dpuRights.made, madeObject{in, object.GetName()})
		}
	}
}

// removeObject returns when the object is gone. A Namespace takes a moment, and refuses new objects meanwhile.
func removeObject(t *testing.T, in dynamic.ResourceInterface, name string) {
	t.Helper()
	_ = in.Delete(context.Background(), name, metav1.DeleteOptions{})
	world.Eventually(t, world.PodWithin, name+" is gone", func() (bool, string) {
		_, err := in.Get(context.Background(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}
