package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// world is a controller between a fake API and a real ovsdb-server.
type world struct {
	t      testing.TB
	server *ovsdbtest.Server
	client *fake.Clientset
	stop   func()
	ended  chan error // what the last controller's run ends with
	ready  func() error
	logs   *lockedBuffer
	// What the next start is configured with.
	southbound    []string
	zones         []ZoneConfig      // further ones; nil: one zone has all nodes
	local         func(string) bool // of the first zone
	cluster       string            // subnets of the pods; "": the default
	renumber      bool
	secondaryOnly bool
	native        bool              // nodes may get other subnets
	policies      dynamic.Interface // for the whole cluster; nil: none
	registry      *prometheus.Registry
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := emptyWorld(t, objects...)
	w.start()
	return w
}

// emptyWorld has no controller yet.
func emptyWorld(t testing.TB, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, server: ovsdbtest.Start(t, nb.Definition), client: fake.NewClientset(objects...), logs: &lockedBuffer{}, stop: func() {}}
	apitest.RefuseReplaced(w.client)
	w.server.Transact(`{"op":"insert","table":"NB_Global","row":{}}`)
	t.Cleanup(func() { w.stop() })
	return w
}

// start runs a controller until stop; the next start is a new process.
func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	lead := leader.Defaults()
	lead.Identity = fmt.Sprint(time.Now().UnixNano())
	plan := ipam.Defaults()
	plan.SecondaryOnly = w.secondaryOnly
	if w.cluster != "" {
		var err error
		if plan.Cluster, err = ipam.ParseClusterSubnets(w.cluster); err != nil {
			w.t.Fatal(err)
		}
	}
	w.registry = prometheus.NewRegistry()
	c, err := New(ctx, Config{
		Plan: plan, RenumberNodes: w.renumber,
		Zones:   append([]ZoneConfig{{Northbound: []string{w.server.Endpoint()}, Southbound: w.southbound, Local: w.local}}, w.zones...),
		Dynamic: w.policies, Networks: true, Native: w.native,
		Leader: lead, Leases: w.client.CoordinationV1(),
		Logger: slog.New(slog.NewTextHandler(w.logs, nil)), Registerer: w.registry,
	}, apitest.Client(w.client))
	if err != nil {
		w.t.Fatal(err)
	}
	var running sync.WaitGroup
	w.ended = make(chan error, 1)
	running.Go(func() { w.ended <- c.Run(ctx) })
	w.stop, w.ready = func() { cancel(); running.Wait() }, c.Ready
}

// startAndLead also waits until the controller has its view: the fake API loses
// what happens between a list and its watch.
func (w *world) startAndLead() {
	w.t.Helper()
	terms := strings.Count(w.logs.String(), "msg=leading")
	w.start()
	w.eventually("a leader", func() bool { return strings.Count(w.logs.String(), "msg=leading") > terms })
}

func testNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Annotations: map[string]string{contract.NodeChassisIDKey: "chassis-" + name},
	}}
}

func testPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// ports lists the names of the logical ports of pods.
func (w *world) ports() []string {
	var names []string
	for name := range strings.FieldsSeq(w.server.Dump("Logical_Switch_Port", "name")) {
		if strings.HasPrefix(name, "d_") {
			names = append(names, name)
		}
	}
	return names
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not yet: %s; ports %v; log:\n%s", what, w.ports(), w.logs)
		}
	}
}

func TestPod_GetsAndReleasesAddressAndPort(t *testing.T) {
	w := newWorld(t, testNode("n1"), testPod("a", "n1"))
	w.eventually("a port for the pod", func() bool { return slices.Equal(w.ports(), []string{"d_a"}) })
	pod, err := w.client.CoreV1().Pods("d").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || !strings.Contains(pod.Annotations[contract.PodNetworksKey], "10.244.0.4/24") {
		t.Errorf("annotation %q, %v", pod.Annotations[contract.PodNetworksKey], err)
	}
	if err := w.client.CoreV1().Pods("d").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the port is gone", func() bool { return len(w.ports()) == 0 })
}

func TestStart_RepairsRowsChangedMeanwhile(t *testing.T) {
	w := newWorld(t, testNode("n1"), testPod("a", "n1"), testPod("b", "n1"))
	w.eventually("ports for both pods", func() bool { return len(w.ports()) == 2 })
	w.stop()
	// While no controller runs, a pod goes and another's port is deleted by hand.
	if err := w.client.CoreV1().Pods("d").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	uuid := w.server.Transact(`{"op":"select","table":"Logical_Switch_Port","where":[["name","==","d_b"]],"columns":["_uuid"]}`)
	_, uuid, _ = strings.Cut(uuid, `"uuid","`)
	uuid, _, _ = strings.Cut(uuid, `"`)
	w.server.Transact(`{"op":"mutate","table":"Logical_Switch","where":[["name","==","n1"]],"mutations":[["ports","delete",["uuid","` + uuid + `"]]]}`)
	if got := w.ports(); !slices.Equal(got, []string{"d_a"}) {
		t.Fatalf("ports before the start: %v", got)
	}
	w.start()
	w.eventually("the right port alone", func() bool { return slices.Equal(w.ports(), []string{"d_b"}) })
}

