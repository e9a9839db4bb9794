package ovn

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// dualStack is a cluster of both families on a real northd, of three nodes with gateways unless a test says another number.
// Node ni has the subnets 10.244.i.0/24 and fd00:10:244:i::/64, and the addresses 172.18.0.i and fc00::i.
type dualStack struct {
	*northd
	nodes int
	// pods are all pods by their names, which are those of their labels app, too.
	pods map[string]placed
	// tracer is the socket of the ovn-trace that was started last.
	tracer string
}

// placed says where a pod is: its namespace, its node and its place in the subnets of the node.
type placed struct {
	namespace  string
	node, host int
}

const (
	dualStackConfig = `cluster: 10.244.0.0/16 fd00:10:244::/48
join: 100.64.0.0/16 fd98::/64
masquerade: 169.254.0.0/17 fd69::/112
services: 10.96.0.0/16 fd00:10:96::/112
`
	nodeYAML = `---
kind: Node
apiVersion: v1
metadata:
  name: n%[1]d
  annotations:
    k8s.ovn.org/node-subnets: '{"default":["10.244.%[1]d.0/24","fd00:10:244:%[1]d::/64"]}'
    k8s.ovn.org/node-id: "1%[1]d"
    k8s.ovn.org/node-chassis-id: chassis-%[1]d
    k8s.ovn.org/host-cidrs: '["172.18.0.%[1]d/16","fc00::%[1]d/64"]'
    k8s.ovn.org/l3-gateway-config: '{"default":{"mode":"shared","interface-id":"breth0_n%[1]d","mac-address":"02:42:ac:12:00:0%[1]d","ip-addresses":["172.18.0.%[1]d/16","fc00::%[1]d/64"],"next-hops":["172.18.0.254","fc00::fe"]}}'
status: {addresses: [{type: InternalIP, address: "172.18.0.%[1]d"}, {type: InternalIP, address: "fc00::%[1]d"}]}
`
	podYAML = `---
kind: Pod
apiVersion: v1
metadata:
  namespace: %[1]s
  name: %[2]s
  uid: uid-%[2]s
  labels: {app: %[2]s}
  annotations:
    k8s.ovn.org/pod-networks: '{"default":{"ip_addresses":["10.244.%[3]d.%[4]d/24","fd00:10:244:%[3]d::%[4]x/64"],"mac_address":"0a:58:0a:f4:%02[3]x:%02[4]x"}}'
spec: {nodeName: n%[3]d, containers: [{name: c, image: i, ports: [{name: web, containerPort: 8080}]}]}
`
)

// families are both, with the name that a match has for each.
func families() map[contract.Family]string {
	return map[contract.Family]string{contract.IPv4: "ip4", contract.IPv6: "ip6"}
}

// startDualStack has pods NAMESPACE/NAME by the number of their node.
func startDualStack(t *testing.T, pods ...string) *dualStack {
	t.Helper()
	d := &dualStack{northd: startNorthd(t), nodes: 3, pods: map[string]placed{}}
	for i, text := range pods {
		at := placed{host: 10 + i}
		at.namespace, text, _ = strings.Cut(text, "/")
		name, node, _ := strings.Cut(text, "@n")
		at.node = int(node[0] - '0')
		d.pods[name] = at
	}
	return d
}

// rows are those of all owners of the cluster with further objects.
func (d *dualStack) rows(objects string) (all []ovsdb.Row) {
	d.t.Helper()
	var text strings.Builder
	for i := range d.nodes {
		fmt.Fprintf(&text, nodeYAML, i+1)
	}
	namespaces := map[string]bool{}
	for name, at := range d.pods {
		fmt.Fprintf(&text, podYAML, at.namespace, name, at.node, at.host)
		if !namespaces[at.namespace] {
			fmt.Fprintf(&text, "---\nkind: Namespace\napiVersion: v1\nmetadata: {name: %s, labels: {name: %[1]s}}\n", at.namespace)
		}
		namespaces[at.namespace] = true
	}
	view := readObjects(d.t, text.String()+objects)
	network := readConfig(d.t, dualStackConfig, &view.zone)
	for _, kind := range Kinds() {
		for _, owner := range kind.Owners(view) {
			rows, err := Build(view, network, owner)
			if err != nil {
				d.t.Fatalf("%s: %v", owner, err)
			}
			all = append(all, rows...)
		}
	}
	return d.understood(all)
}

