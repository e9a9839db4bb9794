//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// machinePod is a pod that KubeVirt would make for the virtual machine db.
func machinePod(w wish) *corev1.Pod {
	pod := w.object()
	pod.Labels[contract.VMLabel] = "db"
	return pod
}

// movedTo says what KubeVirt says when a virtual machine begins to run in another pod.
func movedTo(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"2026-01-01T00:00:00Z"}}}`, contract.VMReadyKey)
	if _, err := cluster.client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestVirtualMachine_MovesWithItsAddress: while a virtual machine moves, both of its pods run with its address. Packets go to
// the source, and none come from the target, until the virtual machine runs in the target; then it is the other way around.
// With another virtual machine's label the second pod has no address. The full tier has networks of topology localnet, too.
func TestVirtualMachine_MovesWithItsAddress(t *testing.T) {
	world.Test(t, world.Primary)
	layer2, localnet := `"topology": "layer2"`, `"topology": "localnet", "physicalNetworkName": "physnet", "vlanID": 79`
	each := map[string]func(*testing.T){}
	for _, topology := range tier.Pick([]string{layer2}, []string{layer2, localnet}) {
		each[strings.Split(topology, `"`)[3]] = func(t *testing.T) { moves(t, topology) }
	}
	world.AtOnce(t, each)
}

// moves has a virtual machine move on a network of a topology.
func moves(t *testing.T, topology string) {
	ns := world.Namespace(t)
	apply(t, networkOf(ns, "flat", topology+`, "subnets": "10.77.0.0/24", "allowPersistentIPs": true`)+
		networkOf(ns, "bare", `"topology": "layer2"`)+
		fmt.Sprintf("\napiVersion: k8s.cni.cncf.io/v1alpha1\nkind: IPAMClaim\nmetadata: {namespace: %[1]s, name: db}\nspec: {network: %[1]s.flat, interface: net1}\n", ns))
	claimed := "[" + selected("flat", `"ipam-claim-reference": "db"`) + "," + selected("bare", `"mac": "02:77:00:00:00:01", "ips": ["10.78.0.1/24"]`) + "]"
	world.Create(t, machinePod(wish{ns, "source", nodes[1], claimed}))
	pods := allOnNetworks(t, wish{ns, "client", nodes[0], "flat"})
	source := world.Running(t, ns, "source")
	address := addressOn(t, source, ns+"/flat").String()
	world.FromPod(pods["client"]).AnsweredOnceBy(t, address, "source")

	thief := machinePod(wish{ns, "thief", nodes[2], "[" + selected("bare", `"mac": "02:77:00:00:00:01"`) + "]"})
	thief.Labels[contract.VMLabel] = "web"
	world.Create(t, thief)
	world.Create(t, machinePod(wish{ns, "target", nodes[2],
		"[" + selected("flat", `"ipam-claim-reference": "db"`) + "," + selected("bare", `"mac": "02:77:00:00:00:01"`) + "]"}))
	target := world.Running(t, ns, "target")
	if got := addressOn(t, target, ns+"/flat").String(); got != address {
		t.Errorf("the target has %s, not %s", got, address)
	}
	staysPending(t, ns, "thief", "")
	client := addressOn(t, pods["client"], ns+"/flat").String()
	for range 3 {
		world.FromPod(pods["client"]).AnsweredOnceBy(t, address, "source")
	}
	world.FromPod(target).Unanswered(t, client)

	movedTo(t, target)
	world.FromPod(pods["client"]).AnsweredBy(t, address, "target")
	world.FromPod(target).AnsweredOnceBy(t, client, "client")
	world.FromPod(source).Unanswered(t, client)
	world.DeletePod(t, ns, "source")
	waitGone(t, ns, "source")
	world.FromPod(pods["client"]).AnsweredOnceBy(t, address, "target")
}

