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

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestChurn: many pods at once over the nodes, created and deleted (three times in the
// full tier), with the controller killed in the middle of each. No two live pods ever
// share an address, and afterwards nothing is left.
func TestChurn(t *testing.T) {
	ns := namespace(t)
	stop := watchAddresses(t)
	rounds, pods := tier.Pick(1, 3), tier.Pick(30, 100)
	for round := range rounds {
		for i := range pods {
			create(t, podObject(ns, fmt.Sprintf("churn-%d-%d", round, i), nodes[i%len(nodes)], "sleep", "infinity"))
			if i == pods/2 {
				restart(t, "controller")
			}
		}
		waitPods(t, ns, pods)
		if traces(t, ns) == "" {
			t.Fatalf("%d pods leave no trace: the search for leftovers finds nothing", pods)
		}
		deletePods(t, ns)
	}
	if seen := stop(); seen < rounds*pods {
		t.Errorf("the watch saw %d pods with addresses of %d: it shows less than it should", seen, rounds*pods)
	}
	eventually(t, time.Minute, "no port or row is left over", func() (bool, string) {
		left := traces(t, ns)
		return left == "", left
	})
}

// traces is what pods of a namespace have left in the cluster: logical ports, OVS
// ports, and links of ours that no OVS port stands for.
func traces(t *testing.T, ns string) string {
	t.Helper()
	var left []string
	for _, name := range strings.Fields(nbctl(t, "--bare", "--columns=name", "find", "Logical_Switch_Port", "external_ids:pod=true")) {
		if strings.HasPrefix(name, ns+"_") {
			left = append(left, "logical port "+name)
		}
	}
	for _, node := range nodes {
		ports := mustOnNode(t, node, "ovs-vsctl", "--bare", "--columns=external_ids", "list", "Interface")
		for line := range strings.Lines(ports) {
			if strings.Contains(line, "iface-id="+ns+"_") {
				left = append(left, node+" port "+line)
			}
		}
		for line := range strings.Lines(mustOnNode(t, node, "ip", "-o", "link", "show", "type", "veth")) {
			if _, sandbox, ours := strings.Cut(line, "alias ovn-offload sandbox "); ours && !strings.Contains(ports, strings.TrimSpace(sandbox)) {
				left = append(left, node+" link "+line)
			}
		}
	}
	return strings.Join(left, "\n")
}

// watchAddresses follows all pods until the returned function is called, and
// fails the test when two that live at the same time have the same address. The
// function returns how many pods with an address were seen.
func watchAddresses(t *testing.T) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	watcher, err := cluster.client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	seen := map[string]bool{}
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
			seen[name] = true
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
	return func() int {
		cancel()
		<-done
		return len(seen)
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