// understood leaves out rows that would mean something else to a northd that does not know a column. Without tiers, the rule
// with the highest priority decides, as it does with tiers while no policy is for the whole cluster.
func (d *dualStack) understood(rows []ovsdb.Row) []ovsdb.Row {
	known := columnsOfNorthd(d.t)
	_, tiers := known[nb.ACLTable]["tier"]
	_, matches := known[nb.NATTable]["match"]
	return slices.DeleteFunc(rows, func(row ovsdb.Row) bool {
		switch model := row.Model.(type) {
		case *nb.ACL:
			return !tiers && model.Action == nb.ACLActionPass
		case *nb.NAT:
			return !matches && model.Match != ""
		}
		return false
	})
}

// meetNextHops gives gateway routers the MAC addresses of their next hops, which they would ask for.
func (d *dualStack) meetNextHops() {
	d.t.Helper()
	var all []ovsdb.Row
	for i := range d.nodes {
		for _, hop := range []string{"172.18.0.254", "fc00::fe"} {
			all = append(all, neighbor(fmt.Sprint("rtoe-GR_n", i+1), hop, "02:42:ac:12:00:fe"))
		}
		for _, router := range []string{"100.64.0.1", "fd98::1"} {
			all = append(all, neighbor(fmt.Sprint("rtoj-GR_n", i+1), router, "0a:58:64:40:00:01"))
		}
	}
	d.learn(all)
}

func (d *dualStack) address(pod string, family contract.Family) netip.Addr {
	at := d.pods[pod]
	if family == contract.IPv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:244:%d::%x", at.node, at.host))
	}
	return netip.AddrFrom4([4]byte{10, 244, byte(at.node), byte(at.host)})
}

func (d *dualStack) mac(pod string) string {
	return contract.MACFromAddress(d.address(pod, contract.IPv4)).String()
}

func (d *dualStack) port(pod string) string { return d.pods[pod].namespace + "_" + pod }

// traceOut is the way of the first packet of a pod's connection to what is not on the switch of its node.
func (d *dualStack) traceOut(from, protocol string, target netip.AddrPort) string {
	d.t.Helper()
	return d.tracePacket(from, protocol, fmt.Sprintf("0a:58:0a:f4:%02x:01", d.pods[from].node), target)
}

// tracePod is that to another pod.
func (d *dualStack) tracePod(from, to, protocol string, target netip.AddrPort) string {
	d.t.Helper()
	if d.pods[from].node == d.pods[to].node {
		return d.tracePacket(from, protocol, d.mac(to), target)
	}
	return d.traceOut(from, protocol, target)
}

func (d *dualStack) tracePacket(from, protocol, hop string, target netip.AddrPort) string {
	d.t.Helper()
	family := contract.FamilyOf(target.Addr())
	flow := fmt.Sprintf("inport == %q && eth.src == %s && eth.dst == %s && ip.ttl == 64 && %[4]s.src == %[5]s && %[4]s.dst == %[6]s && %[7]s.src == 40000 && %[7]s.dst == %[8]d",
		d.port(from), d.mac(from), hop, families()[family], d.address(from, family), target.Addr(), protocol, target.Port())
	return d.traceFlow(fmt.Sprint("n", d.pods[from].node), flow)
}

// startTracer runs an ovn-trace that reads the flows as they are now: reading them takes most of the time of a trace.
func (d *dualStack) startTracer() {
	d.t.Helper()
	socket := filepath.Join(d.t.TempDir(), "trace")
	args := []string{"--db=" + d.south, "--detach", "--no-chdir", "--unixctl=" + socket, "-vconsole:off"}
	for range 10000 { // for each time that conntrack is asked, by all traces: each is of the first packet of a connection
		args = append(args, "--ct=new")
	}
	d.run("ovn-trace", args...)
	d.t.Cleanup(func() { d.run("ovs-appctl", "-t", socket, "exit") })
	d.tracer = socket
}

func (d *dualStack) traceFlow(sw, flow string) string {
	d.t.Helper()
	return d.run("ovs-appctl", "-t", d.tracer, "trace", sw, flow)
}

// reaches says that a traced packet leaves by a port.
func reaches(trace, port string) bool { return arrives(trace, end{port: port}) }
