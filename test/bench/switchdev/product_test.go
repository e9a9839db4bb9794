//go:build bench

package switchdev

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/conntrack"
	"github.com/ovn-offload/ovn-offload/pkg/controller"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/openflow"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// outside is a machine on the cable, and the nodes' way to all others.
const outside, outsideV4 = "outside", "192.168.50.100"

// product is a cluster whose rows are those of the product's controller, over an
// API server in memory. The first node has the gateway bridge that the agent makes,
// with its flows; pods are plugged in by hand.
type product struct {
	*cluster
	server *fake.Clientset
	pods   map[string]*endpoint
}

func newProduct(t *testing.T, hwOffload bool) *product {
	t.Helper()
	p := &product{cluster: newCluster(t, hwOffload), server: fake.NewClientset(), pods: map[string]*endpoint{}}
	run(t, "ip", "netns", "add", outside)
	run(t, "ip", "link", "add", "out0", "type", "veth", "peer", "name", "eth0", "netns", outside)
	t.Cleanup(func() {
		_, _ = try("ip", "link", "del", "out0")
		_, _ = try("ip", "netns", "del", outside)
	})
	run(t, "ip", "link", "set", "out0", "master", "cable", "up")
	batch(t, outside, "link set lo up", "link set eth0 mtu "+podMTU+" up", "addr add "+outsideV4+"/24 dev eth0")
	p.control()
	p.watched()
	_, err := p.server.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	ok(t, err)
	gateway := p.bridge(p.nodes[0])
	for _, n := range p.nodes {
		object := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.name, UID: types.UID(n.name), Annotations: map[string]string{kube.NodeChassisIDKey: n.name}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.address}}},
		}
		if n == p.nodes[0] {
			object.Annotations[kube.GatewayConfigKey] = gateway
		}
		_, err := p.server.CoreV1().Nodes().Create(t.Context(), object, metav1.CreateOptions{})
		ok(t, err)
	}
	return p
}

// watched waits until nothing that is made in the API server in memory is missed:
// between its answer to a list and the watch, it forgets.
func (p *product) watched() {
	p.t.Helper()
	eventually(p.t, "the controller watches", patience, func() bool {
		seen := map[string]bool{}
		for _, action := range p.server.Actions() {
			seen[action.GetResource().Resource] = seen[action.GetResource().Resource] || action.GetVerb() == "watch"
		}
		for _, resource := range []string{"nodes", "pods", "services", "namespaces", "endpointslices", "networkpolicies"} {
			if !seen[resource] {
				return false
			}
		}
		return true
	})
}

// background runs f until the test ends.
func (c *cluster) background(f func(ctx context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = f(ctx); close(done) }()
	c.t.Cleanup(func() { stop(); <-done })
}

func (c *cluster) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (p *product) control() {
	p.t.Helper()
	lead := leader.Defaults()
	lead.Identity = "bench"
	c, err := controller.New(p.t.Context(), controller.Config{
		Plan: ipam.Defaults(), Northbound: []string{p.remote("nb")}, Leader: lead, Leases: p.server.CoordinationV1(),
		Logger: p.log(), Registerer: prometheus.NewRegistry(),
	}, apitest.Client(p.server))
	ok(p.t, err)
	p.background(c.Run)
}

