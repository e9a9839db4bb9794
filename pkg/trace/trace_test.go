package trace

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// printed has the form of ovn-trace 25.03.
const printed = `# tcp,reg14=0x3,dl_src=0a:58:0a:f4:01:05

ingress(dp="ovn-worker", inport="shop_from")
--------------------------------------------
 0. ls_in_check_port_sec (northd.c:9456): 1, priority 50, uuid 0d1c8f7e
    reg0[15] = check_in_port_sec();
    next;
 9. ls_in_acl_eval (northd.c:7321): reg8[30..31] == 2 && (inport == @a1), priority 2001, uuid 9d6a2a44
    reg8[16] = 1;
    next;
13. ls_in_lb (northd.c:8236): ct.new && ip4.dst == 10.96.0.7 && tcp.dst == 80, priority 120, uuid aaaaaaa1
    ct_lb_mark(backends=10.244.1.6:8080,10.244.2.7:8080; force_snat);

egress(dp="ovn-worker2", inport="stor-ovn-worker2", outport="shop_to")
----------------------------------------------------------------------
 6. ls_out_acl_eval (northd.c:7321): reg8[30..31] == 2 && (outport == @a2), priority 2000, uuid 9d6a2a55
    reg8[17] = 1;
    next;
`

const hintsAnswer = `{"data":[[["uuid","9d6a2a44-0000-0000-0000-000000000001"],["map",[["source","northd.c:1"],["stage-hint","11111111"]]]],
[["uuid","9d6a2a55-0000-0000-0000-000000000001"],["map",[["stage-hint","22222222"]]]],
[["uuid","aaaaaaa1-0000-0000-0000-000000000001"],["map",[["stage-hint","33333333"]]]],
[["uuid","0d1c8f7e-0000-0000-0000-000000000001"],["map",[["source","northd.c:2"]]]]],"headings":["_uuid","external_ids"]}`

func answerACL(id, owner, action, direction string) string {
	return `{"headings":["_uuid","external_ids","action","direction","match"],"data":[[["uuid","` + id + `-0000-0000-0000-000000000000"],` +
		`["map",[["ovn-offload.io/owner","` + owner + `"]]],"` + action + `","` + direction + `","1"]]}`
}

func TestSteps_NameObjects(t *testing.T) {
	path := Parse(printed)
	if len(path.Flows) != 4 || path.Flows[0].Stage != "ls_in_check_port_sec" || path.Flows[3].Datapath != "ovn-worker2" || !path.Flows[3].Egress {
		t.Fatalf("flows %+v", path.Flows)
	}
	hints, err := Hints([]byte(hintsAnswer))
	if err != nil || len(hints) != 3 {
		t.Fatalf("hints %v, %v", hints, err)
	}
	const lb = `{"headings":["_uuid","external_ids","name"],"data":[[["uuid","33333333-0000-0000-0000-000000000000"],["map",[["ovn-offload.io/owner","Service/shop/web"]]],"lb"]]}`
	rows, err := Rows([]byte(answerACL("11111111", "NetworkPolicy/shop/out", "allow-related", "from-lport") +
		answerACL("22222222", "NetworkPolicy/shop/deny", "drop", "to-lport") + lb))
	if err != nil || len(rows) != 3 || rows["33333333"].Table != "Load_Balancer" {
		t.Fatalf("rows %v, %v", rows, err)
	}
	if none, err := Rows(nil); len(none) > 0 || err != nil { // ovn-nbctl prints nothing when it finds no row
		t.Fatalf("rows %v, %v", none, err)
	}
	rule := Row{"ACL", map[string]any{"direction": "to-lport", "action": "allow-related", "external_ids": []any{"map", []any{[]any{"direction", "Ingress"}, []any{"gress-index", "1"}}}}}
	if got := rule.What(Flow{Stage: "ls_out_acl_eval"}); got != "ingress[1]: allow-related" {
		t.Errorf("by a rule: %q", got)
	}
	steps, verdict := Steps(path, hints, rows)
	want := []Step{
		{"ovn-worker", "egress policy: allow-related", "NetworkPolicy/shop/out", "9d6a2a44"},
		{"ovn-worker", "load balancer: to one of 10.244.1.6:8080, 10.244.2.7:8080", "Service/shop/web", "aaaaaaa1"},
		{"ovn-worker2", "ingress policy: drop", "NetworkPolicy/shop/deny", "9d6a2a55"},
	}
	if got := fmt.Sprint(path.Backends()); got != "[10.244.1.6:8080 10.244.2.7:8080]" {
		t.Errorf("backends %s", got)
	}
	if verdict != Dropped || len(steps) != len(want) {
		t.Fatalf("%s: %+v", verdict, steps)
	}
	for i := range want {
		if steps[i] != want[i] {
			t.Errorf("step %d is %+v, want %+v", i, steps[i], want[i])
		}
	}
	for output, want := range map[string]Verdict{
		`    /* output to "shop_to", type "" */`: Delivered, `    /* output to "br_worker", type "localnet" */`: Leaves, `    /* output to "x", type "patch" */`: Dropped,
	} {
		if _, got := Steps(Parse(printed+output+"\n"), nil, nil); got != want {
			t.Errorf("%s: %s, want %s", output, got, want)
		}
	}
}

