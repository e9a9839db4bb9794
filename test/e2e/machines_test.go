//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
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

// comesFrom waits until a pod answers at an address.
func comesFrom(t *testing.T, from *corev1.Pod, to, name string) {
	t.Helper()
	target := netip.AddrPortFrom(netip.MustParseAddr(to), echoPort).String()
	eventually(t, soon, name+" answers at "+to, func() (bool, string) {
		out, err := inPod(from.Namespace, from.Name, "probe", "dial", "tcp", target)
		return err == nil && strings.HasSuffix(strings.TrimSpace(out), " "+name), out
	})
}

// TestVirtualMachine_MovesWithItsAddress: while a virtual machine moves, both of its pods run with its address. Packets go to
// the source, and none come from the target, until the virtual machine runs in the target; then it is the other way around.
// With another virtual machine's label the second pod has no address. The full tier has networks of topology localnet, too.
func TestVirtualMachine_MovesWithItsAddress(t *testing.T) {
	t.Parallel()
	layer2, localnet := `"topology": "layer2"`, `"topology": "localnet", "physicalNetworkName": "physnet", "vlanID": 79`
	for _, topology := range tier.Pick([]string{layer2}, []string{layer2, localnet}) {
		t.Run(strings.Split(topology, `"`)[3], func(t *testing.T) {
			t.Parallel()
			moves(t, topology)
		})
	}
}

// moves has a virtual machine move on a network of a topology.
func moves(t *testing.T, topology string) {
	ns := namespace(t)
	apply(t, networkOf(ns, "flat", topology+`, "subnets": "10.77.0.0/24", "allowPersistentIPs": true`)+
		networkOf(ns, "bare", `"topology": "layer2"`)+
		fmt.Sprintf("\napiVersion: k8s.cni.cncf.io/v1alpha1\nkind: IPAMClaim\nmetadata: {namespace: %[1]s, name: db}\nspec: {network: %[1]s.flat, interface: net1}\n", ns))
	claimed := "[" + selected("flat", `"ipam-claim-reference": "db"`) + "," + selected("bare", `"mac": "02:77:00:00:00:01", "ips": ["10.78.0.1/24"]`) + "]"
	create(t, machinePod(wish{ns, "source", nodes[1], claimed}))
	pods := allOnNetworks(t, wish{ns, "client", nodes[0], "flat"})
	source := listening(t, waitPod(t, ns, "source", "Running", isRunning))
	address := addressOn(t, source, ns+"/flat").String()
	answeredBy(t, pods["client"], address, "source")

	thief := machinePod(wish{ns, "thief", nodes[2], "[" + selected("bare", `"mac": "02:77:00:00:00:01"`) + "]"})
	thief.Labels[contract.VMLabel] = "web"
	create(t, thief)
	create(t, machinePod(wish{ns, "target", nodes[2], "[" + selected("flat", `"ipam-claim-reference": "db"`) + "," + selected("bare", `"mac": "02:77:00:00:00:01"`) + "]"}))
	target := listening(t, waitPod(t, ns, "target", "Running", isRunning))
	if got := addressOn(t, target, ns+"/flat").String(); got != address {
		t.Errorf("the target has %s, not %s", got, address)
	}
	staysPending(t, ns, "thief", "")
	client := addressOn(t, pods["client"], ns+"/flat").String()
	for range 3 {
		answeredBy(t, pods["client"], address, "source")
	}
	unanswered(t, target, client)

	movedTo(t, target)
	comesFrom(t, pods["client"], address, "target")
	answeredBy(t, target, client, "client")
	unanswered(t, source, client)
	deletePod(t, ns, "source")
	waitGone(t, ns, "source")
	answeredBy(t, pods["client"], address, "target")
}

// TestVirtualMachine_AsksForItsAddress: on a primary network the virtual machine of a pod gets the pod's address by DHCP, with
// router and DNS, and the pod's interface has none. A pod without the label gets no answer.
func TestVirtualMachine_AsksForItsAddress(t *testing.T) {
	t.Parallel()
	subnet, router := "10.79.0.0/24", "10.79.0.1"
	if sixes()[0] {
		t.Skip("the client of the test speaks IPv4")
	}
	x := tenantWith(t, "{topology: Layer2, layer2: {role: Primary, mtu: 1300, subnets: ["+subnet+"]}}")
	privileged := true
	guest := func(name string, labels map[string]string) *corev1.Pod {
		pod := podObject(x.ns, name, nodes[1])
		pod.Annotations = map[string]string{contract.VMAddressKey: ""}
		for key, value := range labels {
			pod.Labels[key] = value
		}
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
		create(t, pod)
		return waitPod(t, x.ns, name, "Running", isRunning)
	}
	machine, plain := guest("machine", map[string]string{contract.VMLabel: "db"}), guest("plain", nil)
	own := attachmentOf(t, machine, x.ns+"/main").Addresses[0]
	if has := mustInPod(t, machine, "ip", "-4", "addr", "show", "dev", contract.PrimaryInterface); strings.Contains(has, own.Addr().String()) {
		t.Errorf("the pod has the address of its virtual machine: %s", has)
	}
	want := fmt.Sprintf("%s router=[%s] dns=[%s] mtu=1300 hostname=db", own, router, clusterDNS(t))
	if got := strings.TrimSpace(mustInPod(t, machine, "probe", "lease", contract.PrimaryInterface)); got != want {
		t.Errorf("DHCP gives %q, want %q", got, want)
	}
	if out, err := inPod(x.ns, "plain", "probe", "lease", contract.PrimaryInterface); err == nil {
		t.Errorf("pod %s without a virtual machine has a lease: %s", plain.Name, out)
	}
	// The virtual machine takes the address, and is a pod of the network then.
	mustInPod(t, machine, "sh", "-c", fmt.Sprintf("ip addr add %[1]s dev %[2]s && ip route replace default via %[3]s dev %[2]s", own, contract.PrimaryInterface, router))
	becomes(t, x.pods[1], true, netip.AddrPortFrom(own.Addr(), echoPort))
	becomes(t, machine, true, x.echoes(t, 1)...)
}

// clusterDNS is the address of the cluster's DNS in the first family.
func clusterDNS(t *testing.T) string {
	t.Helper()
	service, err := cluster.client.CoreV1().Services(metav1.NamespaceSystem).Get(t.Context(), "kube-dns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service.Spec.ClusterIP
}