// bridge makes a node's gateway bridge as the agent leaves it, and gives what the
// agent says of it.
func (p *product) bridge(n *ovsNode) (annotation string) {
	t := p.t
	t.Helper()
	n.mac = run(t, inside(n.name, "cat", "/sys/class/net/"+n.uplink+"/address")...)
	n.vsctl("add-br", gatewayBridge, "--", "set", "Bridge", gatewayBridge, "other_config:hwaddr="+n.mac, "--",
		"add-port", gatewayBridge, n.uplink, "--", "set", "Interface", n.uplink, "ofport_request=1", "--",
		"set", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings=physnet:"+gatewayBridge)
	batch(t, n.name, "addr del "+n.address+"/24 dev "+n.uplink, "link set "+gatewayBridge+" up",
		"addr add "+n.address+"/24 dev "+gatewayBridge, "route add default via "+outsideV4)
	n.ports = append(n.ports, offload.Port{Name: n.uplink, Device: offload.Device{Representor: true, HWTC: true}})
	return fmt.Sprintf(`{"default":{"mode":"shared","interface-id":"%s_%s","mac-address":"%s","ip-addresses":["%s/24"],"next-hops":["%s"]}}`,
		gatewayBridge, n.name, n.mac, n.address, outsideV4)
}

const gatewayBridge = "breth0"

// direct gives the bridge the flows of pkg/node: those that its tests say it makes,
// for this node.
func (p *product) direct(n *ovsNode) {
	t := p.t
	t.Helper()
	patch := "patch-" + gatewayBridge + "_" + n.name + "-to-br-int"
	eventually(t, "the router's port", 2*patience, func() bool {
		out, _ := try("ovs-vsctl", "-vconsole:off", "--timeout=60", "--db=unix:"+n.dir+"/db.sock", "get", "Interface", patch, "ofport")
		return out == "2" // as the flows have it
	})
	archive, err := txtar.ParseFile("../../../pkg/node/testdata/table-services.txtar")
	ok(t, err)
	flows := filepath.Join(n.dir, "flows")
	text := strings.NewReplacer("02:42:ac:12:00:02", n.mac, "172.18.0.2", n.address).Replace(string(archive.Files[1].Data))
	ok(t, os.WriteFile(flows, []byte(text), 0o600))
	run(t, "ovs-ofctl", "-O", "OpenFlow14", "--bundle", "replace-flows", n.dir+"/"+gatewayBridge+".mgmt", flows)
}

// keep ends connections, as the agents of the nodes do.
func (c *cluster) keep() {
	c.t.Helper()
	schema, err := vswitch.ReplicaSchema()
	ok(c.t, err)
	for _, n := range c.nodes {
		db, err := ovsdb.Open(c.t.Context(), ovsdb.Defaults([]string{"unix:" + n.dir + "/db.sock"}, schema))
		ok(c.t, err)
		c.t.Cleanup(db.Close)
		cfg := conntrack.Defaults()
		cfg.Share = 0 // a look takes seconds here
		cfg.Logger, cfg.Registerer = c.log(), prometheus.NewRegistry()
		c.background(conntrack.New(cfg, conntrack.Deps{Switch: n.vswitchd(), Flows: bridges{openflow.Tables{Log: c.log()}, n.dir}, DB: db}).Run)
	}
}

// bridges are those of a node; their sockets are not at the usual place.
type bridges struct {
	openflow.Tables
	dir string
}

func (b bridges) socket(bridge string) string { return filepath.Join(b.dir, bridge+".mgmt") }

func (b bridges) Dump(ctx context.Context, bridge string, flow func(string)) error {
	return b.Tables.Dump(ctx, b.socket(bridge), flow)
}

func (b bridges) Groups(ctx context.Context, bridge string, group func(string)) error {
	return b.Tables.Groups(ctx, b.socket(bridge), group)
}

func (b bridges) Bundle(ctx context.Context, bridge string, messages []string) error {
	return b.Tables.Bundle(ctx, b.socket(bridge), messages)
}

func (b bridges) Watch(ctx context.Context, bridge string, concerns func(flow string) bool, changed chan<- struct{}) {
	b.Tables.Watch(ctx, b.socket(bridge), concerns, changed)
}

// add makes a pod, and plugs it in when the controller has given it an address.
func (p *product) add(name string, n *ovsNode, vf int) {
	t := p.t
	t.Helper()
	pods := p.server.CoreV1().Pods("default")
	_, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: n.name},
	}, metav1.CreateOptions{})
	ok(t, err)
	var network *kube.PodNetwork
	eventually(t, name+" has an address", patience, func() bool {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		ok(t, err)
		network, err = kube.ParsePodNetwork(pod.Annotations[kube.PodNetworksKey], kube.DefaultNetwork)
		return err == nil && network != nil
	})
	address := network.Addresses[0]
	e := &endpoint{name: name, v4: address.Addr().String(), node: n, vf: vf}
	p.pods[name] = e
	link := n.plug(e, `external_ids:attached_mac="`+network.MAC.String()+`"`, "external_ids:ip_addresses="+address.String(), "external_ids:iface-id-ver="+name)
	batch(t, name, "link set lo up", fmt.Sprintf("link set %s name eth0 address %s mtu %s up", link, network.MAC, podMTU),
		"addr add "+address.String()+" dev eth0", "route add default via "+network.Gateways[0].String())
}
