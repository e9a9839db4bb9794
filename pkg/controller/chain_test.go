package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// TestNetworkChaining_FollowsItsPodsAndNetworks: a chain has a state, and a router once its networks are there. A function
// gets packets while it is ready. Pods have its routes, also those that ran before it. All goes with the chain, also if no controller runs then.
func TestNetworkChaining_FollowsItsPodsAndNetworks(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"))
	w.native = true
	w.startAndLead()
	early := asking("early", "n1", `left`)
	early.Annotations[contract.PodNetworksKey] = `{"d/left":{"ip_addresses":["10.7.0.99/24"],"mac_address":"0a:58:0a:07:00:63"}}`
	early.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.99"}}
	if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), early, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	chains := w.policies.Resource(opnfv.NetworkChainings()).Namespace("d")
	chain := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.plugin.opnfv.org/v1alpha1", "kind": contract.KindNetworkChaining, "metadata": map[string]any{"namespace": "d", "name": "c", "uid": "c"},
		"spec": map[string]any{"chainType": "Routing", "routingSpec": map[string]any{"networkChain": "left,app=fw,right"}},
	}}
	if _, err := chains.Create(t.Context(), chain, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	state := func(want string) {
		t.Helper()
		w.eventually("the state "+want, func() bool {
			object, err := chains.Get(t.Context(), "c", metav1.GetOptions{})
			return err == nil && fmt.Sprint(object.Object["status"]) == want
		})
	}
	router := func() string { return strings.TrimSpace(w.server.Dump("Logical_Router", "name")) }
	policies := func(want ...string) {
		t.Helper()
		w.eventually(fmt.Sprint("packets to ", want), func() bool {
			var found []string
			for _, address := range []string{"10.7.0.10", "10.8.0.10"} {
				if strings.Contains(w.server.Dump("Logical_Router_Policy", "nexthops"), address) {
					found = append(found, address)
				}
			}
			return slices.Equal(found, want)
		})
	}
	network := func(name string, number int, topology string) {
		w.putNAD(name, fmt.Sprintf(`"name":"%s","topology":"%s","subnets":"10.%d.0.0/24","defaultGatewayIPs":"10.%[3]d.0.1","portSecurity":"mac"`, name, topology, number))
	}
	missing := func(name string) string {
		return "map[message:network d/" + name + " does not exist, or its namespace may not use it state:CreateInternalError]"
	}
	state(missing("left"))
	event := func(reason, note string) {
		t.Helper()
		w.eventually("the Event "+reason, func() bool {
			events, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
				return e.Reason == reason && e.Regarding.Name == "c" && strings.Contains(e.Note, note)
			})
		})
	}
	event("PartRefused", "network d/left does not exist")
	network("left", 7, "layer2")
	state(missing("right"))
	network("right", 8, "localnet")
	state("map[state:Created]")
	leads := func(name string, led bool) {
		t.Helper()
		w.eventually("routes of "+name, func() bool {
			pod, err := w.client.CoreV1().Pods("d").Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && led == strings.Contains(pod.Annotations[contract.PodNetworksKey], `"routes":[{"dest":"10.8.0.0/24","nextHop":"10.7.0.1"}]`)
		})
	}
	leads("early", true)
	physical := w.policies.Resource(v1alpha1.PhysicalNetworks())
	if _, err := physical.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.Version, "kind": "PhysicalNetwork", "metadata": map[string]any{"name": "right"}, "spec": map[string]any{"namespaces": []any{}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	state(missing("right"))
	w.eventually("no router", func() bool { return !strings.Contains(router(), "chain_d_c") })
	leads("early", false)
	if err := physical.Delete(t.Context(), "right", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the router", func() bool { return strings.Contains(router(), "chain_d_c") })
	policies()

	pod := asking("fw", "n1", `[{"name":"left","ips":["10.7.0.10"]},{"name":"right","ips":["10.8.0.10"]}]`)
	pod.Labels = map[string]string{"app": "fw"}
	end := asking("end", "n1", `left`)
	for _, p := range []*corev1.Pod{pod, end} {
		if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	leads("end", true)
	policies() // it is not ready
	ready := func(status corev1.ConditionStatus) {
		t.Helper()
		now, err := w.client.CoreV1().Pods("d").Get(t.Context(), "fw", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		now.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		if _, err := w.client.CoreV1().Pods("d").UpdateStatus(t.Context(), now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ready(corev1.ConditionTrue)
	policies("10.7.0.10", "10.8.0.10")
	ready(corev1.ConditionFalse)
	policies()
	ready(corev1.ConditionTrue)
	policies("10.7.0.10", "10.8.0.10")
	w.dropNAD("right")
	state(missing("right"))
	w.eventually("no router", func() bool { return !strings.Contains(router(), "chain_d_c") })
	network("right", 8, "localnet")
	policies("10.7.0.10", "10.8.0.10")
	w.stop()
	if err := chains.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.startAndLead()
	w.eventually("no router", func() bool { return !strings.Contains(router(), "chain_d_c") })
	policies()
}
