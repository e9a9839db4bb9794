//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// The networks of a chain of three functions have the subnets 10.144.0 to 10.147.0.
const chainRouters = "10.144.0.1 10.145.0.1 10.146.0.1 10.147.0.1"

// chaining is a chain in the form of Nodus' sample.
func chaining(ns string) string {
	return fmt.Sprintf(`
apiVersion: k8s.plugin.opnfv.org/v1alpha1
kind: NetworkChaining
metadata: {namespace: %[1]s, name: example-networkchaining}
spec:
  chainType: "Routing"
  routingSpec:
    namespace: %[1]s
    networkChain: "app=slb,net=dync-net1,app=ngfw,net=dync-net2,app=sdewan"
    left:
    - networkName: "left-pnetwork"
      gatewayIp: "10.144.0.2"
      subnet: "10.144.0.0/24"
      podSelector: {matchLabels: {app: client}}
    right:
    - networkName: "right-pnetwork"
      gatewayIp: "10.147.0.2"
      subnet: "10.147.0.0/24"
      podSelector: {matchLabels: {app: server}}
`, ns)
}

// chainNetworks are the networks of the chain, from left to right.
func chainNetworks() []string {
	return []string{"left-pnetwork", "dync-net1", "dync-net2", "right-pnetwork"}
}

// onChain is a pod with an interface and the address 10.(144+i).0.HOST on each of some networks of the chain.
func onChain(ns, name, node string, host string, networks ...int) wish {
	var interfaces []string
	for _, i := range networks {
		var addresses []string
		for part := range strings.FieldsSeq(host) {
			addresses = append(addresses, fmt.Sprintf("10.%d.0.%s", 144+i, part))
		}
		interfaces = append(interfaces, fmt.Sprintf(`{"name": %q, "interface": "net%d", "ipAddress": %q, "defaultGateway": "false"}`,
			chainNetworks()[i], i, strings.Join(addresses, ",")))
	}
	return wish{ns, name, node, `{"type": "ovn4nfv", "interface": [` + strings.Join(interfaces, ", ") + "]}"}
}

// function makes a pod that forwards, with the label app.
func function(t *testing.T, w wish, app string) {
	t.Helper()
	pod := w.forwarding()
	pod.Labels["app"] = app
	world.Create(t, pod)
}

func waitChain(t *testing.T, ns, want string) {
	t.Helper()
	world.Eventually(t, world.PodWithin, "the chain to be "+want, func() (bool, string) {
		out, err := kubectl(t, "", "-n", ns, "get", "networkchainings.k8s.plugin.opnfv.org", "example-networkchaining", "-o", "jsonpath={.status.state} {.status.message}")
		return err == nil && strings.TrimSpace(out) == want, out
	})
}

var hopAddress = regexp.MustCompile(`From ([0-9.]+).*Time to live exceeded`)

// maxHops is one more than the routers and functions of the chain.
const maxHops = 7

// hops are what a packet from a pod to an address passes, by the TTLs of pings: functions, by the addresses that they have on
// the network from which the packet comes, and the router of the chain as "r". What does not tell is "*": OVN's router takes
// no packets from its own addresses, so its errors from far networks do not pass it. The last is the TTL of the answer.
func hops(t *testing.T, from *corev1.Pod, source, to string) string {
	t.Helper()
	var list []string
	for ttl := 1; ttl <= maxHops; ttl++ {
		out, err := world.InPod(from.Namespace, from.Name, "ping", "-n", "-c1", "-w2", "-I", source, "-t", fmt.Sprint(ttl), to)
		if _, rest, ok := strings.Cut(out, " ttl="); ok && err == nil {
			return strings.Join(append(list, strings.Fields(rest)[0]), " ")
		}
		hop := hopAddress.FindStringSubmatch(out)
		switch {
		case hop == nil:
			list = append(list, "*")
		case slices.Contains(strings.Fields(chainRouters), hop[1]):
			list = append(list, "r")
		default:
			list = append(list, hop[1])
		}
	}
	return strings.Join(list, " ")
}

func wantHops(t *testing.T, from *corev1.Pod, source, to, want string) {
	t.Helper()
	world.Eventually(t, world.PodWithin, from.Name+" to find "+to+" by "+want, func() (bool, string) {
		got := hops(t, from, source, to)
		return got == want, got
	})
}