// TestSteps_EndWhereAPacketIsRejected: the reset comes to the pod that sent, which is no delivery.
func TestSteps_EndWhereAPacketIsRejected(t *testing.T) {
	const flow = `ingress(dp="w1", inport="shop_from")
11. ls_in_lb (northd.c:8236): ct.new && ip4.dst == 10.96.0.7, priority 120, uuid aaaaaaa1
    reg0 = 0;
    ACTION;
 6. ls_out_acl_eval (northd.c:7321): 1, priority 2000, uuid 9d6a2a55
    next;
    /* output to "shop_from", type "" */
`
	rows := map[string]Row{"33333333": {Table: "Load_Balancer"}}
	for action, want := range map[string]Verdict{"reject { outport <-> inport; next; }": Rejected, "ct_lb_mark(backends=10.244.1.6:8080)": Delivered} {
		steps, verdict := Steps(Parse(strings.Replace(flow, "ACTION", action, 1)), map[string]string{"aaaaaaa1": "33333333"}, rows)
		if verdict != want || (want == Rejected) != (len(steps) == 1) || len(steps) == 0 {
			t.Errorf("%s: %s, %+v", action, verdict, steps)
		}
	}
	// the flow that rejects what an ACL has judged has no row of its own
	rows["33333333"] = Row{Table: "ACL", Columns: map[string]any{"action": "reject"}}
	if _, verdict := Steps(Parse(strings.Replace(flow, "ACTION", "reject { next; }", 1)), nil, rows); verdict != Rejected {
		t.Errorf("%s", verdict)
	}
}

func testEnds() Ends {
	pod := func(name, node, annotation string, ips ...string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
		if annotation != "" {
			p.Annotations = map[string]string{"k8s.ovn.org/pod-networks": annotation}
		}
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		return p
	}
	near := pod("near", "n1", `{"default":{"ip_addresses":["10.244.1.6/24"],"mac_address":"0a:58:0a:f4:01:06","gateway_ips":["10.244.1.1"]}}`, "10.244.1.6")
	near.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}
	host := pod("host", "n1", "")
	host.Spec.HostNetwork = true
	return Ends{Namespace: "shop", Pods: []corev1.Pod{
		pod("from", "n1", `{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["10.244.1.1"]}}`, "10.244.1.5"),
		near, pod("far", "n2", "", "10.244.2.6"), pod("six", "n2", "", "fd00::6"), host, pod("new", "n1", ""),
	}, Services: []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.7"}, Ports: []corev1.ServicePort{{Protocol: "TCP", Port: 80}}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"None"}}},
	}}
}

// isSameAgain: the arguments of a connection lead to the same packet in any namespace.
func isSameAgain(t *testing.T, e Ends, c Connection) {
	t.Helper()
	words := append(strings.Fields(c.Asked), "--at", "")
	e.Namespace, e.At = "elsewhere", words[3]
	same, err := e.Connection(words[0], words[1])
	if err != nil || same.Microflow() != c.Microflow() || same.Switch != c.Switch || same.NodePort != c.NodePort || same.Asked != c.Asked {
		t.Errorf("%s: %v, %+v, want %+v", c.Asked, err, same, c)
	}
}

