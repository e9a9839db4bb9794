package main

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/network/chain"
	"github.com/ovn-offload/ovn-offload/pkg/network/portmirror"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

const worldNodes, worldPods = 400, 100_000

// world is what the controller works on, without an API server: objects, the
// allocator, and the replica of a real database.
type world struct {
	view      ovn.View // the world itself, if nothing else is said
	nodes     map[string]*corev1.Node
	pods      map[contract.Owner]*corev1.Pod
	owners    []contract.Owner
	subnets   *ipam.Subnets
	addresses *ipam.Addresses
	network   contract.Network
	zone      contract.Zone
	db        *ovsdb.DB
}

func (w *world) Node(name string) *corev1.Node { return w.nodes[name] }

func (w *world) Pod(namespace, name string) *corev1.Pod {
	return w.pods[contract.PodOwner(namespace, name)]
}

func (w *world) Service(string, string) *corev1.Service                     { return nil }
func (w *world) EndpointSlices(string, string) []*discoveryv1.EndpointSlice { return nil }
func (w *world) Services() []*corev1.Service                                { return nil }
func (w *world) ServiceValues() *lb.Values                                  { return nil }
func (w *world) GatewayAddresses(*corev1.Node) []netip.Addr                 { return nil }
func (w *world) IsHostAddress(netip.Addr) bool                              { return false }
func (w *world) IsForeign(string, netip.Addr) bool                          { return false }
func (w *world) ServiceSubnets() []netip.Prefix                             { return nil }
func (w *world) Zone() contract.Zone                                        { return w.zone }
func (w *world) NodeSubnets(*corev1.Node, string) []netip.Prefix            { return nil }
func (w *world) Attached(*corev1.Pod, string) []*contract.PodNetwork        { return nil }
func (w *world) NodeAddresses(contract.Family) ([]netip.Addr, bool)         { return nil, true }
func (w *world) OnNodes(*discoveryv1.EndpointSlice) (bool, bool)            { return false, false }

func (w *world) Policy(contract.Owner) *policy.Policy                         { return nil }
func (w *world) PoliciesOf(*corev1.Pod, string) ([]*policy.Policy, bool)      { return nil, true }
func (w *world) PodSet(contract.Owner) *policy.PodSet                         { return nil }
func (w *world) Members(*policy.PodSet) []*corev1.Pod                         { return nil }
func (w *world) Sizes(*policy.PodSet) map[int32]int                           { return nil }
func (w *world) UsersOf(contract.Owner) []contract.Owner                      { return nil }
func (w *world) PodWith(netip.Addr) *corev1.Pod                               { return nil }
func (w *world) PortMirror(string) *portmirror.Mirror                         { return nil }
func (w *world) MirrorsOf(*corev1.Pod) []*portmirror.Mirror                   { return nil }
func (w *world) CollectorOn(*portmirror.Mirror, string) *corev1.Pod           { return nil }
func (w *world) Chain(contract.Owner) (*chain.Chain, error)                   { return nil, nil }
func (w *world) Replicas(*chain.Chain, int) []*corev1.Pod                     { return nil }
func (w *world) NodesWith(labels.Selector) []*corev1.Node                     { return nil }
func (w *world) NetworksWithGateway() []contract.Network                      { return nil }
func (w *world) NetworkOf(*corev1.Service) (string, *contract.Network, error) { return "", nil, nil }
func (w *world) IsRouted(string) bool                                         { return true }
func (w *world) SharedServices() []*corev1.Service                            { return nil }
func (w *world) PodsIn(string) []*corev1.Pod                                  { return nil }
func (w *world) Locked(*corev1.Pod) bool                                      { return false }
func (w *world) Namespace(string) *corev1.Namespace                           { return nil }

func (w *world) Allocated(pod *corev1.Pod, network string) *contract.PodNetwork {
	return w.addresses.Allocated(pod, network)
}

