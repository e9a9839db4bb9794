package ovn

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// chained are pods on the networks of a chain of three functions, n0 to n3. Network i has the subnet 10.i.0.0/24, and host h
// on it the port ns.ni_ns_NAME.
type chained struct {
	t      *testing.T
	n      *northd
	view   facts
	owners []contract.Owner
	// on are the names of pods by their addresses, and hosts the last byte of each pod's addresses.
	on    map[string]string
	hosts map[string]int
}

// chain builds a chain with the ends, and with functions by their names, which begin with the app, and hosts.
func chain(t *testing.T, failure, ends string, functions map[string]int) chained {
	t.Helper()
	w := chained{t: t, n: startNorthd(t), on: map[string]string{}, hosts: map[string]int{"left": 20, "left2": 21, "right": 20}}
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", Annotations: map[string]string{contract.NodeChassisIDKey: "chassis"}}},
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "k8s.plugin.opnfv.org/v1alpha1", "kind": contract.KindNetworkChaining,
			"metadata": map[string]any{"namespace": "ns", "name": "c", "annotations": map[string]any{contract.ChainFailureKey: failure}},
			"spec":     map[string]any{"chainType": "Routing", "routingSpec": map[string]any{"networkChain": ends}},
		}},
	}
	for i := range 4 {
		objects = append(objects, nadOf("ns", fmt.Sprint("n", i), fmt.Sprintf(
			`"name":"n%d","topology":"layer2","subnets":"10.%[1]d.0.0/24,fd00:%[1]d::/64","defaultGatewayIPs":"10.%[1]d.0.1,fd00:%[1]d::1","portSecurity":"mac"`, i)))
		w.owners = append(w.owners, contract.NetworkOwner().On(fmt.Sprint("n", i)))
	}
	pod := func(name, app string, host int, networks ...int) {
		var nads, values []string
		for _, i := range networks {
			nads = append(nads, fmt.Sprint("n", i))
			values = append(values, fmt.Sprintf(`"ns/n%d":{"ip_addresses":["10.%[1]d.0.%d/24","fd00:%[1]d::%[2]x/64"],"mac_address":"%[3]s"}`, i, host, macAt(i, host)))
			w.owners = append(w.owners, contract.PodOwner("ns", name).On(fmt.Sprint("ns/n", i)))
		}
		w.hosts[name] = host
		objects = append(objects, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid " + name), Labels: map[string]string{"app": app}, Annotations: map[string]string{
				contract.NetworksKey: strings.Join(nads, ","), contract.PodNetworksKey: "{" + strings.Join(values, ",") + "}",
			}},
			Spec:   corev1.PodSpec{NodeName: "n0"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		})
	}
	pod("left", "end", 20, 0)
	pod("left2", "end", 21, 0)
	pod("right", "end", 20, 3)
	for name, host := range functions {
		at := int(name[1] - '0')
		pod(name, name[:2], host, at, at+1)
	}
	w.owners = append(w.owners, contract.NetworkChainingOwner("ns", "c"))
	w.view = viewOf(t, objects...)
	w.n.build(isolated{view: w.view, owners: w.owners}, "")
	return w
}

func macAt(network, host int) string { return fmt.Sprintf("0a:58:0a:%02x:00:%02x", network, host) }

var outputs = regexp.MustCompile(`output to "ns\.n(\d)_ns_(\w+)"`)

// way is what a packet from one pod to an address passes: the names of pods, each with the network from which it got the
// packet. Functions forward to the right or to the left. The way ends where the packet is dropped or has arrived.
func (w chained) way(from string, network int, family contract.Family, to netip.Addr, step int) string {
	w.t.Helper()
	source, at := w.address(network, w.hosts[from], family), from
	name := map[contract.Family]string{contract.IPv4: "ip4", contract.IPv6: "ip6"}[family]
	var passed []string
	for ttl := 64; ttl > 50; ttl -= 2 {
		flow := fmt.Sprintf(`inport == "ns.n%d_ns_%s" && eth.src == %s && eth.dst == %s && %s && ip.ttl == %d && %[5]s.src == %[7]s && %[5]s.dst == %[8]s && udp`,
			network, at, macAt(network, w.hosts[at]), macAt(network, 1), name, ttl, source, to)
		found := outputs.FindStringSubmatch(w.n.run("ovn-trace", "--db="+w.n.south, fmt.Sprintf("n%d_ovn_layer2_switch", network), flow))
		if found == nil {
			return strings.Join(append(passed, "dropped"), " ")
		}
		arrived := int(found[1][0] - '0')
		at = found[2]
		passed = append(passed, fmt.Sprint(at, "@", arrived))
		if w.address(arrived, w.hosts[at], family) == to {
			return strings.Join(passed, " ")
		}
		if network = arrived + step; network == 0 && step < 0 || network == 3 && step > 0 { // the pod's kernel delivers
			return strings.Join(append(passed, "out"), " ")
		}
	}
	return strings.Join(append(passed, "loops"), " ")
}

