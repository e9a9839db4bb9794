package ipam

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// row is a pod's row in a pretended Northbound database.
type row struct {
	uid   types.UID
	addrs []netip.Prefix
}

// world is an API server, a database and the controller's loops around the
// allocator. Each step may happen at any time, or never.
type world struct {
	t     *testing.T
	r     *rand.Rand
	a     allocator
	clock int
	nodes map[string]*corev1.Node
	pods  map[contract.Owner]*corev1.Pod
	rows  map[contract.Owner]row
}

const worldNodes, worldPods = 4, 40

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		t: t, r: rand.New(rand.NewPCG(seed, 0)),
		// Four /28, of eleven addresses each, and a large subnet for each node.
		a:     newAllocator(t, plan(t, "10.0.0.0/26/28,fd00:1::/48/64")),
		nodes: map[string]*corev1.Node{}, pods: map[contract.Owner]*corev1.Pod{}, rows: map[contract.Owner]row{},
	}
}

func (w *world) step() {
	w.clock++
	node := fmt.Sprint("n", w.r.IntN(worldNodes))
	name := fmt.Sprint("p", w.r.IntN(worldPods))
	o := contract.PodOwner("ns", name)
	pod := w.pods[o]
	switch what := w.r.IntN(100); {
	case what < 20:
		if pod == nil {
			w.pods[o] = newPod(name, node, w.clock)
		}
	case what < 30:
		delete(w.pods, o)
	case what < 35:
		if pod != nil {
			pod.Status.Phase = corev1.PodSucceeded
		}
	case what < 60:
		w.podLoop(o, w.r.IntN(10) > 0)
	case what < 85:
		w.rowLoop(o)
	case what < 89:
		w.nodeLoop(node, w.r.IntN(4) > 0)
	case what < 91:
		if w.nodes[node] == nil {
			w.nodes[node] = newNode(node, w.clock)
		}
	case what < 92:
		delete(w.nodes, node)
	case what < 95:
		w.forge(pod)
	case what < 97:
		w.restart()
	case what < 98:
		if pod != nil {
			delete(pod.Annotations, contract.PodNetworksKey)
		}
	case what < 99:
		if w.nodes[node] != nil {
			delete(w.nodes[node].Annotations, contract.NodeSubnetsKey)
		}
	default:
		if was, ok := w.rows[o]; ok {
			was.uid = ""
			w.rows[o] = was
		}
	}
}

func (w *world) podLoop(o contract.Owner, write bool) {
	pod := w.pods[o]
	if pod == nil {
		return
	}
	d, err := w.a.Pod(pod, w.nodes[pod.Spec.NodeName])
	if err != nil && !isWaiting(err) {
		w.t.Fatal(err)
	}
	if write {
		maps.Copy(pod.Annotations, d.Annotations)
	}
}

func (w *world) nodeLoop(name string, write bool) {
	node := w.nodes[name]
	if node == nil {
		w.a.Subnets.Release(name)
		return
	}
	d, err := w.a.Node(node)
	if err != nil && !isWaiting(err) {
		w.t.Fatal(err)
	}
	if write {
		maps.Copy(node.Annotations, d.Annotations)
	}
}

// rowLoop builds a pod's row and releases the holders without a row.
func (w *world) rowLoop(o contract.Owner) {
	holders := w.a.Holders(o)
	pod := w.pods[o]
	if pod == nil || !contract.WantsNetwork(pod) {
		delete(w.rows, o)
		w.a.Addresses.Release(o, holders...)
		return
	}
	network := w.a.Allocated(pod, "")
	if network == nil {
		network = w.a.Adopt(pod, w.nodes[pod.Spec.NodeName], "")
	}
	if network == nil {
		return
	}
	w.rows[o] = row{pod.UID, network.Addresses}
	w.a.Addresses.Release(o, slices.DeleteFunc(holders, func(uid types.UID) bool { return uid == pod.UID })...)
}

// forge gives a pod the annotation of another, or one that is made up.
func (w *world) forge(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	victim := w.pods[contract.PodOwner("ns", fmt.Sprint("p", w.r.IntN(worldPods)))]
	if victim != nil && w.r.IntN(2) == 0 {
		pod.Annotations[contract.PodNetworksKey] = victim.Annotations[contract.PodNetworksKey]
		return
	}
	ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(w.r.IntN(70))})
	pod.Annotations[contract.PodNetworksKey] = fmt.Sprintf(`{"default":{"ip_addresses":["%s/28"],"mac_address":%q}}`, ip, contract.MACFromAddress(ip))
}

func (w *world) restart() {
	var rows []Held
	for o, r := range w.rows {
		h := Held{Owner: o, UID: r.uid}
		for _, addr := range r.addrs {
			h.Addrs = append(h.Addrs, addr.Addr())
		}
		rows = append(rows, h)
	}
	w.a.rebuild(slices.Collect(maps.Values(w.nodes)), slices.Collect(maps.Values(w.pods)), rows)
}

