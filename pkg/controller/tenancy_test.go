package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
)

// TestTenancy_NameThatAnotherOwnerTakes: a pod runs on a network of a NAD. When a UDN of another namespace takes the name, the network
// is the UDN's, and the pod has no port there. Pods of other networks keep theirs, and so do those of the UDN.
func TestTenancy_NameThatAnotherOwnerTakes(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "e"}})
	w.startAndLead()
	w.putNAD("early", `"name":"e_main","role":"secondary","topology":"layer2","subnets":"10.7.0.0/24"`)
	w.putNAD("own", `"name":"own","topology":"layer2","subnets":"10.8.0.0/24"`)
	pods := w.client.CoreV1().Pods("d")
	for name, networks := range map[string]string{"a": "early", "b": "own"} {
		if _, err := pods.Create(t.Context(), asking(name, "n1", networks), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.wantFurther("d.early_d_a", "d.own_d_b", "e_main_ovn_layer2_switch", "own_ovn_layer2_switch")
	for _, name := range []string{"a", "b"} {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.9"}}
		if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for resource, text := range map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "namespaces"}: "{apiVersion: v1, kind: Namespace, metadata: {name: e}}",
		ovnv1.UserDefinedNetworks(): "apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {namespace: e, name: main, uid: u1}\n" +
			"spec: {topology: Layer2, layer2: {role: Secondary, subnets: [10.7.0.0/24]}}\n",
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := w.policies.Resource(resource).Namespace(object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.wantFurther("d.own_d_b", "e_main_ovn_layer2_switch", "own_ovn_layer2_switch")
	member := asking("c", "n1", "main")
	member.Namespace = "e"
	if _, err := w.client.CoreV1().Pods("e").Create(t.Context(), member, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("a port of the UDN's pod", func() bool { return w.hasRow("ovn-offload.io/owner=Pod/e/c@e/main") })
	w.wantFurther("d.own_d_b", "e_main_ovn_layer2_switch", "own_ovn_layer2_switch")
}