// TestVirtualMachine_AsksForItsAddress: on a primary network the virtual machine of a pod gets the pod's addresses by DHCP, with
// router and DNS, and the router advertises itself in IPv6. The pod's interface has no address. A pod without the label has no
// lease, and on a secondary network, which has no router, there is neither lease nor advertisement.
func TestVirtualMachine_AsksForItsAddress(t *testing.T) {
	world.Test(t, world.Primary)
	x := machineTenant(t, "10.79.0.0/24", "fd79::/64")
	apply(t, networkOf(x.ns, "flat", `"topology": "layer2", "subnets": "10.87.0.0/24,fd87::/64"`))
	privileged := true
	guest := func(name string, labels map[string]string) *corev1.Pod {
		pod := world.Pod(x.ns, name, nodes[1])
		pod.Annotations = map[string]string{contract.VMAddressKey: "", contract.NetworksKey: "flat"}
		for key, value := range labels {
			pod.Labels[key] = value
		}
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
		world.Create(t, pod)
		return world.WaitPod(t, x.ns, name, "Running", world.IsRunning)
	}
	machine, plain := guest("machine", map[string]string{contract.VMLabel: "db"}), guest("plain", nil)
	network := attachmentOf(t, machine, x.ns+"/main")
	for i, own := range network.Addresses {
		if has := world.MustInPod(t, machine, "ip", "addr", "show", "dev", contract.PrimaryInterface); strings.Contains(has,
			own.Addr().String()+"/") {
			t.Errorf("the pod has the address of its virtual machine: %s", has)
		}
		asks(t, machine, plain, network, i)
		// The virtual machine takes the address, and is a pod of the network then.
		world.MustInPod(t, machine, "sh", "-c", fmt.Sprintf("ip addr add %[1]s dev %[2]s nodad && ip route replace default via %[3]s dev %[2]s", own, contract.PrimaryInterface, network.Gateways[i]))
		world.Reaches(t, x.pods[1], true, netip.AddrPortFrom(own.Addr(), world.EchoPort))
	}
	world.Reaches(t, machine, true, x.echoes(t, 1)...)
}

// asks checks what DHCP, and the router in IPv6, say to a virtual machine about one of its addresses, and that nothing is said
// to a pod without one, or on a secondary network.
func asks(t *testing.T, machine, plain *corev1.Pod, network *contract.PodNetwork, i int) {
	t.Helper()
	own, router := network.Addresses[i], network.Gateways[i]
	type question struct{ probe, answer string }
	dns := dnsAddresses(t, own.Addr())
	questions := []question{{"lease", fmt.Sprintf("%s router=[%s] dns=%v mtu=1300 hostname=db", own, router, dns)}}
	if own.Addr().Is6() {
		mac := contract.MACFromAddress(network.Gateways[0])
		questions = []question{{"lease6", fmt.Sprintf("%s dns=%v", own.Addr(), dns)}, {"solicit", fmt.Sprintf(
			"router=%s managed=true preference=low lifetime=true mac=%s mtu=1300 prefix=%s autonomous=false", netdev.LinkLocal([6]byte(mac)).Addr(), mac, own.Masked())}}
	}
	for _, q := range questions {
		if got := strings.TrimSpace(world.MustInPod(t, machine, "probe", q.probe, contract.PrimaryInterface)); got != q.answer {
			t.Errorf("%s gives %q, want %q", q.probe, got, q.answer)
		}
		if out, err := world.InPod(machine.Namespace, machine.Name, "probe", q.probe, "net1"); err == nil {
			t.Errorf("%s has an answer on a secondary network: %s", q.probe, out)
		}
		if out, err := world.InPod(plain.Namespace, plain.Name, "probe", q.probe,
			contract.PrimaryInterface); err == nil && q.probe != "solicit" {
			t.Errorf("%s has an answer for pod %s without a virtual machine: %s", q.probe, plain.Name, out)
		}
	}
}

// dnsAddresses are those of the cluster's DNS in the family of an address.
func dnsAddresses(t *testing.T, like netip.Addr) []netip.Addr {
	t.Helper()
	service, err := cluster.client.CoreV1().Services(metav1.NamespaceSystem).Get(t.Context(), "kube-dns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(world.ClusterAddresses(service), func(addr netip.Addr) bool { return addr.Is4() != like.Is4() })
}