// check: no address is in two rows, or in a row and another pod's decision.
func (w *world) check() {
	w.t.Helper()
	check(w.t, w.a)
	users := map[netip.Addr]contract.Owner{}
	use := func(o contract.Owner, addrs []netip.Prefix) {
		for _, addr := range addrs {
			if other, ok := users[addr.Addr()]; ok && other != o {
				w.t.Fatalf("step %d: %s and %s both use %s", w.clock, other, o, addr)
			}
			users[addr.Addr()] = o
		}
	}
	for o, r := range w.rows {
		use(o, r.addrs)
	}
	for o, pod := range w.pods {
		if network := w.a.Allocated(pod, ""); network != nil {
			use(o, network.Addresses)
		}
	}
}

// settle runs all loops until nothing is left to do.
func (w *world) settle() {
	for range 5 {
		for i := range worldNodes {
			w.nodeLoop(fmt.Sprint("n", i), true)
		}
		owners := slices.AppendSeq(w.a.Addresses.Owners(), maps.Keys(w.pods))
		for _, o := range slices.AppendSeq(owners, maps.Keys(w.rows)) {
			if o.Kind == contract.KindPod {
				w.podLoop(o, true)
				w.rowLoop(o)
			}
		}
	}
}

// TestAllocator_NoAddressTwiceInRandomHistory lives through random histories with crashes at every point:
// an address is never used twice, every pod gets one in the end, and no address leaks.
func TestAllocator_NoAddressTwiceInRandomHistory(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 1500 {
				w.step()
				w.check()
			}
			for i := range worldNodes {
				if name := fmt.Sprint("n", i); w.nodes[name] == nil {
					w.nodes[name] = newNode(name, w.clock)
				}
			}
			w.settle()
			w.check()
			w.wantAllServed()
			clear(w.pods)
			clear(w.nodes)
			w.settle()
			w.check()
			left := append(w.a.Addresses.Owners(), w.a.Subnets.Owners()...)
			subnets := w.a.networks[""]
			if len(left)+len(w.rows)+len(subnets.owners)+len(subnets.states)+len(w.a.ids.taken)+len(w.a.Addresses.waiting)+len(w.a.Subnets.waiting) > 0 {
				t.Errorf("left over: %v, %d rows, subnets of %v, %d ids, waiting %v, %v", left, len(w.rows), subnets.owners, len(w.a.ids.taken), w.a.Addresses.waiting, w.a.Subnets.waiting)
			}
		})
	}
}

// wantAllServed: a node serves eleven pods; only the others may be without a row.
func (w *world) wantAllServed() {
	wants, served := map[string]int{}, map[string]int{}
	for o, pod := range w.pods {
		if contract.WantsNetwork(pod) {
			wants[pod.Spec.NodeName]++
			if w.rows[o].uid == pod.UID {
				served[pod.Spec.NodeName]++
			}
		}
	}
	for node, n := range wants {
		if served[node] != min(n, 11) {
			w.t.Errorf("node %s: %d pods, %d served", node, n, served[node])
		}
	}
}

// TestAllocator_ConcurrentPodsShareNoAddress is for the race detector, and for addresses given to two.
func TestAllocator_ConcurrentPodsShareNoAddress(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node := newNode("n", 1)
	decideNode(t, a, node)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 200 {
				pod := newPod(fmt.Sprint("p", g, "-", i%20), "n", i)
				d, err := a.Pod(pod, node)
				if err != nil {
					t.Error(err)
					return
				}
				maps.Copy(pod.Annotations, d.Annotations)
				if a.Allocated(pod, "") == nil {
					t.Errorf("pod %s has no address", pod.Name)
				}
				a.Addresses.Release(owner(pod), a.Holders(owner(pod))...)
			}
		})
	}
	group.Wait()
	check(t, a)
	if len(a.pools[""].byAddr) != 0 {
		t.Errorf("%d addresses left", len(a.pools[""].byAddr))
	}
}

func BenchmarkRebuild100k(b *testing.B) {
	a := newAllocator(b, plan(b, "11.0.0.0/8/20"))
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for i := range 100 {
		nodes = append(nodes, newNode(fmt.Sprint("n", i), i))
		decideNode(b, a, nodes[i])
	}
	for i := range 100_000 {
		node := nodes[i%len(nodes)]
		pods = append(pods, newPod(fmt.Sprint("p", i), node.Name, i))
		decidePod(b, a, pods[i], node)
	}
	b.Run("rebuild", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.rebuild(nodes, pods, nil)
		}
	})
	b.Run("allocated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, pod := range pods {
				if a.Allocated(pod, "") == nil {
					b.Fatal("lost")
				}
			}
		}
	})
}
