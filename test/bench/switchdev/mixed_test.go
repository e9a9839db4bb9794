//go:build bench

package switchdev

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestNetworks_VFAndVethInOnePod: pods of one node at once, by CNI ADD and with the rows of the product's controller: with
// a veth for eth0 and VFs of a network's resource, with a VF for eth0 and a veth on a network without a resource, and with a veth
// alone. What VFs send is in hardware. What veths send is the control: it is in software, because they are no representors.
func TestNetworks_VFAndVethInOnePod(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "TestNetworks_VFTrafficIsInHardware and TestVF_PodsReachEachOther show the parts")
	c := newCluster(t, true)
	c.outside()
	c.inProcess(c.nodes[0].name, "TestInsideMixed", c.nodes[0])
}

// mixedNode is the first of two nodes with the product, with a CNI server for its pods.
type mixedNode struct {
	*podNode
	p           *product
	node, other *ovsNode
}

func newMixedNode(t *testing.T) *mixedNode {
	t.Helper()
	dir := os.Getenv(dpuDir)
	if dir == "" {
		t.Skip("is run by inProcess")
	}
	c := &cluster{t: t, dir: filepath.Dir(dir)}
	p := &product{cluster: c, server: fake.NewClientset(), objects: kindsOfObjects(t), pods: map[string]*endpoint{}}
	onVFs(t, p.objects, "flat", "routed")
	defineNetwork(t, p.objects, "default", "plain", map[string]any{"topology": "layer2", "subnets": "10.204.0.0/24"})
	p.control()
	m := &mixedNode{p: p, node: newNode(t, os.Getenv(dpuNS), dir, os.Getenv(dpuPCI), 0), other: newNode(t, "node2", filepath.Join(c.dir, "node2"), nics(t)[1], 1)}
	p.nodes = []*ovsNode{m.node, m.other}
	for _, n := range p.nodes {
		n.uplink, n.settings = n.link("p0"), offloading(true)
		p.join(n.name, n.addresses...)
		p.gateway(n, n.name)
	}
	view, err := kube.NewNodeView(apitest.Client(p.server), m.node.name)
	ok(t, err)
	m.podNode = &podNode{T: t, c: c, pci: m.node.pci, dir: dir, seen: cni.NewPods(view.Pod)}
	view.OnChange(m.seen.Changed)
	ok(t, view.Start(t.Context()))
	m.serve()
	for _, v := range pf(t, m.inventory(), m.pci).VFs {
		run(t, "ethtool", "-K", v.Representor.Name, "hw-tc-offload", "on")
	}
	return m
}

// pod makes a pod that asks for networks and has VFs from the kubelet.
func (m *mixedNode) pod(name, networks string, vfs ...string) sandbox {
	m.Helper()
	run(m, "ip", "netns", "add", name)
	m.Cleanup(func() { _, _ = try("ip", "netns", "del", name) })
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: m.node.name},
	}
	if networks != "" {
		object.Annotations = map[string]string{contract.NetworksKey: networks}
	}
	if len(vfs) > 0 {
		object.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: someVFs(len(vfs))}}}
	}
	m.kubelet.give(name, vfs...)
	_, err := m.p.server.CoreV1().Pods("default").Create(m.Context(), object, metav1.CreateOptions{})
	ok(m, err)
	keys := []string{contract.DefaultNetwork}
	for nad := range strings.FieldsFuncSeq(networks, func(r rune) bool { return r == ',' }) {
		keys = append(keys, "default/"+nad)
	}
	m.p.given(name, keys...)
	return sandbox{T: m.T, socket: m.socket, name: name, ns: name, id: "sandbox-" + name}
}

// attach is the ADD of such a pod.
func (m *mixedNode) attach(name, networks string, vfs ...string) sandbox {
	m.Helper()
	s := m.pod(name, networks, vfs...)
	m.Logf("ADD of %s took %s", name, s.must("ADD"))
	s.must("CHECK")
	m.p.answer(s.ns)
	return s
}

