package trace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostsEnds has the nodes n1 and n2, pods with the network of n1 and with a host port there, and services.
func hostsEnds() Ends {
	e := testEnds()
	node := func(i int) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Annotations: map[string]string{
			"k8s.ovn.org/node-subnets":    fmt.Sprintf(`{"default":["10.244.%d.0/24","fd00:%d::/64"]}`, i, i),
			"k8s.ovn.org/node-chassis-id": fmt.Sprint("c", i),
			"k8s.ovn.org/host-cidrs":      fmt.Sprintf(`["172.18.0.%d/16","198.18.0.%d/24","fc00::%d/64"]`, i, i, i),
			"k8s.ovn.org/l3-gateway-config": fmt.Sprintf(`{"default":{"mode":"shared","interface-id":"breth0_n%d","mac-address":"02:42:ac:12:00:0%d",`+
				`"ip-addresses":["172.18.0.%d/16","fc00::%d/64"]}}`, i, i, i, i),
		}}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.Name}, {Type: corev1.NodeInternalIP, Address: fmt.Sprint("172.18.0.", i)}}
		return n
	}
	e.Nodes = []corev1.Node{node(1), node(2)}
	published := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "published"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	published.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8888}}}}
	published.Status.PodIPs = []corev1.PodIP{{IP: "10.244.1.9"}}
	e.Pods = append(e.Pods, published)
	service := func(name, ip string, nodePort int32, change func(*corev1.Service)) {
		svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Protocol: "TCP", Port: 80, NodePort: nodePort}},
		}}
		if change != nil {
			change(&svc)
		}
		e.Services = append(e.Services, svc)
	}
	service("port", "10.96.0.8", 30080, nil)
	service("six", "fd00:96::8", 30083, nil)
	service("local", "10.96.0.9", 30081, func(svc *corev1.Service) {
		svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}
	})
	service("limited", "10.96.0.10", 30082, func(svc *corev1.Service) {
		svc.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.10"}}
	})
	return e
}

