package ovn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/policytest"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// multiOf is a MultiNetworkPolicy with the specification of a NetworkPolicy.
func multiOf(t *testing.T, policy *networkingv1.NetworkPolicy, policyFor string) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion("k8s.cni.cncf.io/v1beta1")
	object.SetKind(contract.KindMultiNetworkPolicy)
	object.SetAnnotations(map[string]string{contract.PolicyForKey: policyFor})
	return object
}

func nadOf(namespace, name, fields string) *unstructured.Unstructured {
	config := fmt.Sprintf(`{"cniVersion":"1.1.0","type":"ovn-k8s-cni-overlay","netAttachDefName":"%s/%s",%s}`, namespace, name, fields)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": config}}}
	object.SetAPIVersion("k8s.cni.cncf.io/v1")
	object.SetKind(contract.KindNAD)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// TestMultiNetworkPolicy_RulesMatchDefinitionOfAPI: on a further network, random policies decide as NetworkPolicies do by
// the API's definition, with the pods' addresses of that network.
func TestMultiNetworkPolicy_RulesMatchDefinitionOfAPI(t *testing.T) {
	seed := tier.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	blocks := []networkingv1.IPBlock{
		{CIDR: "10.244.0.0/16", Except: []string{"10.244.1.0/24", "10.244.2.10/32"}}, {CIDR: "203.0.113.0/24"}, {CIDR: "::/0"},
	}
	verdicts := map[bool]int{}
	for round := range 20 {
		var world policytest.World
		world.Namespaces, world.Pods = policytest.PodsOf()
		for i := range 1 + r.IntN(4) {
			world.Policies = append(world.Policies, policytest.Policy(r, fmt.Sprint("policy-", i), blocks))
		}
		addresses := place(world.Pods)
		var multis []runtime.Object
		for _, policy := range world.Policies {
			multis = append(multis, multiOf(t, policy, "net/l2"))
		}
		got := multiRules(t, world.Namespaces, attach(world.Pods), multis)
		for _, c := range cases(world.Pods, addresses) {
			c.packet.inport, c.packet.outport = attachedPort(c.from.Pod), attachedPort(c.to.Pod)
			want := world.Allows(c.from, c.to)
			verdicts[want]++
			if allowed := got.allows(c.packet); allowed != want {
				t.Fatalf("round %d: %s: rules say %t, the API %t; policies:\n%s\nrules:\n%s", round, c.name, allowed, want, describe(world), got.describe())
			}
		}
	}
	if verdicts[true] < 500 || verdicts[false] < 500 {
		t.Errorf("verdicts %v: too one-sided to show anything", verdicts)
	}
}

// attach gives pods on the network of NAD net/l2 the addresses that they have, and others on the default network.
func attach(pods []*corev1.Pod) []*corev1.Pod {
	var all []*corev1.Pod
	for _, pod := range pods {
		pod = pod.DeepCopy()
		pod.Spec.NodeName = "n0"
		value, _ := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
		other := `{"default":{"ip_addresses":["192.168.0.1/24"],"mac_address":"0a:58:c0:a8:00:01"}}`
		other, _ = contract.SetNetwork(other, "net/l2", value)
		pod.Annotations = map[string]string{contract.NetworksKey: "net/l2", contract.PodNetworksKey: other}
		all = append(all, pod)
	}
	return all
}

func attachedPort(pod *corev1.Pod) string {
	if pod == nil {
		return "elsewhere"
	}
	return contract.Network{Name: "net/l2"}.PodPort(pod.Namespace, pod.Name)
}

// multiRules builds what a controller would on the network of NAD net/l2.
func multiRules(t *testing.T, namespaces []*corev1.Namespace, pods []*corev1.Pod, multis []runtime.Object) *rules {
	t.Helper()
	objects := append(multis, nadOf("net", "l2", `"name":"tenant","topology":"layer2","subnets":"10.244.0.0/16"`),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", Annotations: map[string]string{contract.NodeChassisIDKey: "chassis"}}})
	for _, namespace := range namespaces {
		objects = append(objects, namespace)
	}
	var owners []contract.Owner
	for _, pod := range pods {
		objects = append(objects, pod)
		owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name).On("net/l2"))
	}
	view := viewOf(t, objects...)
	network := view.Network("tenant")
	if network == nil {
		t.Fatal("no network")
	}
	return collect(t, view, *network, append(append(view.PolicyOwners(), view.PodSetOwners()...), owners...))
}
