package ovn

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// northd is a real ovn-northd with its databases.
type northd struct {
	t            *testing.T
	north, south string
}

func startNorthd(t *testing.T) *northd {
	t.Helper()
	ovsdbtest.Need(t, "ovn-northd", "ovn-nbctl", "ovn-trace")
	var endpoints []string
	for _, schema := range []string{"ovn-nb", "ovn-sb"} {
		text, err := os.ReadFile(filepath.Join("/usr/share/ovn", schema+".ovsschema")) // of the northd that runs
		if err != nil {
			t.Skip(err)
		}
		endpoints = append(endpoints, ovsdbtest.Start(t, text).Endpoint())
	}
	n := &northd{t: t, north: endpoints[0], south: endpoints[1]}
	process := exec.Command("ovn-northd", "--ovnnb-db="+n.north, "--ovnsb-db="+n.south, "--no-chdir", "--unixctl="+filepath.Join(t.TempDir(), "ctl"), "-vconsole:off")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { process.Process.Kill(); process.Wait() })
	n.run("ovn-nbctl", "--timeout=30", "--db="+n.north, "--wait=sb", "init")
	return n
}

func (n *northd) run(name string, args ...string) string {
	n.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// build writes all rows, and others, but those whose ids end with a text, and waits for their flows.
func (n *northd) build(w isolated, without string, others ...ovsdb.Row) {
	n.t.Helper()
	all := []ovsdb.Row{{Model: &nb.PortGroup{Name: contract.LocalnetsGroup}}} // of the default network
	for _, owner := range w.owners {
		rows, err := Build(w.view, w.view.networkOf(contract.Network{}, owner), owner)
		if err != nil {
			n.t.Fatalf("%s: %v", owner, err)
		}
		all = append(all, rows...)
	}
	n.write(slices.DeleteFunc(append(all, others...), func(row ovsdb.Row) bool { return without != "" && strings.HasSuffix(row.ID, without) }))
}

// end is a pod's port on the network.
type end struct {
	port, mac, ip string
}

// trace is what a TCP packet from one port to another goes through; ct are the states of its connection in turn.
func (n *northd) trace(sw string, from, to end, ct ...string) string {
	n.t.Helper()
	flow := fmt.Sprintf(`inport == "%s" && eth.src == %s && eth.dst == %s && ip4 && ip.ttl == 64 && ip4.src == %s && ip4.dst == %s && tcp && tcp.src == 4000 && tcp.dst == 80`,
		from.port, from.mac, to.mac, from.ip, to.ip)
	args := []string{"--db=" + n.south}
	for _, state := range ct {
		args = append(args, "--ct="+state)
	}
	return n.run("ovn-trace", append(args, sw, flow)...)
}

// arrives says that a traced packet leaves by a port.
func arrives(trace string, to end) bool { return strings.Contains(trace, `/* output to "`+to.port+`"`) }

// committed says that the source's or the destination's part of a traced packet's way commits its connection.
func committed(trace string, atSource bool) bool {
	source, destination, _ := strings.Cut(trace, "\negress(")
	if atSource {
		return strings.Contains(source, "ct_commit")
	}
	return strings.Contains(destination, "ct_commit")
}

// isolated are pods ns/a and ns/b on a network, and a policy that denies one direction of ns/a.
type isolated struct {
	view   facts
	owners []contract.Owner
	a, b   end
}

func isolate(t *testing.T, topology string, direction networkingv1.PolicyType) isolated {
	deny := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "deny"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, PolicyTypes: []networkingv1.PolicyType{direction},
	}}
	objects := []runtime.Object{
		nadOf("ns", "net", fmt.Sprintf(`"name":"tenant","topology":"%s","subnets":"10.7.0.0/24"`, topology)), multiOf(t, deny, "net"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", Annotations: map[string]string{contract.NodeChassisIDKey: "chassis"}}},
	}
	w := isolated{owners: []contract.Owner{contract.NetworkOwner().On("tenant"), contract.MultiNetworkPolicyOwner("ns", "deny").On("tenant")}}
	for i, e := range []*end{&w.a, &w.b} {
		name := string(rune('a' + i))
		*e = end{"ns.net_ns_" + name, fmt.Sprintf("0a:58:0a:07:00:0%d", i+1), fmt.Sprintf("10.7.0.%d", i+1)}
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: "uid", Labels: map[string]string{"app": name}, Annotations: map[string]string{
				contract.NetworksKey:    "net",
				contract.PodNetworksKey: fmt.Sprintf(`{"ns/net":{"ip_addresses":["%s/24"],"mac_address":"%s"}}`, e.ip, e.mac),
			},
		}, Spec: corev1.PodSpec{NodeName: "n0"}})
		w.owners = append(w.owners, contract.PodOwner("ns", name).On("ns/net"))
	}
	w.view = viewOf(t, objects...)
	return w
}