// replicaOf is the function that the second hop shows.
func replicaOf(way string) string {
	if fields := strings.Fields(way); len(fields) > 1 {
		return fields[1]
	}
	return way
}

// TestNetworkChaining_LeadsThroughFunctions: packets between two ends pass three functions in their order, in both directions,
// and both directions the same replica. Others take over for a lost replica. Without a function nothing passes, or it is left
// out where the chain is open. Without the chain nothing passes. Pods that run get the routes of a chain that is made again.
func TestNetworkChaining_LeadsThroughFunctions(t *testing.T) {
	world.Test(t, world.Networks)
	if withMultus() {
		t.Skip("Multus does not read the annotations of OVN4NFV")
	}
	ns := world.Namespace(t)
	var objects strings.Builder
	for i, name := range chainNetworks() {
		objects.WriteString(nodusNetwork(ns, name, fmt.Sprintf("10.%d.0", 144+i)))
	}
	apply(t, chaining(ns))
	waitChain(t, ns, "CreateInternalError network "+ns+"/left-pnetwork does not exist, or its namespace may not use it")
	wantEvent(t, ns, "PartRefused", "example-networkchaining", "left-pnetwork does not exist")
	apply(t, objects.String())
	waitChain(t, ns, "Created")

	const sources = "16 17 18 19 20 21 22 23"
	function(t, onChain(ns, "slb-0", nodes[0], "10", 0, 1), "slb")
	function(t, onChain(ns, "slb-1", nodes[1], "11", 0, 1), "slb")
	function(t, onChain(ns, "ngfw", nodes[2], "12", 1, 2), "ngfw")
	function(t, onChain(ns, "sdewan", nodes[1], "13", 2, 3), "sdewan")
	pods := allOnNetworks(t, onChain(ns, "client", nodes[1], sources, 0), onChain(ns, "server", nodes[2], "20", 3))
	for _, name := range []string{"slb-0", "slb-1", "ngfw", "sdewan"} {
		pods[name] = world.Running(t, ns, name)
	}
	client, server := pods["client"], pods["server"]
	chainOrder(t, pods)
	world.MustInPod(t, client, "ip", "route", "add", "10.145.0.0/24", "via", "10.144.0.1")
	world.FromPod(client).Unanswered(t, "10.145.0.12") // the router leads to the other end only
	replicas := chainReplicas(t, client, server)
	chainLoss(t, pods, replicas)

	kubectlDelete(t, ns, "networkchainings.k8s.plugin.opnfv.org", "example-networkchaining")
	world.Eventually(t, world.PodWithin, "the server not to be reached without the chain", func() (bool, string) {
		out, err := world.InPod(ns, "client", "probe", "dial", "tcp",
			netip.AddrPortFrom(netip.MustParseAddr("10.147.0.20"), world.EchoPort).String())
		return err != nil, out
	})
	world.FromPod(server).Unanswered(t, "10.144.0.16")
	chainAgain(t, client)
}

// chainAgain makes the chain anew for pods that run: they have lost its routes, and get them, and keep their own.
func chainAgain(t *testing.T, client *corev1.Pod) {
	t.Helper()
	routes := func() string { return world.MustInPod(t, client, "ip", "route", "show", "dev", "net0") }
	world.Eventually(t, world.Soon, "the routes of the chain to be gone", func() (bool, string) {
		is := routes()
		return !strings.Contains(is, "10.147.0.0/24") && strings.Contains(is, "10.145.0.0/24 via 10.144.0.1"), is
	})
	function(t, onChain(client.Namespace, "ngfw", nodes[2], "12", 1, 2), "ngfw")
	apply(t, chaining(client.Namespace))
	waitChain(t, client.Namespace, "Created")
	world.Eventually(t, world.Soon, "the routes of the chain", func() (bool, string) {
		is := routes()
		return strings.Contains(is, "10.147.0.0/24 via 10.144.0.1"), is
	})
	hopsWhenWhole(t, client, "10.144.0.16", "10.147.0.20")
	world.FromPod(client).AnsweredOnceBy(t, "10.147.0.20", "server")
}

