//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// TestChurn: a hundred pods at once over the nodes, created and deleted three
// times, with the controller killed in the middle of each. No two live pods ever
// share an address, and afterwards nothing is left.
func TestChurn(t *testing.T) {
	ns := namespace(t)
	before := traces(t)
	stop := watchAddresses(t)
	for round := range 3 {
		for i := range 100 {
			create(t, podObject(ns, fmt.Sprintf("churn-%d-%d", round, i), nodes[i%len(nodes)], "sleep", "infinity"))
			if i == 50 {
				restart(t, "controller")
			}
		}
		waitPods(t, ns, 100)
		deletePods(t, ns)
	}
	stop()
	eventually(t, time.Minute, "no port or row is left over", func() (bool, string) {
		now := traces(t)
		return now == before, fmt.Sprintf("before %q, now %q", before, now)
	})
}

// traces is what pods leave in a cluster: their logical ports and OVS ports by
// name. Names of system pods stay, so before and after are compared.
func traces(t *testing.T) string {
	t.Helper()
	var all []string
	all = append(all, nbctl(t, "--bare", "--columns=name", "find", "Logical_Switch_Port", "external_ids:pod=true"))
	for _, node := range nodes {
		out := mustOnNode(t, node, "ovs-vsctl", "--bare", "--columns=external_ids", "find", "Interface", "external_ids:sandbox!=")
		if strings.TrimSpace(out) == "" {
			out = mustOnNode(t, node, "sh", "-c", "ovs-vsctl --bare --columns=name list-ports br-int 2>/dev/null || ovs-vsctl list-ports br-int")
		}
		all = append(all, node+": "+strings.Join(strings.Fields(out), " "))
	}
	return strings.Join(all, "\n")
}

// watchAddresses follows all pods until the returned function is called, and
// fails the test when two that live at the same time have the same address.
func watchAddresses(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	watcher, err := cluster.client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		holder := map[string]string{} // address to pod
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Spec.HostNetwork {
				continue
			}
			name := pod.Namespace + "/" + pod.Name + " " + string(pod.UID)
			network, err := kube.ParsePodNetwork(pod.Annotations[kube.PodNetworksKey], kube.DefaultNetwork)
			if err != nil || network == nil {
				continue
			}
			for _, addr := range network.Addresses {
				address := addr.Addr().String()
				switch other := holder[address]; {
				case event.Type == watch.Deleted || kube.Completed(pod):
					if other == name {
						delete(holder, address)
					}
				case other != "" && other != name:
					t.Errorf("%s belongs to %s and to %s", address, other, name)
				default:
					holder[address] = name
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// waitPods waits until n pods of a namespace run.
func waitPods(t *testing.T, ns string, n int) {
	t.Helper()
	eventually(t, 3*time.Minute, fmt.Sprintf("%d pods run", n), func() (bool, string) {
		pods, err := cluster.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		ready := 0
		for i := range pods.Items {
			if isRunning(&pods.Items[i]) {
				ready++
			}
		}
		return ready == n, fmt.Sprintf("%d of %d", ready, len(pods.Items))
	})
}

func deletePods(t *testing.T, ns string) {
	t.Helper()
	none := int64(0)
	err := cluster.client.CoreV1().Pods(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &none}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "all pods are gone", func() (bool, string) {
		pods, err := cluster.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(pods.Items) == 0, fmt.Sprint(len(pods.Items))
	})
}
