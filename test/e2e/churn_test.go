//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/ovn-offload/ovn-offload/pkg/contract"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPod_ChurnSharesNoAddress: many pods at once over the nodes, created and deleted (three times in the
// full tier), with the controller killed in the middle of each. No two live pods ever
// share an address, and afterwards nothing is left.
func TestPod_ChurnSharesNoAddress(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive, world.Strict)
	ns := world.Namespace(t)
	stop := watchAddresses(t)
	rounds, pods := tier.Pick(1, 3), tier.Pick(15, 100)
	for round := range rounds {
		for i := range pods {
			world.Create(t, world.Pod(ns, fmt.Sprintf("churn-%d-%d", round, i), nodes[i%len(nodes)],
				world.Command("sleep", "infinity")))
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
	world.Eventually(t, world.PodWithin, "no port or row is left over", func() (bool, string) {
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
		ports := world.MustOnNode(t, node, "ovs-vsctl", "--bare", "--columns=external_ids", "list", "Interface")
		for line := range strings.Lines(ports) {
			if strings.Contains(line, "iface-id="+ns+"_") {
				left = append(left, node+" port "+line)
			}
		}
		for line := range strings.Lines(world.MustOnNode(t, node, "ip", "-o", "link", "show", "type", "veth")) {
			_, alias, ours := strings.Cut(line, "alias ovn-offload sandbox ")
			if sandbox, _, _ := strings.Cut(alias, " "); ours && !strings.Contains(ports, strings.TrimSpace(sandbox)) {
				left = append(left, node+" link "+line)
			}
		}
	}
	return strings.Join(left, "\n")
}

// holders are the pods that live, by their addresses, as a watch tells them.
type holders struct {
	t    *testing.T
	of   map[string]string // address to pod
	seen map[string]bool   // pods that have had an address
}

// note takes one pod. Two that live at the same time must not have the same address.
func (h *holders) note(pod *corev1.Pod, deleted bool) {
	if pod.Spec.HostNetwork {
		return
	}
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
	if err != nil || network == nil {
		return
	}
	name := pod.Namespace + "/" + pod.Name + " " + string(pod.UID)
	h.seen[name] = true
	for _, addr := range network.Addresses {
		address := addr.Addr().String()
		switch other := h.of[address]; {
		case deleted || contract.Completed(pod):
			if other == name {
				delete(h.of, address)
			}
		case other != "" && other != name:
			h.t.Errorf("%s belongs to %s and to %s", address, other, name)
		default:
			h.of[address] = name
		}
	}
}

// follow lists all pods and watches them until the watch ends, as each one does after a time.
func (h *holders) follow(ctx context.Context) error {
	pods := cluster.client.CoreV1().Pods("")
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	clear(h.of) // what went while nothing watched is not in the list
	for i := range list.Items {
		h.note(&list.Items[i], false)
	}
	watcher, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return apierrors.FromObject(event.Object)
		}
		h.note(pod, event.Type == watch.Deleted)
	}
	return nil
}

// watchAddresses follows all pods until the returned function is called, and
// fails the test when two that live at the same time have the same address. The
// function returns how many pods with an address were seen.
func watchAddresses(t *testing.T) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	h := &holders{t: t, of: map[string]string{}, seen: map[string]bool{}}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := h.follow(ctx); err != nil && ctx.Err() == nil {
				t.Logf("watching pods again: %v", err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return func() int {
		cancel()
		<-done
		return len(h.seen)
	}
}

// waitPods waits until n pods of a namespace run.
func waitPods(t *testing.T, ns string, n int) {
	t.Helper()
	world.Eventually(t, 3*time.Minute, fmt.Sprintf("%d pods run", n), func() (bool, string) {
		pods, err := cluster.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		ready := 0
		for i := range pods.Items {
			if world.IsRunning(&pods.Items[i]) {
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
	world.Eventually(t, 2*time.Minute, "all pods are gone", func() (bool, string) {
		pods, err := cluster.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(pods.Items) == 0, fmt.Sprint(len(pods.Items))
	})
}
