package ipam

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// wantLinear compares the allocations of twice as much with those of once: work that grows with the square makes four times
// as many.
func wantLinear(t *testing.T, what string, once, twice float64) {
	t.Helper()
	t.Logf("%s: %.0f allocations, twice as much %.0f", what, once, twice)
	if twice > 2.5*once {
		t.Errorf("%s: %.0f allocations, twice as much %.0f", what, once, twice)
	}
}

// TestPod_CostGrowsWithItsAttachments: a new pod, the same again, one that runs, and the start of a controller.
func TestPod_CostGrowsWithItsAttachments(t *testing.T) {
	costs := map[string][]float64{}
	for _, n := range []int{contract.MaxAttachments / 2, contract.MaxAttachments} {
		a, _ := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/16"))
		node := newNode("n1", 1)
		decideNode(t, a, node)
		asks := strings.TrimSuffix(strings.Repeat("blue,", n), ",")
		pod := attached(newPod("p", "n1", 2), asks)
		cost := func(what string, f func()) { costs[what] = append(costs[what], testing.AllocsPerRun(5, f)) }
		decide := func() {
			if _, err := a.Pod(pod, node); err != nil {
				t.Fatal(err)
			}
		}
		i := 0
		cost("new", func() {
			i++
			if _, err := a.Pod(attached(newPod(fmt.Sprint("new", i), "n1", 2), asks), node); err != nil {
				t.Fatal(err)
			}
		})
		decidePod(t, a, pod, node)
		if keys := contract.NetworkKeys(networkOf(t, pod)); len(keys) != n+1 {
			t.Fatalf("%d networks, want %d", len(keys), n+1)
		}
		cost("again", decide)
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.4"}}
		cost("runs", decide)
		cost("start", func() { a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod}, nil) })
	}
	for what, of := range costs {
		wantLinear(t, what, of[0], of[1])
	}
}
