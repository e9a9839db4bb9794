package controller

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
)

// TestNetworkChaining_TheNextHasTheNetwork: of two chains with one network, the older has it. When this one goes, the other
// has the network at once, and the pods there have its routes.
func TestNetworkChaining_TheNextHasTheNetwork(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"))
	w.native = true
	w.startAndLead()
	for number, name := range []string{"left", "right", "other"} {
		w.putNAD(name, fmt.Sprintf(`"name":"%s","topology":"layer2","subnets":"10.%d.0.0/24","defaultGatewayIPs":"10.%[2]d.0.1","portSecurity":"mac"`, name, 7+number))
	}
	pod := asking("end", "n1", "left")
	pod.Annotations[contract.PodNetworksKey] = `{"d/left":{"ip_addresses":["10.7.0.99/24"],"mac_address":"0a:58:0a:07:00:63"}}`
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.99"}}
	if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	chains := w.policies.Resource(opnfv.NetworkChainings()).Namespace("d")
	for name, path := range map[string]string{"a": "left,app=fw,right", "b": "left,app=fw,other"} {
		if _, err := chains.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "k8s.plugin.opnfv.org/v1alpha1", "kind": contract.KindNetworkChaining, "metadata": map[string]any{"namespace": "d", "name": name, "uid": name},
			"spec": map[string]any{"chainType": "Routing", "routingSpec": map[string]any{"networkChain": path}},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(name, state, dest string) {
		t.Helper()
		w.eventually(fmt.Sprintf("chain %s in the state %s, and the route to %s", name, state, dest), func() bool {
			object, err := chains.Get(t.Context(), name, metav1.GetOptions{})
			pod, podErr := w.client.CoreV1().Pods("d").Get(t.Context(), "end", metav1.GetOptions{})
			return err == nil && podErr == nil && strings.Contains(fmt.Sprint(object.Object["status"]), state) &&
				strings.Contains(pod.Annotations[contract.PodNetworksKey], `"routes":[{"dest":"`+dest+`","nextHop":"10.7.0.1"}]`)
		})
	}
	want("a", "state:Created", "10.8.0.0/24")
	want("b", "network d/left is in chain d/a, which is older", "10.8.0.0/24")
	if err := chains.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("b", "state:Created", "10.9.0.0/24")
}