// chainOrder checks the order of the functions, and what the ends see of it.
func chainOrder(t *testing.T, pods map[string]*corev1.Pod) {
	t.Helper()
	client, server := pods["client"], pods["server"]
	right := hopsWhenWhole(t, client, "10.144.0.16", "10.147.0.20")
	slb := replicaOf(right)
	if want := "r " + slb + " r 10.145.0.12 * 10.146.0.13 58"; right != want || !strings.HasPrefix(slb, "10.144.0.1") {
		t.Errorf("to the right: %q, want %q", right, want)
	}
	left := hopsWhenWhole(t, server, "10.147.0.20", "10.144.0.16")
	if want := "r 10.147.0.13 r 10.146.0.12 * " + strings.Replace(slb, "10.144", "10.145", 1) + " 58"; left != want {
		t.Errorf("to the left: %q, want %q", left, want)
	}
	world.FromPod(client).AnsweredOnceBy(t, "10.147.0.20", "server")
	world.FromPod(server).AnsweredOnceBy(t, "10.144.0.16", "client")
}

// wholeWay are the hops of a chain without a hop that did not answer, in either direction.
var wholeWay = regexp.MustCompile(`^r [0-9.]+ r [0-9.]+ \* [0-9.]+ 58$`)

// hopsWhenWhole are the hops once all functions are ready.
func hopsWhenWhole(t *testing.T, from *corev1.Pod, source, to string) (way string) {
	t.Helper()
	world.Eventually(t, world.PodWithin, from.Name+" to reach "+to+" by the chain", func() (bool, string) {
		way = hops(t, from, source, to)
		return wholeWay.MatchString(way), way
	})
	return way
}

// chainReplicas are the replicas of the first function by the address of the client. Both get packets, and both directions
// meet the same.
func chainReplicas(t *testing.T, client, server *corev1.Pod) map[string]string {
	t.Helper()
	replicas, met := map[string]string{}, map[string]int{}
	for host := 16; host < 24; host++ {
		source := fmt.Sprint("10.144.0.", host)
		replica := replicaOf(hopsWhenWhole(t, client, source, "10.147.0.20"))
		back := strings.Fields(hopsWhenWhole(t, server, "10.147.0.20", source))
		if len(back) != 7 || back[5] != strings.Replace(replica, "10.144", "10.145", 1) {
			t.Errorf("%s meets %s, and its answers %v", source, replica, back)
		}
		replicas[source] = replica
		met[replica]++
	}
	if met["10.144.0.10"] != 4 || met["10.144.0.11"] != 4 {
		t.Errorf("addresses of clients by the replica that they meet: %v", met)
	}
	return replicas
}

// chainLoss takes one replica, then all of a function, and opens the chain.
func chainLoss(t *testing.T, pods map[string]*corev1.Pod, replicas map[string]string) {
	t.Helper()
	client, server := pods["client"], pods["server"]
	ns, lost := client.Namespace, ""
	for source, replica := range replicas {
		if replica == "10.144.0.11" {
			lost = source
		}
	}
	world.DeletePod(t, ns, "slb-1")
	wantHops(t, client, lost, "10.147.0.20", "r 10.144.0.10 r 10.145.0.12 * 10.146.0.13 58")
	world.FromPod(client).AnsweredOnceBy(t, "10.147.0.20", "server")

	world.DeletePod(t, ns, "ngfw")
	wantHops(t, client, lost, "10.147.0.20", "r 10.144.0.10 r * * * *")
	world.FromPod(client).Unanswered(t, "10.147.0.20")
	world.FromPod(server).Unanswered(t, lost)
	if out, err := kubectl(t, "", "-n", ns, "annotate", "networkchainings.k8s.plugin.opnfv.org", "example-networkchaining", contract.ChainFailureKey+"=open"); err != nil {
		t.Fatal(err, out)
	}
	wantHops(t, client, lost, "10.147.0.20", "r 10.144.0.10 r 10.146.0.13 60")
	wantHops(t, server, "10.147.0.20", lost, "r 10.147.0.13 r 10.145.0.10 60")
	world.FromPod(client).AnsweredOnceBy(t, "10.147.0.20", "server")
}