// parents are the VFs of a pod's interfaces, "" for a veth.
func (m *mixedNode) parents(s sandbox) string {
	m.Helper()
	var out []string
	for line := range strings.Lines(run(m, inside(s.ns, "sh", "-c", "cd /sys/class/net; for i in */; do i=${i%/}; [ $i = lo ] || echo $i $(readlink $i/device); done")...)) {
		name, device, _ := strings.Cut(strings.TrimSpace(line), " ")
		out = append(out, strings.TrimSuffix(name+"="+filepath.Base(device), "."))
	}
	return strings.Join(out, " ")
}

func TestInsideMixed(t *testing.T) {
	m := newMixedNode(t)
	devices := m.devices()
	var was []string
	for _, device := range devices {
		was = append(was, m.state(device))
	}
	m.refusesWithoutVF()
	fast, swift, normal := m.attach("fast", "flat,routed", devices[0], devices[1]), m.attach("swift", "plain", devices[2]), m.attach("normal", "plain")
	for s, want := range map[sandbox]string{
		fast:  fmt.Sprintf("eth0= net1=%s net2=%s", devices[0], devices[1]),
		swift: fmt.Sprintf("eth0=%s net1=", devices[2]), normal: "eth0= net1=",
	} {
		if got := m.parents(s); got != want {
			t.Errorf("interfaces of %s: %s, want %s", s.name, got, want)
		}
	}
	m.traffic(fast, swift, normal)
	for _, s := range []sandbox{fast, swift, normal} {
		s.must("DEL")
	}
	var now []string
	for _, device := range devices {
		now = append(now, m.state(device))
	}
	if claims := m.ledger.Claims(); !slices.Equal(was, now) || len(claims) > 0 {
		t.Errorf("after DEL the VFs are %v, and were %v; claims %+v", now, was, claims)
	}
}

// refusesWithoutVF: a network with a resource is for pods that ask for it.
func (m *mixedNode) refusesWithoutVF() {
	m.Helper()
	s := m.pod("poor", "flat")
	if out, _, err := s.call("ADD"); err == nil || err.Code != cni.CodeDevice || !strings.Contains(err.Msg+err.Details, "needs a device of ovn-offload.io/vf") {
		m.Errorf("ADD without a VF: %s %v", out, err)
	}
	ok(m, m.p.server.CoreV1().Pods("default").Delete(m.Context(), "poor", metav1.DeleteOptions{}))
}

// traffic goes from VFs and from veths.
func (m *mixedNode) traffic(fast, swift, normal sandbox) {
	t, p := m.T, m.p
	flat, routed := p.addOn("flatb", m.other, 0, "flat"), p.addOn("routedb", m.other, 1, "routed")
	p.add("far", m.other, 2)
	far := p.pods["far"]
	gates, addresses := map[string]gate{}, map[string]string{}
	for _, on := range []struct {
		s         sandbox
		link, key string
	}{
		{fast, "eth0", contract.DefaultNetwork}, {fast, "net1", "default/flat"}, {fast, "net2", "default/routed"},
		{swift, "eth0", contract.DefaultNetwork}, {swift, "net1", "default/plain"}, {normal, "eth0", contract.DefaultNetwork}, {normal, "net1", "default/plain"},
	} {
		what := on.s.name + " " + on.link
		gates[what], addresses[what] = p.onNetwork(m.node, on.s, on.link, on.key)
	}
	for _, w := range []way{
		{what: "VF net1, layer2", client: gates["fast net1"], server: flat.gate(), to: []string{flat.v4}},
		{what: "VF net2, layer3", client: gates["fast net2"], server: routed.gate(), to: []string{routed.v4}},
		{what: "VF eth0", client: gates["swift eth0"], server: far.gate(), to: []string{far.v4}},
	} {
		t.Run(w.what, w.row)
	}
	for _, w := range []way{
		{what: "veth eth0 beside VFs", client: gates["fast eth0"], server: far.gate(), to: []string{far.v4}},
		{what: "veth net1 beside a VF", client: gates["swift net1"], server: gates["normal net1"], to: []string{addresses["normal net1"]}},
		{what: "a pod without VFs to a VF", client: gates["normal eth0"], server: gates["swift eth0"], to: []string{addresses["swift eth0"]}},
	} {
		t.Run(w.what, w.fromVeth)
	}
	if answers("far", addresses["fast net1"]) || answers(normal.ns, addresses["fast net1"]) {
		t.Error("a pod without the network is reached on it")
	}
}
