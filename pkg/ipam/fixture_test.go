package ipam

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

func plan(t testing.TB, cluster string) Config {
	t.Helper()
	cfg := Defaults()
	cfg.Cluster = clusters(t, cluster)
	cfg.Services = prefixes(t, "10.96.0.0/16,fd00:10:96::/112")
	return cfg
}

// allocator is a Cluster's Subnets and a Zone's Addresses.
type allocator struct {
	*Subnets
	*Addresses
}

func newAllocator(t testing.TB, cfg Config) allocator {
	t.Helper()
	subnets, err := NewSubnets(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return allocator{subnets, NewAddresses(subnets)}
}

func (a allocator) rebuild(nodes []*corev1.Node, pods []*corev1.Pod, rows []Held) {
	a.Subnets.Rebuild(nodes, pods)
	a.Addresses.Rebuild(pods, rows)
}

// born gives objects an order of creation.
func born(second int) metav1.Time { return metav1.Time{Time: time.Unix(int64(second), 0)} }

func newNode(name string, second int, annotations ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("node-" + name), CreationTimestamp: born(second), Annotations: map[string]string{},
	}}
	for i := 0; i < len(annotations); i += 2 {
		node.Annotations[annotations[i]] = annotations[i+1]
	}
	return node
}

func newPod(name, node string, second int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, second)),
			CreationTimestamp: born(second), Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// decideNode writes what was decided, as the controller does.
func decideNode(t testing.TB, a allocator, node *corev1.Node) Decision {
	t.Helper()
	d, err := a.Node(node)
	if err != nil {
		t.Fatalf("node %s: %v", node.Name, err)
	}
	maps.Copy(node.Annotations, d.Annotations)
	return d
}

func decidePod(t testing.TB, a allocator, pod *corev1.Pod, node *corev1.Node) Decision {
	t.Helper()
	d, err := a.Pod(pod, node)
	if err != nil {
		t.Fatalf("pod %s: %v", pod.Name, err)
	}
	maps.Copy(pod.Annotations, d.Annotations)
	return d
}

// address is the pod's first address as builders see it.
func address(a allocator, pod *corev1.Pod) string {
	network := a.Allocated(pod, "")
	if network == nil {
		return ""
	}
	return network.Addresses[0].String()
}

func wantAddress(t testing.TB, a allocator, pod *corev1.Pod, want string) {
	t.Helper()
	if got := address(a, pod); got != want {
		t.Errorf("pod %s has %q, want %q", pod.Name, got, want)
	}
}

func wantWarning(t testing.TB, d Decision, want string) {
	t.Helper()
	if want == "" && d.Warning != "" || !strings.Contains(d.Warning, want) {
		t.Errorf("warning %q, want %q", d.Warning, want)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// check is what must hold for the allocator's memory at any time.
func check(t testing.TB, a allocator) {
	t.Helper()
	held := map[netip.Prefix]uint64{}
	addrs := 0
	for o, h := range a.pools[""].newest {
		for ; h != nil; h = h.older {
			if h.owner != o {
				t.Fatalf("holding of %s hangs at %s", h.owner, o)
			}
			for _, addr := range h.addrs {
				addrs++
				if a.pools[""].byAddr[addr] != h {
					t.Fatalf("%s: address %s is held by another", o, addr)
				}
				if b := a.pools[""].block(addr); b == nil || !b.allows(addr) {
					t.Fatalf("%s: address %s is in no block or reserved", o, addr)
				}
				held[a.pools[""].block(addr).prefix]++
			}
		}
	}
	if addrs != len(a.pools[""].byAddr) {
		t.Fatalf("%d addresses in holdings, %d known", addrs, len(a.pools[""].byAddr))
	}
	for prefix, b := range a.pools[""].known {
		if b.held != held[prefix] || b.prefix != prefix {
			t.Fatalf("block %s counts %d, holds %d", prefix, b.held, held[prefix])
		}
	}
	for id, name := range a.ids.taken {
		if a.ids.nodes[name] != id {
			t.Fatalf("id %d is kept for %s", id, name)
		}
	}
}

func isWaiting(err error) bool {
	return errors.Is(err, reconcile.ErrNotReady) || errors.Is(err, ErrExhausted)
}

func networkOf(t testing.TB, pod *corev1.Pod) string { return pod.Annotations[contract.PodNetworksKey] }

func owner(pod *corev1.Pod) contract.Owner { return contract.PodOwner(pod.Namespace, pod.Name) }
