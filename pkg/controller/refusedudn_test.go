package controller

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
)

func labelledUnstructured(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{contract.PrimaryNetworkLabel: "", "tenant": name}},
	}}
}

// primaryObject is a UserDefinedNetwork of a namespace, or a ClusterUserDefinedNetwork that selects the namespace.
func primaryObject(kind, namespace, subnet string) *unstructured.Unstructured {
	spec := map[string]any{"topology": "Layer2", "layer2": map[string]any{"role": "Primary", "subnets": []any{subnet}}}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion("k8s.ovn.org/v1")
	object.SetKind(kind)
	object.SetName(namespace)
	object.SetUID("u-1")
	if kind == ovnv1.KindClusterUserDefinedNetwork {
		object.Object["spec"] = map[string]any{
			"network": spec, "namespaceSelector": map[string]any{"matchLabels": map[string]any{"tenant": namespace}},
		}
		return object
	}
	object.SetNamespace(namespace)
	return object
}

// TestUserDefined_ConditionsSayWhatOverlaps, of both kinds and in both orders: a range of services that comes first refuses
// the network, and one that comes later keeps load balancers from it. When the range has gone, so has the reason. The control
// is a network beside.
func TestUserDefined_ConditionsSayWhatOverlaps(t *testing.T) {
	kinds := map[string]schema.GroupVersionResource{
		ovnv1.KindUserDefinedNetwork: ovnv1.UserDefinedNetworks(), ovnv1.KindClusterUserDefinedNetwork: ovnv1.ClusterUserDefinedNetworks(),
	}
	var dynamics, typed []runtime.Object
	typed = append(typed, gatewayNode("n1", 2))
	for _, name := range []string{"t1", "t2", "beside"} {
		dynamics = append(dynamics, labelledUnstructured(name))
		typed = append(typed, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{contract.PrimaryNetworkLabel: "", "tenant": name}}})
	}
	for kind, resource := range kinds {
		w := wholeWorld(t, dynamics, typed...)
		w.startAndLead()
		put := func(namespace, subnet string) {
			t.Helper()
			object := primaryObject(kind, namespace, subnet)
			if _, err := w.policies.Resource(resource).Namespace(object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		says := func(name, condition, want string) {
			t.Helper()
			at := name
			if kind == ovnv1.KindClusterUserDefinedNetwork {
				at = ""
			}
			w.eventually(kind+" "+name+": "+condition+" "+want, func() bool {
				object, err := w.policies.Resource(resource).Namespace(at).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					return false
				}
				list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
				for _, item := range list {
					c := item.(map[string]any)
					if c["type"] == condition {
						return strings.HasPrefix(fmt.Sprint(c["status"], " ", c["message"]), want)
					}
				}
				return want == ""
			})
		}
		services := func(name, cidr string) (remove func()) {
			t.Helper()
			object := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
			if _, err := w.client.NetworkingV1().ServiceCIDRs().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			return func() {
				t.Helper()
				if err := w.client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		first := services("first", "10.7.3.0/24")
		put("beside", "10.6.0.0/16")
		says("beside", "NetworkCreated", "True")
		put("t1", "10.7.0.0/16")
		says("t1", "NetworkCreated", "False its subnets overlap 10.7.3.0/24, which is a range of services")
		first()
		says("t1", "NetworkCreated", "True")
		says("t1", "ExternallyReachable", "")
		then := services("then", "10.7.4.0/24")
		says("t1", "ExternallyReachable", "False node ports, external addresses and host ports do not lead to network")
		says("t1", "NetworkCreated", "True")
		then()
		says("t1", "ExternallyReachable", "True")
		says("beside", "ExternallyReachable", "")
		w.stop()
	}
}
