//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// probed is a pod that kubelet asks each second, at a port, by HTTP if the server is one of HTTP.
func probed(ns, name, node, serve string, port int) *corev1.Pod {
	pod := world.Pod(ns, name, node, world.Command("probe", serve, fmt.Sprint(world.EchoPort)))
	probe := &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5}
	if at := intstr.FromInt(port); serve == "serve-http" {
		probe.HTTPGet = &corev1.HTTPGetAction{Path: "/", Port: at}
	} else {
		probe.TCPSocket = &corev1.TCPSocketAction{Port: at}
	}
	pod.Spec.Containers[0].ReadinessProbe = probe
	return pod
}

// readySince is when a pod became ready, "" if it is not.
func readySince(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.String()
		}
	}
	return ""
}

func becomesReady(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	return world.WaitPod(t, ns, name, "ready", func(pod *corev1.Pod) bool { return readySince(pod) != "" })
}

// staysReady checks that a pod has been ready all the time, and one whose server does not listen has not been.
func staysReady(t *testing.T, pod *corev1.Pod, deaf string) {
	t.Helper()
	if now := becomesReady(t, pod.Namespace, pod.Name); readySince(now) != readySince(pod) {
		t.Errorf("pod %s was ready since %s, and now since %s", pod.Name, readySince(pod), readySince(now))
	}
	wantEvent(t, pod.Namespace, "Unhealthy", deaf, "refused")
	if now := world.WaitPod(t, pod.Namespace, deaf, "running", world.IsRunning); readySince(now) != "" {
		t.Errorf("pod %s, whose server does not listen, is ready", deaf)
	}
}

// TestPrimaryNetwork_PoliciesSelectPeers: two namespaces have one primary network. The policy of one denies all ingress; its
// pods become ready by kubelet's probes nevertheless. Further policies allow pods by the labels of their namespace, and by an
// address block, except for one pod.
func TestPrimaryNetwork_PoliciesSelectPeers(t *testing.T) {
	world.Test(t, world.Primary)
	labels := map[string]string{contract.PrimaryNetworkLabel: "", "peers": fmt.Sprint(time.Now().UnixNano())}
	mine, theirs := world.LabelledNamespace(t, labels), world.LabelledNamespace(t, labels)
	network, subnet := "peers-"+mine[len(mine)-5:], "10.56.0.0/16"
	if sixes()[0] {
		subnet = "fd56::/48"
	}
	networks := clusterUserDefined(t, network, fmt.Sprintf("{namespaceSelector: {matchLabels: {peers: %q}}, "+
		"network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: %q}]}}}", labels["peers"], subnet))
	waitCondition(t, networks, network, "NetworkCreated", "True")
	world.CreatePolicy(t, mine, "deny", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}})
	for _, pod := range []*corev1.Pod{
		probed(mine, "target", nodes[1], "serve", world.EchoPort), probed(mine, "http", nodes[1], "serve-http", world.EchoPort),
		probed(mine, "deaf", nodes[1], "serve", world.EchoPort+1), world.Pod(mine, "sibling", nodes[2]), world.Pod(theirs,
			"client", nodes[2]),
	} {
		world.Create(t, pod)
	}
	target := becomesReady(t, mine, "target")
	http := becomesReady(t, mine, "http")
	sibling, client := world.WaitPod(t, mine, "sibling", "Running", world.IsRunning), world.WaitPod(t, theirs, "client",
		"Running", world.IsRunning)
	end := netip.AddrPortFrom(addressOn(t, target, mine+"/"+network), world.EchoPort)
	reach := func(bySibling, byClient bool) {
		t.Helper()
		world.Reaches(t, sibling, bySibling, end)
		world.Reaches(t, client, byClient, end)
	}
	reach(false, false)
	world.CreatePolicy(t, mine, "from-team", world.AllowNamespaces("team", "blue"))
	world.LabelNamespace(t, theirs, "team", `"blue"`)
	reach(false, true)
	world.LabelNamespace(t, theirs, "team", "null")
	reach(false, false)
	except := func(name string, addr netip.Addr) {
		t.Helper()
		block := &networkingv1.IPBlock{CIDR: subnet, Except: []string{netip.PrefixFrom(addr, addr.BitLen()).String()}}
		world.CreatePolicy(t, mine, name, networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{From: []networkingv1.NetworkPolicyPeer{{IPBlock: block}}},
		}})
	}
	except("all-but-client", addressOn(t, client, theirs+"/"+network))
	reach(true, false)
	world.DeletePolicy(t, mine, "all-but-client")
	except("all-but-sibling", addressOn(t, sibling, mine+"/"+network))
	reach(false, true)
	staysReady(t, target, "deaf")
	staysReady(t, http, "deaf")
}