// TestMultiNetworkPolicy_RepliesPassDenyOfOneDirection: in northd's flows, a pod whose ingress alone is denied calls out
// and gets its replies, one whose egress alone is denied answers its clients, and new connections of the denied direction
// are dropped. Without the rule for the other direction the replies are dropped.
func TestMultiNetworkPolicy_RepliesPassDenyOfOneDirection(t *testing.T) {
	for _, topology := range []string{"layer2", "localnet"} {
		for _, direction := range []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress} {
			t.Run(fmt.Sprint(topology, " ", direction), func(t *testing.T) {
				n, w := startNorthd(t), isolate(t, topology, direction)
				sw := w.view.Network("tenant").PodSwitch("n0")
				from, to := w.a, w.b // of connections that the policy does not deny
				if direction == networkingv1.PolicyTypeEgress {
					from, to = to, from
				}
				n.build(w, "")
				if trace := n.trace(sw, from, to, "new", "new"); !arrives(trace, to) || !committed(trace, from == w.a) {
					t.Errorf("a connection of the other direction is dropped, or not committed:\n%s", trace)
				}
				if trace := n.trace(sw, to, from, "est,rpl", "est,rpl"); !arrives(trace, from) {
					t.Errorf("its reply is dropped:\n%s", trace)
				}
				if trace := n.trace(sw, to, from, "new", "new"); arrives(trace, from) {
					t.Errorf("a connection of the denied direction arrives:\n%s", trace)
				}
				n = startNorthd(t)
				n.build(w, "/rest")
				if trace := n.trace(sw, to, from, "est,rpl", "est,rpl"); arrives(trace, from) {
					t.Errorf("the reply arrives without the rule for the other direction, so this test shows nothing:\n%s", trace)
				}
			})
		}
	}
}

// TestLocalnet_ForgedGeneveIsDropped: in northd's flows, a pod's Geneve to a node does not leave for the physical network,
// in one packet or in fragments. Other UDP and Geneve to other hosts leave, and without the rule all does.
func TestLocalnet_ForgedGeneveIsDropped(t *testing.T) {
	const node, host, rule = "172.18.0.2", "172.18.0.9", "localnets/ip4"
	w := isolate(t, "localnet", networkingv1.PolicyTypeIngress)
	sw, outer := w.view.Network("tenant").PodSwitch("n0"), end{port: w.view.Network("tenant").LocalnetPort()}
	for _, without := range []string{"", rule} {
		n := startNorthd(t)
		n.build(w, without, dropOnLocalnets(contract.IPv4, []string{"192.0.2.7", node}))
		for packet, leaves := range map[string]bool{
			"ip4.dst == " + node + " && udp && udp.dst == 6081 && ip.frag == 0": without != "",
			"ip4.dst == " + node + " && ip.proto == 17 && ip.frag == 1":         without != "",
			"ip4.dst == " + node + " && udp && udp.dst == 9 && ip.frag == 0":    true,
			"ip4.dst == " + node + " && tcp && tcp.dst == 6081 && ip.frag == 0": true,
			"ip4.dst == " + host + " && udp && udp.dst == 6081 && ip.frag == 0": true,
			"ip4.dst == " + host + " && ip.proto == 17 && ip.frag == 1":         true,
		} {
			flow := fmt.Sprintf(`inport == %q && eth.src == %s && eth.dst == 02:42:ac:12:00:02 && ip4 && ip.ttl == 64 && ip4.src == %s && %s`, w.b.port, w.b.mac, w.b.ip, packet)
			if trace := n.run("ovn-trace", "--db="+n.south, "--ct=new", "--ct=new", sw, flow); arrives(trace, outer) != leaves {
				t.Errorf("without %q, %s leaves: %t, want %t:\n%s", without, packet, !leaves, leaves, trace)
			}
		}
	}
}