func TestEnds_FindPacket(t *testing.T) {
	for target, want := range map[string]string{
		"pod/near":               `inport == "shop_from" && eth.src == 0a:58:0a:f4:01:05 && eth.dst == 0a:58:0a:f4:01:06 && ip.ttl == 64 && ip4.src == 10.244.1.5 && ip4.dst == 10.244.1.6 && tcp.src == 40000 && tcp.dst == 8080`,
		"pod/shop/far:53/udp":    `eth.dst == 0a:58:0a:f4:01:01 && ip.ttl == 64 && ip4.src == 10.244.1.5 && ip4.dst == 10.244.2.6 && udp.src == 40000 && udp.dst == 53`,
		"pod/far/icmp":           `ip4.dst == 10.244.2.6 && icmp4.type == 8`,
		"svc/web":                `ip4.dst == 10.96.0.7 && tcp.src == 40000 && tcp.dst == 80`,
		"192.0.2.7:443":          `eth.dst == 0a:58:0a:f4:01:01 && ip.ttl == 64 && ip4.src == 10.244.1.5 && ip4.dst == 192.0.2.7 && tcp.src == 40000 && tcp.dst == 443`,
		"[::ffff:0:0]:443":       "ERROR the two ends have no address family in common",
		"pod/six:1":              "ERROR the two ends have no address family in common",
		"192.0.2.7":              "ERROR want a port",
		"192.0.2.7:443443":       "ERROR is no port",
		"svc/headless:1":         "ERROR has no cluster IP",
		"svc/none:1":             "ERROR there is no service shop/none",
		"pod/none:1":             "ERROR there is no pod shop/none",
		"deployment/web:80":      "ERROR want pod/NAME, svc/NAME, node/NAME or an address",
		"example.com:443":        "ERROR of a host name, the address that the pod gets for the name",
		"node/none:80":           "ERROR there is no node none",
		"pod/far":                "ERROR want a port",
		"192.0.2.7:80/tcp/extra": "ERROR is no port",
	} {
		c, err := testEnds().Connection("pod/from", target)
		got := c.Microflow()
		if wrong, ok := strings.CutPrefix(want, "ERROR "); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: error %v, want %q", target, err, wrong)
			}
		} else if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, %s", target, err, got)
		} else {
			isSameAgain(t, testEnds(), c)
		}
	}
	for source, want := range map[string]string{
		"pod/host": "there is no node n1", "pod/new": "has no address on the default network yet", "pod/none": "there is no pod", "svc/web": "want pod/NAME, node/NAME or outside", "node/none": "there is no node none", "outside/here": "want outside, or outside/ADDRESS",
	} {
		if _, err := testEnds().Connection(source, "192.0.2.7:1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("from %s: error %v, want %q", source, err, want)
		}
	}
}

// TestEnds_OfAPrimaryNetwork: the flows of the pod are on that network, with its addresses; no path is computed.
func TestEnds_OfAPrimaryNetwork(t *testing.T) {
	e := testEnds()
	on := func(name, key, network, address string) {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}}
		p.Annotations = map[string]string{"k8s.ovn.org/pod-networks": `{"default":{"ip_addresses":["10.244.1.9/24"],"mac_address":"0a:58:0a:f4:01:09","role":"infrastructure-locked"},"` +
			key + `":{"ip_addresses":["` + address + `/24"],"mac_address":"0a:58:0a:01:00:05","gateway_ips":["10.1.0.1"],"role":"primary","network":"` + network + `"}}`}
		e.Pods = append(e.Pods, p)
	}
	on("red-0", "shop/red", "red", "10.1.0.5")
	on("red-1", "other/red", "red", "10.1.0.6")
	on("blue-0", "shop/blue", "blue", "10.1.0.6")
	c, err := e.Connection("pod/red-0", "pod/red-1:80")
	if err != nil || c.Source.String() != "10.1.0.5" || c.Target.String() != "10.1.0.6:80" || c.From != "pod/shop/red-0" || c.To != "pod/shop/red-1" || c.Network != "red" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := c.Computable(); err == nil || !strings.Contains(err.Error(), "primary network red") {
		t.Errorf("a path on the default network is computed: %v", err)
	}
	if _, err := e.Connection("pod/red-0", "pod/blue-0:80"); err == nil || !strings.Contains(err.Error(), "pod shop/blue-0 is not on the network red") {
		t.Errorf("two networks: %v", err)
	}
	if c, err := e.Connection("pod/red-0", "svc/web"); err != nil || c.To != "svc/shop/web" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := e.Connection("pod/from", "pod/near"); err != nil || c.Computable() != nil || c.To != "pod/shop/near" {
		t.Errorf("the default network: %+v, %v", c, err)
	}
}
