//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestNetworks_ChangeWhilePodsRun: a network gets more subnets. Pods that wait for addresses start, running pods keep their
// addresses and reach the new ones, and new pods have the MTU and the VLAN of today.
func TestNetworks_ChangeWhilePodsRun(t *testing.T) {
	world.Test(t, world.Networks)
	if withMultus() {
		t.Skip("the Event of a pod that waits is Multus' there")
	}
	ns := world.Namespace(t)
	routed := func(more string) string {
		return networkOf(ns, "grown", `"topology": "layer3", "subnets": "10.211.0.0/23/24`+more+`"`)
	}
	flat := func(more string) string {
		return networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.213.0.0/30`+more)
	}
	vlan := func(name string, id int, excluded string) string {
		return networkOf(ns, name, fmt.Sprintf(`"topology": "localnet", "physicalNetworkName": "physnet", "vlanID": %d, "subnets": "10.215.0.0/24", "excludeSubnets": %q`, id, excluded))
	}
	apply(t, flat(`", "mtu": 1300`)+vlan("one", 75, "10.215.0.128/25")+vlan("two", 76, "10.215.0.0/25"))
	pods := allOnNetworks(t, wish{ns, "a", nodes[1], "flat,one"}, wish{ns, "b", nodes[2], "flat,two"})
	a, b := pods["a"], pods["b"]
	wish{ns, "late", nodes[1], "flat,one"}.create(t)
	staysPending(t, ns, "late", ns+"/flat")
	world.FromPod(a).AnsweredOnceBy(t, addressOn(t, b, ns+"/flat").String(), "b")
	world.FromPod(a).Unanswered(t, addressOn(t, b, ns+"/two").String())

	apply(t, flat(`,10.214.0.0/24", "mtu": 1250`)+vlan("one", 76, "10.215.0.128/25"))
	late := world.Running(t, ns, "late")
	later := world.Run(t, world.Pod(ns, "later", nodes[2], world.OnNetworks("flat")))[0]
	if second := netip.MustParsePrefix("10.214.0.0/24"); !second.Contains(addressOn(t, late, ns+"/flat")) || !second.Contains(addressOn(t, later, ns+"/flat")) {
		t.Errorf("new pods have %s and %s, not addresses of the second subnet", addressOn(t, late, ns+"/flat"), addressOn(t, later, ns+"/flat"))
	}
	world.FromPod(later).ReachesOn(t, "net1", addressOn(t, late, ns+"/flat"))
	world.FromPod(a).AnsweredOnceBy(t, addressOn(t, b, ns+"/flat").String(), "b")
	world.FromPod(late).AnsweredOnceBy(t, addressOn(t, b, ns+"/two").String(), "b") // its VLAN has changed
	for _, pod := range []*corev1.Pod{a, late} {
		if mtu := strings.TrimSpace(world.MustInPod(t, pod, "cat",
			"/sys/class/net/net1/mtu")); mtu != map[string]string{"a": "1300", "late": "1250"}[pod.Name] {
			t.Errorf("net1 of %s has the MTU %s", pod.Name, mtu)
		}
	}

	// A layer3 network with parts for two of the three nodes.
	apply(t, routed(""))
	for i, name := range []string{"r0", "r1", "r2"} {
		wish{ns, name, nodes[i], "grown"}.create(t)
	}
	world.Eventually(t, world.PodWithin, "two of three pods run", func() (bool, string) {
		out, err := kubectl(t, "", "-n", ns, "get", "pods", "r0", "r1", "r2", "-o", "jsonpath={.items[*].status.phase}")
		phases := strings.Fields(out)
		slices.Sort(phases)
		return err == nil && strings.Join(phases, " ") == "Pending Running Running", out
	})
	apply(t, routed(",10.212.0.0/23/24"))
	grown := map[bool][]*corev1.Pod{}
	for _, name := range []string{"r0", "r1", "r2"} {
		pod := world.Running(t, ns, name)
		isNew := netip.MustParsePrefix("10.212.0.0/23").Contains(addressOn(t, pod, ns+"/grown"))
		grown[isNew] = append(grown[isNew], pod)
	}
	if len(grown[true]) != 1 {
		t.Fatalf("%d of three pods have addresses of the second subnet", len(grown[true]))
	}
	for _, old := range grown[false] {
		world.Eventually(t, world.Soon, old.Name+" reaches the second subnet", func() (bool, string) {
			out, err := world.InPod(ns, old.Name, "ip", "route", "get", addressOn(t, grown[true][0], ns+"/grown").String())
			return err == nil && strings.Contains(out, "dev net1"), out
		})
		world.FromPod(old).AnsweredOnceBy(t, addressOn(t, grown[true][0], ns+"/grown").String(), grown[true][0].Name)
		world.FromPod(grown[true][0]).AnsweredOnceBy(t, addressOn(t, old, ns+"/grown").String(), old.Name)
	}
}

// TestNetworks_ManyInterfacesAndAddresses: eight interfaces of one pod are as its annotations say, one has several addresses of
// each family, and when one network fails, the others work. Two namespaces share a network by NADs with its name.
func TestNetworks_ManyInterfacesAndAddresses(t *testing.T) {
	world.Test(t, world.Networks)
	ns, partner := world.Namespace(t), world.Namespace(t)
	many := `"topology": "layer2", "subnets": "10.216.0.0/24,10.217.0.0/24,fd00:216::/64,fd00:217::/64"`
	shared := func(in string) string {
		return strings.Replace(networkOf(in, "shared", `"topology": "localnet", "physicalNetworkName": "physnet", "vlanID": 77, "subnets": "10.218.0.0/24"`), in+".shared\"", ns+".shared\"", 1)
	}
	apply(t, networkOf(ns, "many", many)+networkOf(ns, "routed", `"topology": "layer3", "subnets": "10.219.0.0/16/24"`)+
		networkOf(ns, "bare", `"topology": "layer2"`)+sharedWith(`"`+ns+","+partner+`"`, shared(ns)+shared(partner))) // which is older is by chance
	four := func(host int) string {
		return fmt.Sprintf(`{"name": "many", "ips": ["10.216.0.%d/24", "10.217.0.%[1]d/24", "fd00:216::%[1]d/64", "fd00:217::%[1]d/64"]}`, host)
	}
	rest := `,{"name": "routed"},{"name": "routed"},{"name": "shared"},{"name": "shared"},{"name": "bare"},{"name": "bare", "ips": ["192.168.5.%d/24"]},{"name": "many"}]`
	pods := allOnNetworks(t, wish{ns, "a", nodes[1], "[" + four(50) + fmt.Sprintf(rest, 1)}, wish{ns, "b", nodes[2], "[" + four(60) + fmt.Sprintf(rest, 2)},
		wish{partner, "partner", nodes[0], "shared"})
	a, b := pods["a"], pods["b"]
	for i, key := range []string{"many", "routed", "routed/1", "shared", "shared/1", "bare", "bare/1", "many/1"} {
		is := world.MustInPod(t, a, "ip", "-br", "address", "show", "dev", fmt.Sprintf("net%d", i+1))
		for _, address := range attachmentOf(t, a, ns+"/"+key).Addresses {
			if !slices.Contains(strings.Fields(is), address.String()) {
				t.Errorf("%s of the pod lacks %s of %s: %s", fmt.Sprintf("net%d", i+1), address, key, is)
			}
		}
	}
	for _, pair := range [][2]string{
		{"10.216.0.50", "10.216.0.60"},
		{"10.217.0.50", "10.217.0.60"},
		{"fd00:216::50", "fd00:216::60"},
		{"fd00:217::50", "fd00:217::60"},
		{"192.168.5.1", "192.168.5.2"},
		{addressOn(t, a, ns+"/routed/1").String(), addressOn(t, b, ns+"/routed").String()},
		{addressOn(t, a, ns+"/shared/1").String(), addressOn(t, b, ns+"/shared").String()},
	} {
		world.MustInPod(t, a, "ping", "-c1", "-w10", "-I", pair[0], pair[1])
		world.FromPod(a).AnsweredOnceBy(t, pair[1], "b")
	}
	sharedB := addressOn(t, b, ns+"/shared")
	world.FromPod(pods["partner"]).AnsweredOnceBy(t, sharedB.String(), "b")
	world.FromPod(a).AnsweredOnceBy(t, addressOn(t, pods["partner"], partner+"/shared").String(), "partner")

	// One of two interfaces on a network is cut, then the network.
	world.MustInPod(t, a, "ip", "link", "set", "net4", "down")
	world.MustInPod(t, a, "ping", "-c1", "-w10", "-I", addressOn(t, a, ns+"/shared/1").String(), sharedB.String())
	world.MustInPod(t, a, "ip", "link", "set", "net5", "down")
	world.FromPod(a).Unanswered(t, sharedB.String())
	world.FromPod(a).AnsweredOnceBy(t, "10.216.0.60", "b")
	world.FromPod(a).AnsweredOnceBy(t, world.Endpoints(b)[0].Addr().String(), "b")
}