// TestEnds_OfHosts finds where the packets of a node and of a client outside enter OVN, and says what OVN does not see.
func TestEnds_OfHosts(t *testing.T) {
	management := func(dst string) string {
		return `on n1: inport == "k8s-n1" && eth.src == 0a:58:0a:f4:01:02 && eth.dst == ` + dst
	}
	for ends, want := range map[string]string{
		"node/n1 pod/near":                  management(`0a:58:0a:f4:01:06 && ip.ttl == 64 && ip4.src == 10.244.1.2 && ip4.dst == 10.244.1.6 && tcp.src == 40000 && tcp.dst == 8080`),
		"node/n1 pod/far:53/udp":            management(`0a:58:0a:f4:01:01 && ip.ttl == 64 && ip4.src == 10.244.1.2 && ip4.dst == 10.244.2.6 && udp.src == 40000 && udp.dst == 53`),
		"pod/host pod/far/icmp":             management(`0a:58:0a:f4:01:01 && ip.ttl == 64 && ip4.src == 10.244.1.2 && ip4.dst == 10.244.2.6 && icmp4.type == 8`),
		"node/n1 172.18.0.1:8888":           `ip4.dst == 10.244.1.9 && tcp.src == 40000 && tcp.dst == 80`,
		"node/n1 svc/web":                   `on ext_n1: inport == "breth0_n1"`,
		"node/n1 node/n1:30080":             `ip4.dst == 10.96.0.8 && tcp.src == 40000 && tcp.dst == 80`,
		"node/n1 203.0.113.9:80":            `ip4.dst == 10.96.0.9 && tcp.src == 40000 && tcp.dst == 80`,
		"node/n1 node/n2:30080":             `on ext_n2: inport == "breth0_n2" && eth.src == 0a:58:ac:12:00:01 && eth.dst == 02:42:ac:12:00:02 && ip.ttl == 64 && ip4.src == 172.18.0.1 && ip4.dst == 172.18.0.2 && tcp.src == 40000 && tcp.dst == 30080`,
		"outside node/n2:30080":             `on ext_n2: inport == "breth0_n2" && eth.src == 0a:58:c0:00:02:01 && eth.dst == 02:42:ac:12:00:02 && ip.ttl == 64 && ip4.src == 192.0.2.1 && ip4.dst == 172.18.0.2 && tcp.src == 40000 && tcp.dst == 30080`,
		"outside/198.51.100.7 svc/port @n1": `ip4.src == 198.51.100.7 && ip4.dst == 172.18.0.1 && tcp.src == 40000 && tcp.dst == 30080`,
		"outside svc/local @n2":             `on ext_n2: inport == "breth0_n2" && eth.src == 0a:58:c0:00:02:01 && eth.dst == 02:42:ac:12:00:02 && ip.ttl == 64 && ip4.src == 192.0.2.1 && ip4.dst == 203.0.113.9 && tcp.src == 40000 && tcp.dst == 80`,
		"outside 203.0.113.9:80 @n2":        `ip4.src == 192.0.2.1 && ip4.dst == 203.0.113.9 && tcp.src == 40000 && tcp.dst == 80`,
		"outside svc/local":                 "ERROR want --at NODE",
		"outside svc/web @n1":               "ERROR service shop/web has no address for clients outside, and no node port of port 80",
		"outside svc/local @n3":             "ERROR there is no node n3",
		"outside pod/far:80":                "ERROR drops what comes from outside for the address 10.244.2.6 of a pod",
		"outside 203.0.113.77:80 @n1":       "ERROR no node and no service answers clients outside at 203.0.113.77 port 80",
		"outside/2001:db8::7 svc/port @n1":  "ERROR no address family in common",
		"node/n1 192.0.2.7:443":             "ERROR node/n1 sends to 192.0.2.7 by the physical network: OVN does not see it",
		"node/n1 node/n2:22":                "ERROR OVN does not see it",
		"node/n1 node/n1:22":                "ERROR node/n1 keeps what it sends to its own address 172.18.0.1",
		"node/n1 svc/web @n1":               "ERROR --at is for clients outside",
	} {
		e := hostsEnds()
		words := strings.Fields(ends)
		if len(words) == 3 {
			e.At = strings.TrimPrefix(words[2], "@")
		}
		c, err := e.Connection(words[0], words[1])
		got := "on " + c.Switch + ": "
		if c.Source.IsValid() {
			got += c.Microflow()
		} else { // that of a process for a service is in the database
			got += fmt.Sprintf("inport == %q ip4.dst == %s && tcp.src == 40000 && tcp.dst == %d", c.Port, c.Target.Addr(), c.Target.Port())
		}
		if wrong, ok := strings.CutPrefix(want, "ERROR "); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: error %v, want %q", ends, err, wrong)
			}
		} else if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, %s", ends, err, got)
		} else {
			isSameAgain(t, e, c)
		}
	}
}

// atN1 is what the Northbound database says about n1: the service port has an endpoint that is a pod and one that is the node,
// local has one on n1, and only-n2 none there.
const atN1 = `{"headings":["name","mac","networks"],"data":[["rtoj-GR_n1","0a:58:64:40:00:02",["set",["100.64.0.2/16","fd98::2/64"]]]]}
{"headings":["name","mac","networks"],"data":[["rtoj-ovn_cluster_router","0a:58:64:40:00:01","100.64.0.1/16"]]}
{"headings":["ip"],"data":[["169.254.0.4"],["fd69::4"]]}
{"headings":["variables"],"data":[[["map",[["NODEIP_IPv4_0","172.18.0.1"],["ROUTER_ALL.x","169.254.0.2:6443"],["LOCAL.x","10.244.1.6:8080"]]]]]}
{"headings":["name","external_ids","protocol","vips","options"],"data":[[NAME,["map",[["ovn-offload.io/owner","Service/shop/x"]]],"tcp",["map",[[KEY,VALUE]]],["map",[["template","true"],["skip_snat",KEEP]]]]]}`

