//go:build e2e

package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/dpu/join"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestDPU_JoinDeliversFiles: a pod writes the files of a join on the DPU, and leaves nothing behind. What the files allow
// is in test/apiserver.
func TestDPU_JoinDeliversFiles(t *testing.T) {
	world.Test(t, world.Access)
	applyDPURights(t)
	host, dpuNode := nodes[0], nodes[2] // leaving deletes the chassis record that tests of other nodes need
	admin := apitest.Client(cluster.client)
	files, err := join.Admit(t.Context(), admin, host, "https://192.0.2.10:6443", cluster.config.CAData)
	if err != nil {
		t.Fatal(err)
	}
	deliverFiles(t, dpuNode, files)
	if err := join.Leave(t.Context(), admin, host); err != nil {
		t.Fatal(err)
	}
}

// deliverFiles has a pod write the files on a node, and compares.
func deliverFiles(t *testing.T, node string, files join.Files) {
	t.Helper()
	kinds, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := join.Image(t.Context(), kinds); err == nil || !strings.Contains(err.Error(), "dpus.enabled=true") {
		t.Errorf("image of DPUs without the chart's part for them: %v", err)
	}
	agents, err := cluster.client.AppsV1().DaemonSets(system).Get(t.Context(), "ovnkube-node", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), world.PodWithin)
	defer cancel()
	t.Cleanup(func() { _, _ = world.OnNode(node, "rm", "-rf", join.Dir) })
	if err := join.Deliver(ctx, apitest.Client(cluster.client), node, agents.Spec.Template.Spec.Containers[0].Image, files); err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := world.OnNode(node, "cat", filepath.Join(join.Dir, name))
		if err != nil || got != string(want) {
			t.Errorf("%s on the DPU: %v, %d bytes, want %d", name, err, len(got), len(want))
		}
	}
	for _, resource := range []string{"secrets", "pods"} {
		raw, err := cluster.client.CoreV1().RESTClient().Get().Namespace(system).Resource(resource).Name("ovn-dpu-join-" + node).DoRaw(t.Context())
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s are left: %s, %v", resource, raw, err)
		}
	}
}