// BenchmarkWorld is the controller's full pass over 100,000 pods: every owner
// built by pkg/ovn and compared by pkg/ovsdb, ten at a time. Peak memory is that
// of the process during the passes: objects, allocator, replica and rubbish.
func BenchmarkWorld(b *testing.B) {
	w := newWorld(b)
	start := time.Now()
	if changes := w.pass(b, 1000); changes == 0 {
		b.Fatal("an empty database needed no change")
	}
	b.Logf("written to a real ovsdb-server in %s, 1000 owners a transaction", time.Since(start).Round(time.Millisecond))
	resetPeak(b)
	for b.Loop() {
		if changes := w.pass(b, 10); changes != 0 {
			b.Fatalf("a pass over what is right changed %d rows", changes)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/pass")
	status, err := readStatus(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(status["VmHWM"])/1024, "peak-MiB")
}

// resetPeak makes the kernel count the process' peak memory from now on, without
// what the set-up has left behind.
func resetPeak(b *testing.B) {
	debug.FreeOSMemory()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.Logf("live before the passes: %d MiB", memory.HeapAlloc>>20)
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Logf("peak memory includes the set-up: %v", err)
	}
}

// pass builds and commits all owners and returns the number of changed rows.
func (w *world) pass(b *testing.B, batch int) int {
	changes := 0
	for i := 0; i < len(w.owners); i += batch {
		var wants []ovsdb.Want
		for _, owner := range w.owners[i:min(i+batch, len(w.owners))] {
			rows, err := ovn.Build(w.view, w.network, owner)
			if err != nil && len(rows) == 0 { // nodes lack a gateway and say so
				b.Fatalf("%s: %v", owner, err)
			}
			wants = append(wants, ovsdb.Want{Owner: owner.String(), Rows: rows})
		}
		result, err := w.db.Commit(context.Background(), wants...)
		if err != nil {
			b.Fatal(err)
		}
		for owner, err := range result.Failed {
			b.Fatalf("%s: %v", owner, err)
		}
		changes += len(result.Changes)
	}
	return changes
}

func newWorld(b *testing.B) *world {
	plan := ipam.Defaults()
	var err error
	if plan.Cluster, err = ipam.ParseClusterSubnets("10.0.0.0/8/24"); err != nil {
		b.Fatal(err)
	}
	if plan.Services, err = ipam.ParsePrefixes("172.30.0.0/16"); err != nil {
		b.Fatal(err)
	}
	w := &world{nodes: map[string]*corev1.Node{}, pods: map[contract.Owner]*corev1.Pod{}, owners: []contract.Owner{contract.NetworkOwner()}}
	if w.subnets, err = ipam.NewSubnets(plan); err != nil {
		b.Fatal(err)
	}
	w.addresses = ipam.NewAddresses(w.subnets)
	w.network = plan.Network()
	for i := range worldNodes {
		w.addNode(b, i)
	}
	for i := range worldPods {
		w.addPod(b, i)
	}
	w.view, w.db = w, openNorthbound(b)
	return w
}

func (w *world) addNode(b *testing.B, i int) {
	name := nodeName(i)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Annotations: map[string]string{contract.NodeChassisIDKey: "chassis-" + name},
	}}
	decision, err := w.subnets.Node(node)
	if err != nil {
		b.Fatal(err)
	}
	maps.Copy(node.Annotations, decision.Annotations)
	w.nodes[name] = node
	w.owners = append(w.owners, contract.NodeOwner(name))
}

func (w *world) addPod(b *testing.B, i int) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("namespace-%d", i%500), Name: fmt.Sprintf("deployment-5d4f8c7b9-%05d", i),
			UID: types.UID(fmt.Sprintf("0b0c7d5e-0000-4000-8000-%012d", i)),
		},
		Spec: corev1.PodSpec{NodeName: nodeName(i % worldNodes)},
	}
	decision, err := w.addresses.Pod(pod, w.nodes[pod.Spec.NodeName])
	if err != nil {
		b.Fatal(err)
	}
	pod.Annotations = decision.Annotations
	owner := contract.PodOwner(pod.Namespace, pod.Name)
	w.pods[owner] = pod
	w.owners = append(w.owners, owner)
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

func openNorthbound(b *testing.B) *ovsdb.DB {
	schema, err := ovn.ReplicaSchema()
	if err != nil {
		b.Fatal(err)
	}
	server := ovsdbtest.Start(b, nb.Definition)
	server.Transact(`{"op":"insert","table":"NB_Global","row":{}}`)
	db, err := ovsdb.Open(b.Context(), ovsdb.Defaults([]string{server.Endpoint()}, schema))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(db.Close)
	return db
}