// fortyPods, p0 to p39, have ports, and the controller has ended.
func fortyPods(t *testing.T) *world {
	t.Helper()
	objects := []runtime.Object{testNode("n1")}
	for i := range 40 {
		objects = append(objects, testPod(fmt.Sprint("p", i), "n1"))
	}
	w := newWorld(t, objects...)
	w.eventually("forty ports", func() bool { return len(w.ports()) == 40 })
	w.stop()
	return w
}

// loseForty has the API lose the forty.
func (w *world) loseForty() {
	w.t.Helper()
	for i := range 40 {
		if err := w.client.CoreV1().Pods("d").Delete(w.t.Context(), fmt.Sprint("p", i), metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestGuard_StopsMassDeletionOfPorts: an API that has lost its pods does not empty the
// database at once.
func TestGuard_StopsMassDeletionOfPorts(t *testing.T) {
	w := fortyPods(t)
	w.loseForty()
	w.start()
	w.eventually("the guard's log message", func() bool { return strings.Contains(w.logs.String(), "mass-delete guard") })
	if err := createPod(t, w, "new"); err != nil {
		t.Fatal(err)
	}
	w.eventually("others go on", func() bool { return slices.Contains(w.ports(), "d_new") })
	if got := len(w.ports()); got != 41 {
		t.Errorf("%d ports, want the forty and the new one", got)
	}
}

func createPod(t testing.TB, w *world, name string) error {
	t.Helper()
	_, err := w.client.CoreV1().Pods("d").Create(t.Context(), testPod(name, "n1"), metav1.CreateOptions{})
	return err
}

// TestForgedAnnotation_SubnetOfAnotherNodeIsIgnored: a subnet that a node claims of another does not
// reach the database.
func TestForgedAnnotation_SubnetOfAnotherNodeIsIgnored(t *testing.T) {
	w := newWorld(t, testNode("n1"))
	w.eventually("a switch", func() bool { return strings.Contains(w.server.Dump("Logical_Switch", "name"), "n1") })
	forger := testNode("n2")
	forger.Annotations[contract.NodeSubnetsKey] = `{"default":["10.244.0.0/24"]}`
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), forger, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the second node's router port", func() bool {
		return strings.Contains(w.server.Dump("Logical_Router_Port", "name", "networks"), "rtos-n2")
	})
	if rows := w.server.Dump("Logical_Router_Port", "name", "networks"); strings.Count(rows, "10.244.0.1/24") != 1 {
		t.Errorf("router ports:\n%s", rows)
	}
}

// TestHeld_DisconnectedDatabaseIsAnError: if it passed for empty, the addresses that its
// rows use would be given away.
func TestHeld_DisconnectedDatabaseIsAnError(t *testing.T) {
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(`{"op":"insert","table":"NB_Global","row":{}}`)
	schema, err := ovn.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	db, err := ovsdb.Open(t.Context(), ovsdb.Defaults([]string{server.Endpoint()}, schema))
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := held(db); err != nil || len(rows) > 0 {
		t.Errorf("%d rows in an empty database, %v", len(rows), err)
	}
	db.Close()
	if _, err := held(db); !errors.Is(err, ovsdb.ErrDisconnected) {
		t.Errorf("a disconnected database: %v", err)
	}
}

// TestStandby_QueuesNoKeys: who waits for the lease, for months perhaps, does
// not collect the names of all pods that came and went meanwhile.
func TestStandby_QueuesNoKeys(t *testing.T) {
	registry := prometheus.NewRegistry()
	c, err := New(t.Context(), Config{Plan: ipam.Defaults(), Zones: []ZoneConfig{{}}, Logger: slog.New(slog.DiscardHandler), Registerer: registry}, apitest.Client(fake.NewClientset()))
	if err != nil {
		t.Fatal(err)
	}
	c.mark(contract.PodOwner("d", "a"))
	if got := dirtyKeys(t, registry); got != 0 {
		t.Errorf("%v keys wait in a process that does not lead", got)
	}
	c.leading.Store(true)
	c.mark(contract.PodOwner("d", "a"))
	if got := dirtyKeys(t, registry); got != 2 {
		t.Errorf("%v keys wait in the leader, want one in each of two loops", got)
	}
}