func (w chained) address(network, host int, family contract.Family) netip.Addr {
	if family == contract.IPv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:%d::%x", network, host))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.%d.0.%d", network, host))
}

// ways are those between left and right, in both directions and families: the same in both families.
func (w chained) ways() (right, left string) {
	w.t.Helper()
	for _, family := range []contract.Family{contract.IPv4, contract.IPv6} {
		r, l := w.way("left", 0, family, w.address(3, 20, family), 1), w.way("right", 3, family, w.address(0, 20, family), -1)
		if family == contract.IPv6 && (r != right || l != left) {
			w.t.Errorf("to the right %q in IPv4, %q in IPv6; to the left %q in IPv4, %q in IPv6", right, r, left, l)
		}
		right, left = r, l
	}
	return right, left
}

const wholeChain = "n0,app=f0,net=n1,app=f1,net=n2,app=f2,net=n3"

// TestNetworkChaining_LeadsThroughItsFunctions: in northd's flows, from one function to the next in both directions. A missing
// function ends the way, or is left out where the chain is open.
func TestNetworkChaining_LeadsThroughItsFunctions(t *testing.T) {
	for name, c := range map[string]struct {
		failure     string
		functions   map[string]int
		right, left string
	}{
		"whole":       {"", map[string]int{"f0": 10, "f1": 11, "f2": 12}, "f0@0 f1@1 f2@2 out", "f2@3 f1@2 f0@1 out"},
		"closed":      {"closed", map[string]int{"f0": 10, "f2": 12}, "f0@0 dropped", "f2@3 dropped"},
		"no first":    {"closed", map[string]int{"f1": 11, "f2": 12}, "dropped", "f2@3 f1@2 dropped"},
		"open":        {"open", map[string]int{"f0": 10, "f2": 12}, "f0@0 f2@2 out", "f2@3 f0@1 out"},
		"open first":  {"open", map[string]int{"f1": 11, "f2": 12}, "f1@1 f2@2 out", "f2@3 f1@2 left@0"},
		"open last":   {"open", map[string]int{"f0": 10, "f1": 11}, "f0@0 f1@1 right@3", "f1@2 f0@1 out"},
		"open, empty": {"open", nil, "right@3", "left@0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := chain(t, c.failure, wholeChain, c.functions)
			if right, left := w.ways(); right != c.right || left != c.left {
				t.Errorf("to the right %q, want %q; to the left %q, want %q", right, c.right, left, c.left)
			}
			// Only what goes from end to end: not to a network between, and not out again where it would end.
			if got := w.way("left", 0, contract.IPv4, netip.MustParseAddr("10.1.0.10"), 1); got != "dropped" {
				t.Errorf("from the left end to a function's far side: %q", got)
			}
			if got := w.way("right", 3, contract.IPv4, netip.MustParseAddr("10.3.0.99"), 1); got != "dropped" {
				t.Errorf("a packet to the right from the right end: %q", got)
			}
		})
	}
}

// TestNetworkChaining_BothDirectionsMeetOneReplica: packets between two addresses pass the same replicas in both
// directions, and other addresses pass others.
func TestNetworkChaining_BothDirectionsMeetOneReplica(t *testing.T) {
	w := chain(t, "", wholeChain, map[string]int{"f0a": 10, "f0b": 13, "f0c": 14, "f1a": 11, "f1b": 15, "f2": 12})
	w.n.run("ovn-nbctl", "--timeout=30", "--db="+w.n.north, "--wait=sb", "lsp-set-port-security", "ns.n0_ns_left") // any address
	met := map[string]bool{}
	for host := 20; host < 28; host++ {
		w.hosts["left"] = host
		for _, family := range []contract.Family{contract.IPv4, contract.IPv6} {
			right := strings.Fields(w.way("left", 0, family, w.address(3, 20, family), 1))
			left := strings.Fields(w.way("right", 3, family, w.address(0, host, family), -1))
			if len(right) != 4 || len(left) != 4 {
				t.Fatalf("host %d: to the right %q, to the left %q", host, right, left)
			}
			slices.Reverse(left[:3])
			for i := range 3 {
				there, _, _ := strings.Cut(right[i], "@")
				back, _, _ := strings.Cut(left[i], "@")
				if there != back {
					t.Errorf("host %d: to the right %q, to the left %q", host, right, left)
				}
				met[there] = true
			}
		}
	}
	if len(met) != 6 {
		t.Errorf("replicas that get packets: %v", met)
	}
}