// TestCompute_AtTheEntry does what ovn-trace cannot: it knows the values that load balancers have on a node. ovn-trace is asked for
// the packet behind them.
func TestCompute_AtTheEntry(t *testing.T) {
	const routers, switches, node = "Service_shop/x_TCP_node_router_template_IPv4", "Service_shop/x_TCP_node_switch_template_IPv4", "^NODEIP_IPv4_0:30080"
	for name, c := range map[string]struct {
		ends, lb, key, value, keep string
		asked                      string // ovn-trace; "": it is not
		steps                      []string
		verdict                    Verdict
	}{
		"a node asks for a service": {
			"node/n1 svc/port", routers, "10.96.0.8:443", "none", "false", `inport == "breth0_n1" && eth.src == 0a:58:a9:fe:00:04 && eth.dst == 02:42:ac:12:00:01 && ip.ttl == 64 && ip4.src == 169.254.0.2 && ip4.dst == 10.96.0.8`,
			[]string{"gateway bridge breth0: to the gateway router, from 169.254.0.2"}, Dropped,
		},
		"a pod with the network of the node asks": {
			"pod/host svc/port", routers, "10.96.0.8:443", "none", "false", `ip4.src == 169.254.0.2 && ip4.dst == 10.96.0.8`,
			[]string{"has the network of its node", "gateway bridge breth0: to the gateway router, from 169.254.0.2"}, Dropped,
		},
		"the node is the endpoint": {
			"node/n1 svc/port", routers, "10.96.0.8:80", "^ROUTER_ALL.x", "false", "",
			[]string{"gateway bridge breth0", "load balancer: to 169.254.0.2:6443", "gateway bridge: to a process of the node"}, Delivered,
		},
		"its own node port": {
			"node/n1 node/n1:30080", routers, "10.96.0.8:80", "^LOCAL.x", "false",
			`inport == "jtor-GR_n1" && eth.src == 0a:58:64:40:00:02 && eth.dst == 0a:58:64:40:00:01 && ip.ttl == 64 && ip4.src == 100.64.0.2 && ip4.dst == 10.244.1.6 && tcp.src == 40000 && tcp.dst == 8080`,
			[]string{"nftables table ovn-offload: to 10.96.0.8:80", "from 169.254.0.6", "load balancer: to 10.244.1.6:8080", "SNAT to 100.64.0.2"}, Dropped,
		},
		"its own node port with policy Local": {
			"node/n1 node/n1:30081", routers, "^NODEIP_IPv4_0:30081", "^LOCAL.x", "true", `ip4.src == 169.254.0.6 && ip4.dst == 10.96.0.9 && tcp.src == 40000 && tcp.dst == 80`,
			[]string{"nftables table ovn-offload: to 10.96.0.9:80", "from 169.254.0.6"}, Dropped,
		},
		"the same without an endpoint here": {
			"node/n1 node/n1:30081", routers, "^NODEIP_IPv4_0:30081", "^LOCAL.y", "true", `ip4.src == 169.254.0.9 && ip4.dst == 169.254.0.8 && tcp.src == 40000 && tcp.dst == 30081`,
			[]string{"nftables table ovn-offload: to 10.96.0.9:80", "from 169.254.0.9"}, Dropped,
		},
		"a client outside": {
			"outside node/n1:30080", routers, node, "10.244.2.6:8080,10.244.1.6:8080", "false", `inport == "jtor-GR_n1" && eth.src == 0a:58:64:40:00:02 && eth.dst == 0a:58:64:40:00:01 && ip.ttl == 64 && ip4.src == 100.64.0.2 && ip4.dst == 10.244.2.6`,
			[]string{"gateway bridge breth0: from the uplink, of 192.0.2.1", "load balancer: to one of 10.244.2.6:8080, 10.244.1.6:8080", "SNAT to 100.64.0.2"}, Dropped,
		},
		"a client outside keeps its address": {
			"outside node/n1:30080", routers, node, "^LOCAL.x", "true", `inport == "breth0_n1" && eth.src == 0a:58:c0:00:02:01 && eth.dst == 02:42:ac:12:00:01 && ip.ttl == 64 && ip4.src == 192.0.2.1 && ip4.dst == 10.244.1.6`,
			[]string{"from the uplink", "load balancer: to 10.244.1.6:8080"}, Dropped,
		},
		"a node port without an endpoint": {
			"outside node/n1:30080", routers, node, "", "true", "", []string{"from the uplink", "load balancer: no endpoint"}, Rejected,
		},
		"a node port without an endpoint here": {
			"outside node/n1:30080", routers, node, "^LOCAL.y", "true", `ip4.src == 192.0.2.1 && ip4.dst == 172.18.0.1`, []string{"from the uplink", "load balancer: no endpoint on this node"}, Dropped,
		},
		"a port of the node itself": {
			"outside node/n1:22", switches, "^NODEIP_IPv4_0:22", "10.244.1.6:8080", "false", "", []string{"from the uplink", "no service has the port: the node itself gets the packet"}, Delivered,
		},
		"a service of IPv6": {
			"node/n1 svc/six", routers, "^ADDRESS.fd00_0096_0000_0000_0000_0000_0000_0008:80", "[fd00:2::9]:8080", "false",
			`inport == "jtor-GR_n1" && eth.src == 0a:58:64:40:00:02 && eth.dst == 0a:58:64:40:00:01 && ip.ttl == 64 && ip6.src == fd98::2 && ip6.dst == fd00:2::9 && tcp.src == 40000 && tcp.dst == 8080`,
			[]string{"to the gateway router, from fd69::2", "load balancer: to [fd00:2::9]:8080", "SNAT to fd98::2"}, Dropped,
		},
		"a ping from outside":           {"outside node/n1/icmp", routers, node, "", "false", "", []string{"gateway bridge: so the node itself gets the packet"}, Delivered},
		"a client that may not ask":     {"outside 203.0.113.10:80 n1", routers, node, "", "false", "", []string{"gateway bridge: drop, loadBalancerSourceRanges do not have 192.0.2.1"}, Dropped},
		"a pod at a node port":          {"pod/from node/n1:30080", switches, node, "10.244.2.6:8080", "false", `inport == "shop_from" && eth.src == 0a:58:0a:f4:01:05 && eth.dst == 0a:58:0a:f4:01:01 && ip.ttl == 64 && ip4.src == 10.244.1.5 && ip4.dst == 10.244.2.6`, []string{"load balancer: to 10.244.2.6:8080"}, Dropped},
		"a pod at one of another node":  {"pod/from node/n2:30080", switches, node, "10.244.2.6:8080", "false", `ip4.src == 10.244.1.5 && ip4.dst == 172.18.0.2`, nil, Dropped},
		"a pod at one of routers alone": {"pod/from node/n1:30080", routers, node, "10.244.2.6:8080", "false", `ip4.src == 10.244.1.5 && ip4.dst == 172.18.0.1`, nil, Dropped},
	} {
		e := hostsEnds()
		words := strings.Fields(c.ends)
		if len(words) == 3 {
			e.At = words[2]
		}
		connection, err := e.Connection(words[0], words[1])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		asked := ""
		run := func(_ context.Context, _ string, command []string) ([]byte, error) {
			if command[1] != "--no-leader-only" {
				t.Errorf("%s: a member that does not lead would not answer %q", name, command)
			}
			switch {
			case command[0] == "ovn-trace":
				asked = command[len(command)-1]
				return []byte("ingress(dp=\"x\")\n 0. ls_in_x (northd.c:1): 1, priority 50, uuid 0d1c8f7e\n"), nil
			case slices.Contains(command, "Chassis_Template_Var"):
				return []byte(strings.NewReplacer("NAME", fmt.Sprintf("%q", c.lb), "KEY", fmt.Sprintf("%q", c.key), "VALUE", fmt.Sprintf("%q", c.value), "KEEP", fmt.Sprintf("%q", c.keep)).Replace(atN1)), nil
			}
			return nil, nil
		}
		got, err := Compute(t.Context(), run, connection)
		if err != nil || got.Verdict != c.verdict || !strings.Contains(asked, c.asked) || (asked == "") != (c.asked == "") || len(got.Steps) != len(c.steps) {
			t.Errorf("%s: %v, %+v\nasked %q\nwant  %q", name, err, got, asked, c.asked)
			continue
		}
		for i, want := range c.steps {
			if !strings.Contains(got.Steps[i].What, want) {
				t.Errorf("%s: step %d is %q, want %q", name, i+1, got.Steps[i].What, want)
			}
		}
	}
}
