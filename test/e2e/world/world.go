//go:build e2e

// Package world is what the end to end tests share. Each test of test/e2e begins with Test, which says where the test
// belongs. Pod describes a pod, and Run makes several at once. A Client asks servers: FromPod is a pod, FromNode a
// node's own network or the external host. The files have the words of the field: pods.go, service.go, policy.go,
// outside.go, node.go, client.go.
//
// Shared is a world that tests which run beside others have in common: pods in two namespaces, made once. A Row of a
// table has states in which clients of the shared world find something, and Check passes rows together. A test adds
// services, which select shared servers, and makes the pods that its policies select in a namespace of its own. So no
// test changes what another one sees.
//
// Place in the data flow: test/e2e calls Join with the cluster, then each test calls Test, which asks package tier
// whether the run has the test. hack/gate chooses the areas. Commands of tests go through test/testbed, and test/probe
// is both ends of a connection.
package world

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/test/testbed"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// Mark is an area of a test, or what the test does to others.
type Mark string

// The areas are those of test/areas.txt. A test in Core is run by each gate, and by a run of its area.
const (
	Core     Mark = tier.Core
	Access   Mark = "access"
	Docs     Mark = "docs"
	Networks Mark = "networks"
	Node     Mark = "node"
	Policies Mark = "policies"
	Primary  Mark = "primary"
	Services Mark = "services"
	Tools    Mark = "tools"
)

const (
	// Beside tells that a test runs beside others, as a test does without a further mark.
	Beside Mark = "beside"
	// Disruptive tests restart components, change nodes or change what the whole cluster has. They run one by one,
	// before all that run beside others.
	Disruptive Mark = "disruptive"
	// Alone is for tests that load all processors: others would fail beside them.
	Alone Mark = "alone"
	// Strict tests have no flakes: tier.Strict.
	Strict Mark = "strict"
)

// Cluster is how the package reaches the cluster in which the tests run.
type Cluster struct {
	testbed.Cluster
	Client kubernetes.Interface
	Config *rest.Config
	// InContainer runs a command in a container from its node; nil: the API server does.
	InContainer func(ctx context.Context, in testbed.Container, command []string, out, messages io.Writer) error
}

var cluster Cluster

// Join gives the package the cluster.
func Join(c Cluster) { cluster = c }

// Test begins a test. It skips the test when the run has none of its areas. A test that runs beside others
// waits for its turn; a test that runs alone waits until the namespaces of earlier tests have gone, because
// interfaces that come and go disturb packets.
func Test(t *testing.T, marks ...Mark) {
	t.Helper()
	var areas []string
	for _, mark := range marks {
		if !slices.Contains([]Mark{Beside, Disruptive, Alone, Strict}, mark) {
			areas = append(areas, string(mark))
		}
	}
	tier.In(t, areas...)
	if slices.Contains(marks, Strict) {
		tier.Strict(t)
	}
	if slices.Contains(marks, Disruptive) || slices.Contains(marks, Alone) {
		settle(t)
		return
	}
	t.Parallel()
}

// settleWithin bounds how long the namespaces of earlier tests take to go: their pods end at once.
const settleWithin = 3 * time.Minute

// settle waits until no namespace is on its way out.
func settle(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(settleWithin)
	for {
		ending, err := endingNamespaces(t.Context())
		if err == nil && len(ending) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s namespaces of earlier tests are still there: %v %v", settleWithin, ending, err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// endingNamespaces are those that are being deleted.
func endingNamespaces(ctx context.Context) ([]string, error) {
	all, err := cluster.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	var ending []string
	for i := range all.Items {
		if all.Items[i].Status.Phase == corev1.NamespaceTerminating {
			ending = append(ending, all.Items[i].Name)
		}
	}
	return ending, nil
}
