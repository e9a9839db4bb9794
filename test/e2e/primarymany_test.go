//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPrimaryNetworks_ManyLeaveNothing: many networks with one subnet, of both topologies, come and go at once with their
// namespaces, some with pods and services. Each client has answers of its own network's server, also where another network's
// server has the same address. The full tier has 300, and compares the rows and flows of before and
// after. With 200 of them, pods of three reach an external host, the switch refuses no packet for too many or too deep actions,
// and a question of ARP has the actions that it has without networks.
func TestPrimaryNetworks_ManyLeaveNothing(t *testing.T) {
	world.Test(t, world.Primary, tier.Pick(world.Beside, world.Disruptive), world.Strict)
	count, busy := tier.Pick(4, 300), 200
	layer3, layer2 := "{cidr: 10.57.0.0/16}", "10.57.0.0/16"
	if sixes()[0] {
		layer3, layer2 = "{cidr: 'fd57::/48'}", "'fd57::/64'"
	}
	var before load
	var flood string
	if tier.IsFull() { // other tests change the counts
		before, flood = loadWithoutOthers(t), broadcast(t, nodes[1])
	}
	began := time.Now()
	var namespaces []string
	for i := range count {
		ns := world.LabelledNamespace(t, map[string]string{contract.PrimaryNetworkLabel: ""})
		namespaces = append(namespaces, ns)
		spec := "{topology: Layer2, layer2: {role: Primary, subnets: [" + layer2 + "]}}"
		if i%2 == 1 {
			spec = "{topology: Layer3, layer3: {role: Primary, subnets: [" + layer3 + "]}}"
		}
		if err := userDefined(t, ns, "main", spec); err != nil {
			t.Fatal(err)
		}
		if len(namespaces) == busy {
			world.Eventually(t, 5*time.Minute, "the last network has rows", func() (bool, string) {
				groups := nbctl(t, "--bare", "--columns=name", "list", "Load_Balancer_Group")
				return strings.Contains(groups, ns+"_main/"), groups
			})
			reachOutside(t, nodes[1], namespaces[4], namespaces[busy/2], ns) // the addresses of the first are compared
			if now := broadcast(t, nodes[1]); now != flood {
				t.Errorf("with %d networks a question of ARP has the actions %s, without %s", busy, now, flood)
			}
			t.Logf("%d networks reach an external host after %s", busy, time.Since(began).Round(time.Second))
		}
	}
	var services []*corev1.Service
	for i, ns := range namespaces[:4] {
		pod := world.Pod(ns, "pod", nodes[1+i%2], world.NamedAs(ns))
		pod.Labels["app"] = "web"
		world.Create(t, pod)
		services = append(services, world.Service(t, ns, nil))
	}
	for _, ns := range namespaces {
		waitCondition(t, objectsOf(t, ovnv1.UserDefinedNetworks(), ns), "main", "NetworkAllocationSucceeded", "True")
	}
	for _, ns := range namespaces[:4] {
		world.Running(t, ns, "pod")
	}
	sameAddresses(t, namespaces[:4], services)
	t.Logf("%d networks after %s", count, time.Since(began).Round(time.Second))
	name := namespaces[0][:strings.LastIndex(namespaces[0], "-")]
	if tier.IsFull() {
		t.Logf("before:\n%s\nwith %d networks:\n%s", before, count, loadOf(t))
	}
	left := networkTraces(t, name)
	for _, trace := range []string{"NB Logical_Router:", "NB Load_Balancer:", "NB Static_MAC_Binding:", "SB Datapath_Binding:", nodes[1] + " zones:", nodes[2] + " annotations:"} {
		if !strings.Contains(left, trace) {
			t.Errorf("no %s while the networks are there: %s", trace, left)
		}
	}
	if vipsOf(t, services[1]) == "" {
		t.Error("a service has no load balancer")
	}
	world.DeleteService(t, namespaces[1], services[1].Name)
	world.Eventually(t, world.ServiceWithin, "the load balancers of the deleted service are gone", func() (bool, string) {
		left := vipsOf(t, services[1])
		return left == "", left
	})
	began = time.Now()
	for _, ns := range namespaces {
		if err := cluster.client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	world.Eventually(t, 8*time.Minute, "nothing is left of the networks", func() (bool, string) {
		left := networkTraces(t, name)
		return left == "", left
	})
	t.Logf("gone after %s", time.Since(began).Round(time.Second))
	if tier.IsFull() {
		t.Logf("afterwards:\n%s", before.leavesNothing(t))
	}
}

// sameAddresses checks that a pod of each namespace has answers of the server there alone, by address and by service. Servers
// of the first and the third namespace, whose networks have topology Layer2, have the same address: when one of them is gone,
// there is no answer on its network, and the other one answers on its own.
func sameAddresses(t *testing.T, namespaces []string, services []*corev1.Service) {
	t.Helper()
	var clients []*corev1.Pod
	var ends []string
	for i, ns := range namespaces {
		world.Create(t, world.Pod(ns, "client", nodes[2-i%2]))
		pod := world.WaitPod(t, ns, "pod", "Running", world.IsRunning)
		ends = append(ends, netip.AddrPortFrom(addressOn(t, pod, ns+"/main"), world.EchoPort).String())
	}
	for _, ns := range namespaces {
		clients = append(clients, world.Running(t, ns, "client"))
	}
	if t.Logf("the servers have the addresses %v", ends); ends[0] != ends[2] {
		t.Errorf("the servers of networks with one subnet have the addresses %s and %s", ends[0], ends[2])
	}
	const times = 10
	for i, client := range clients {
		service := netip.AddrPortFrom(world.OfFamily(world.ClusterAddresses(services[i]),
			addressOn(t, client, namespaces[i]+"/main")), world.ServicePort).String()
		world.FromPod(client).Answered(t, "tcp", service)
		for _, target := range []string{"tcp:" + ends[i], "udp:" + ends[i], "tcp:" + service, "udp:" + service} {
			out := world.MustInPod(t, client, "probe", "count", fmt.Sprint(times), world.Patience, target)
			for line := range strings.Lines(out) {
				if want := fmt.Sprintf("%s %d ", target, times); !strings.HasPrefix(line, want) || !strings.HasSuffix(line, " "+namespaces[i]+"\n") {
					t.Errorf("%s has the answers %q, want %s times %s", client.Namespace, out, fmt.Sprint(times), namespaces[i])
				}
			}
		}
	}
	world.DeletePod(t, namespaces[0], "pod")
	world.Eventually(t, world.Soon, "no answer without the server", func() (bool, string) {
		got, err := world.FromPod(clients[0]).Ask("tcp", ends[0])
		return err != nil, fmt.Sprint(got)
	})
	if out := world.MustInPod(t, clients[2], "probe", "dial", "tcp", ends[0]); !strings.Contains(out, namespaces[2]) {
		t.Errorf("the server of another network with this address says %q", out)
	}
}

// networkTraces are how often names of networks of namespaces that begin with a text are in the databases, on nodes and in
// the annotations of Nodes.
func networkTraces(t *testing.T, namespace string) string {
	t.Helper()
	var left []string
	add := func(where, text string) {
		n := strings.Count(text, namespace) + strings.Count(text, strings.ReplaceAll(namespace, "-", "."))
		if n > 0 {
			left = append(left, fmt.Sprintf("%s: %d", where, n))
		}
	}
	for _, table := range networkTables() {
		add("NB "+table, nbctl(t, "list", table))
	}
	for _, table := range []string{"Datapath_Binding", "Port_Binding"} {
		add("SB "+table, sbctl(t, "list", table))
	}
	for _, node := range nodes[:3] {
		add(node+" zones", world.MustOnNode(t, node, "ovs-vsctl", "--bare", "--columns=external_ids", "list", "Bridge"))
		add(node+" ports", world.MustOnNode(t, node, "ovs-vsctl", "--bare", "--columns=name,external_ids,options", "list",
			"Interface"))
		add(node+" links", world.MustOnNode(t, node, "ip", "-o", "link", "show"))
		object, err := cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		add(node+" annotations", fmt.Sprint(object.Annotations))
	}
	return strings.Join(left, ", ")
}

// networkTables are the tables of the Northbound database that have rows of networks.
func networkTables() []string {
	return []string{
		"Logical_Router", "Logical_Router_Port", "Logical_Router_Static_Route", "Logical_Router_Policy", "NAT", "Static_MAC_Binding",
		"Logical_Switch", "Logical_Switch_Port", "Load_Balancer", "Load_Balancer_Group", "Port_Group", "Address_Set",
	}
}