// TestAllocatePods_OfAPodThatHasGone: what was allocated for it while its annotation
// could not be written comes free with the rows that it does not have.
func TestAllocatePods_OfAPodThatHasGone(t *testing.T) {
	node, pod, registry := testNode("n1"), testPod("a", "n1"), prometheus.NewRegistry()
	c, err := New(t.Context(), Config{Plan: ipam.Defaults(), Zones: []ZoneConfig{{}}, Logger: slog.New(slog.DiscardHandler), Registerer: registry},
		apitest.Client(fake.NewClientset(node)))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.view.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	decision, err := c.subnets.Node(node)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(node.Annotations, decision.Annotations)
	if _, err := c.zones[0].addresses.Pod(pod, node); err != nil {
		t.Fatal(err)
	}
	owner := contract.PodOwner("d", "a")
	if failed, err := c.zones[0].allocatePods(t.Context(), []contract.Owner{owner}); err != nil || failed[owner] != nil {
		t.Fatal(failed, err)
	}
	if got := dirtyKeys(t, registry); got != 1 {
		t.Errorf("%v keys wait, want the pod in the loop of rows", got)
	}
	c.zones[0].addresses.Release(owner, pod.UID)
	if _, err := c.zones[0].allocatePods(t.Context(), []contract.Owner{contract.PodOwner("d", "other")}); err != nil {
		t.Fatal(err)
	}
	if got := dirtyKeys(t, registry); got != 1 {
		t.Errorf("%v keys wait: a pod that holds nothing is marked", got)
	}
}

// dirtyKeys counts the keys that wait in all loops.
func dirtyKeys(t testing.TB, registry *prometheus.Registry) float64 {
	t.Helper()
	return gauge(t, registry, "ovn_offload_reconcile_dirty_keys")
}

// gauge is the sum of a metric over all its labels.
func gauge(t testing.TB, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, metric := range family.GetMetric() {
				sum += metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// TestPod_CreatedWithAnnotationKeepsAddress: a pod that is created with a valid annotation, from a
// backup for example, is a fact for the builders whoever looks at it first.
// Nothing is written when the allocator takes it, so no event would tell them.
func TestPod_CreatedWithAnnotationKeepsAddress(t *testing.T) {
	node, pod := testNode("n1"), testPod("a", "n1")
	node.Annotations[contract.NodeSubnetsKey], node.Annotations[contract.NodeIDKey] = `{"default":["10.244.0.0/24"]}`, "2"
	before, err := ipam.NewSubnets(ipam.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	decision, err := ipam.NewAddresses(before).Pod(pod, node)
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations = decision.Annotations
	c, err := New(t.Context(), Config{Plan: ipam.Defaults(), Zones: []ZoneConfig{{}}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()},
		apitest.Client(fake.NewClientset(node, pod)))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.view.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	network := facts{c.view, c.zones[0]}.Allocated(c.view.Pod("d", "a"), "")
	if network == nil || network.Addresses[0].String() != "10.244.0.4/24" {
		t.Errorf("the builders see %+v", network)
	}
	if decision, err := c.zones[0].addresses.Pod(c.view.Pod("d", "a"), c.view.Node("n1")); err != nil || len(decision.Annotations) > 0 {
		t.Errorf("%+v, %v is written afterwards", decision, err)
	}
}

func TestReady_FollowsDatabaseConnection(t *testing.T) {
	w := newWorld(t, testNode("n1"))
	w.eventually("a switch", func() bool { return strings.Contains(w.server.Dump("Logical_Switch", "name"), "n1") })
	if err := w.ready(); err != nil {
		t.Errorf("a leader with its database: %v", err)
	}
	w.server.Kill()
	w.eventually("not ready without the database", func() bool { return w.ready() != nil })
	w.server.Restart()
	w.eventually("ready again", func() bool { return w.ready() == nil })
}

// TestGateway_BridgePortWinsNameOverPod: who may create namespaces must not keep a
// node from its gateway, by being there first either. The pod has its port again
// when the node is gone, and one of another name keeps its own.
func TestGateway_BridgePortWinsNameOverPod(t *testing.T) {
	first, other := testPod("n9", "n1"), testPod("n8", "n1")
	first.Namespace, other.Namespace, other.UID = "breth0", "breth0", "other"
	w := newWorld(t, testNode("n1"), testNode("n9"), first, other)
	kinds := func(name string) (kinds string) {
		for line := range strings.Lines(w.server.Dump("Logical_Switch_Port", "name", "type")) {
			if port, kind, _ := strings.Cut(strings.TrimSpace(line), ","); port == name {
				kinds += "(" + strings.Trim(kind, `"`) + ")"
			}
		}
		return kinds
	}
	w.eventually("the pods' ports", func() bool { return kinds("breth0_n9") == `()` && kinds("breth0_n8") == `()` })
	node, err := w.client.CoreV1().Nodes().Get(t.Context(), "n9", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Annotations[contract.GatewayConfigKey] = `{"default":{"mode":"shared","interface-id":"breth0_n9","mac-address":"02:42:ac:12:00:02","ip-addresses":["172.18.0.2/16"],"next-hops":["172.18.0.1"]}}`
	if _, err := w.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the node's port", func() bool { return kinds("breth0_n9") == "(localnet)" && kinds("breth0_n8") == `()` })
	w.eventually("an error of the pod", func() bool {
		return strings.Contains(w.logs.String(), "its port would be called breth0_n9, which is the gateway interface of node n9")
	})
	if err := w.client.CoreV1().Nodes().Delete(t.Context(), "n9", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the pod's port", func() bool { return kinds("breth0_n9") == `()` })
}