// nodeWithout waits until all nodes but one have a part of a network's subnets, and gives that node.
func nodeWithout(t *testing.T, network string) (without string) {
	t.Helper()
	world.Eventually(t, world.Soon, "all nodes but one have subnets of "+network, func() (bool, string) {
		list, err := cluster.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var all []string
		for i := range list.Items {
			if !strings.Contains(list.Items[i].Annotations[contract.NodeSubnetsKey], network) {
				all = append(all, list.Items[i].Name)
			}
		}
		without = strings.Join(all, " ")
		return len(all) == 1, without
	})
	return without
}

// TestPrimaryNetwork_PodsWaitForTheirNetwork: a pod waits for the primary network of its namespace, and a pod of a node without
// a part of the network's subnets for a further subnet. Neither has the default network alone.
func TestPrimaryNetwork_PodsWaitForTheirNetwork(t *testing.T) {
	world.Test(t, world.Primary)
	ns := world.LabelledNamespace(t, map[string]string{contract.PrimaryNetworkLabel: ""})
	subnets := []string{`{"cidr":"10.59.0.0/24","hostSubnet":25}`, `{"cidr":"10.59.4.0/24","hostSubnet":25}`} // for two nodes each
	if sixes()[0] {
		subnets = []string{`{"cidr":"fd59::/63","hostSubnet":64}`, `{"cidr":"fd59:0:0:8::/63","hostSubnet":64}`}
	}
	waits := func(name string) {
		t.Helper()
		staysPending(t, ns, name, "nothing of the primary network of the namespace; Events of the pod and of the network say more")
		if pod := world.WaitPod(t, ns, name, "there", func(*corev1.Pod) bool { return true }); len(pod.Status.PodIPs) > 0 {
			t.Errorf("pod %s has %v before its network", name, pod.Status.PodIPs)
		}
	}
	world.Create(t, world.Pod(ns, "on-"+nodes[0], nodes[0]))
	wantEvent(t, ns, "NetworkNotFound", "on-"+nodes[0], "but no primary network")
	waits("on-" + nodes[0])
	networks := objectsOf(t, ovnv1.UserDefinedNetworks(), ns)
	if err := userDefined(t, ns, "main", `{topology: Layer3, layer3: {role: Primary, subnets: [`+subnets[0]+`]}}`); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, networks, "main", "NetworkAllocationSucceeded", "False InternalError node ")
	wantEvent(t, ns, "NetworkAllocationFailed", "main", "node ")
	for _, node := range nodes[1:3] {
		world.Create(t, world.Pod(ns, "on-"+node, node))
	}
	without := nodeWithout(t, ns+"_main")
	var pods []*corev1.Pod
	for _, node := range nodes[:3] {
		if node != without {
			pods = append(pods, world.Running(t, ns, "on-"+node))
		}
	}
	end := func(pod *corev1.Pod) netip.AddrPort {
		return netip.AddrPortFrom(addressOn(t, pod, ns+"/main"), world.EchoPort)
	}
	world.Reaches(t, pods[0], true, end(pods[1]))
	waits("on-" + without)
	patch := fmt.Sprintf(`{"spec":{"layer3":{"subnets":[%s]}}}`, strings.Join(subnets, ","))
	if _, err := networks.Patch(t.Context(), "main", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, networks, "main", "NetworkAllocationSucceeded", "True")
	late := world.Running(t, ns, "on-"+without)
	for _, pod := range pods {
		world.Reaches(t, pod, true, end(late))
		world.Reaches(t, late, true, end(pod))
	}
}
