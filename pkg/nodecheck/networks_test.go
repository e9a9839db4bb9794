package nodecheck

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

const world = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: red, labels: {team: red}}}
---
{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {namespace: shop, name: backend, uid: u1}, spec: {}}
---
{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {name: wide, uid: u2}, spec: {namespaceSelector: {matchLabels: {team: red}}}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  {namespace: shop, name: backend, uid: n1, ownerReferences: [{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, name: backend, uid: u1, controller: true}]}
spec: {config: '{"type":"ovn-k8s-cni-overlay","name":"shop_backend","topology":"layer2","netAttachDefName":"shop/backend"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  {namespace: red, name: wide, uid: n2, ownerReferences: [{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, name: wide, uid: u2, controller: true}]}
spec: {config: '{"type":"ovn-k8s-cni-overlay","name":"cluster_udn_wide","topology":"layer2","netAttachDefName":"red/wide"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {namespace: evil, name: any, uid: n3}
spec: {config: '{"type":"ovn-k8s-cni-overlay","name":"shop_backend","topology":"layer2","netAttachDefName":"evil/any"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {namespace: evil, name: wrong, uid: n4}
spec: {config: '{"type":"ovn-k8s-cni-overlay","name":"wrong","topology":"mesh","netAttachDefName":"evil/wrong"}'}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: evil, name: other, annotations: {k8s.v1.cni.cncf.io/networks: shop/backend}}, status: {podIPs: [{ip: 10.244.0.9}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: evil, name: unselected, annotations: {k8s.v1.cni.cncf.io/networks: red/wide}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: evil, name: absent, annotations: {k8s.v1.cni.cncf.io/networks: red/none}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: evil, name: plain}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db, annotations: {k8s.v1.cni.cncf.io/networks: backend}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: red, name: web, annotations: {k8s.v1.cni.cncf.io/networks: wide}}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: evil, name: db, annotations: {ovn-offload.io/network: shop/backend}}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: db, annotations: {ovn-offload.io/network: backend}}}
`

// TestNetworks_AreOfTheirOwners: what a new controller would refuse is listed, and nothing else.
func TestNetworks_AreOfTheirOwners(t *testing.T) {
	nads := schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}
	resources := map[string]schema.GroupVersionResource{"NetworkAttachmentDefinition": nads}
	for kind, resource := range render.Kinds() {
		resources[kind] = resource
	}
	for kind, resource := range map[string]string{"Namespace": "namespaces", "Pod": "pods", "Service": "services"} {
		resources[kind] = corev1.SchemeGroupVersion.WithResource(resource)
	}
	lists := map[schema.GroupVersionResource]string{}
	for kind, resource := range resources {
		lists[resource] = kind + "List"
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	objects := strings.Split(world, "---\n")
	objects = append(objects, longNAD("long", ""), longNAD("former", "annotations: {k8s.ovn.org/network-id: '7'}, "),
		"{apiVersion: v1, kind: Pod, metadata: {namespace: evil, name: many, annotations: {k8s.v1.cni.cncf.io/networks: '"+elements(65, "n%d")+"'}}}")
	for _, text := range objects {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := client.Tracker().Create(resources[object.GetKind()], object, object.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Networks(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	want := []Refused{
		{"NetworkAttachmentDefinition/evil/any", "name shop_backend is reserved for UserDefinedNetwork shop/backend"},
		{"NetworkAttachmentDefinition/evil/long", "subnets has 401 elements, and may have 400"},
		{"Pod/evil/many", "the pod asks for 65 networks"},
		{"Pod/evil/other", "which does not let namespace evil use it: its owner can list evil in annotation ovn-offload.io/namespaces"},
		{"Pod/evil/unselected", "whose namespaceSelector does not select namespace evil"},
		{"Service/evil/db", "which does not let namespace evil use it"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i].Object != want[i].Object || !strings.Contains(got[i].Message, want[i].Message) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

// longNAD is a NetworkAttachmentDefinition beyond a limit.
func longNAD(name, metadata string) string {
	return "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {" + metadata + "namespace: evil, name: " + name + "}\n" +
		`spec: {config: '{"type":"ovn-k8s-cni-overlay","name":"` + name + `","topology":"layer2","netAttachDefName":"evil/` + name + `","subnets":"` +
		elements(401, "fd00:%x::/64") + `"}'}`
}

func elements(n int, form string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(form, i)
	}
	return strings.Join(list, ",")
}
