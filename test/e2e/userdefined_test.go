//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

func objectsOf(t *testing.T, resource schema.GroupVersionResource, ns string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	if ns == "" {
		return client.Resource(resource)
	}
	return client.Resource(resource).Namespace(ns)
}

// userDefined creates a UserDefinedNetwork in a namespace.
func userDefined(t *testing.T, ns, name, spec string) error {
	t.Helper()
	text := fmt.Sprintf("apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {namespace: %s, name: %s}\nspec: %s\n", ns, name, spec)
	_, err := objectsOf(t, ovnv1.UserDefinedNetworks(), ns).Create(t.Context(), object(text), metav1.CreateOptions{FieldValidation: "Strict"})
	return err
}

// nadResource is that of NetworkAttachmentDefinitions.
var nadResource = kube.NADs()

// clusterUserDefined creates a ClusterUserDefinedNetwork that ends with the test at the latest.
func clusterUserDefined(t *testing.T, name, spec string) dynamic.ResourceInterface {
	t.Helper()
	networks := objectsOf(t, ovnv1.ClusterUserDefinedNetworks(), "")
	text := fmt.Sprintf("apiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: %s}\nspec: %s\n", name, spec)
	if _, err := networks.Create(t.Context(), object(text), metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = networks.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return networks
}

func deleteObject(t *testing.T, objects dynamic.ResourceInterface, name string) {
	t.Helper()
	if err := objects.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitObjectGone waits until an object is not there.
func waitObjectGone(t *testing.T, objects dynamic.ResourceInterface, name string) {
	t.Helper()
	eventually(t, podWithin, name+" is gone", func() (bool, string) {
		u, err := objects.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(u, err)
	})
}

// waitCondition waits for a condition of a network, as "status reason message".
func waitCondition(t *testing.T, networks dynamic.ResourceInterface, name, condition, want string) {
	t.Helper()
	eventually(t, soon, name+" "+condition+" "+want, func() (bool, string) {
		u, err := networks.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		var read ovnv1.UserDefinedNetwork // whose status is that of the other kind, too
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &read); err != nil {
			return false, err.Error()
		}
		found := meta.FindStatusCondition(read.Status.Conditions, condition)
		if found == nil {
			return false, "no condition"
		}
		text := strings.Join([]string{string(found.Status), found.Reason, found.Message}, " ")
		return strings.Contains(text, want), text
	})
}

// waitNames waits for the objects of a kind.
func waitNames(t *testing.T, objects dynamic.ResourceInterface, want string) {
	t.Helper()
	eventually(t, 2*time.Minute, "objects "+want, func() (bool, string) {
		list, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].GetName())
		}
		got := strings.Join(names, " ")
		return got == want, got
	})
}

// TestUserDefinedNetwork_LivesWhilePodsUseIt: from the object to a pod's address, and deletion that waits for the pod.
// What the schema refuses never becomes a network.
func TestUserDefinedNetwork_LivesWhilePodsUseIt(t *testing.T) {
	world.Test(t, world.Networks, world.Core)
	ns := namespace(t)
	networks, nads := objectsOf(t, ovnv1.UserDefinedNetworks(), ns), objectsOf(t, nadResource, ns)
	if err := userDefined(t, ns, "wrong", "{topology: Layer2, layer2: {role: Secondary, subnets: [10.60.0.0/24], joinSubnets: [100.66.0.0/16]}}"); err == nil || !strings.Contains(err.Error(), "joinSubnets is only supported for primary networks") {
		t.Errorf("a secondary network with joinSubnets: %v", err)
	}
	for name, spec := range map[string]string{
		"flat":   "{topology: Layer2, layer2: {role: Secondary, subnets: [10.60.0.0/24]}}",
		"routed": "{topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.61.0.0/16, hostSubnet: 24}]}}",
	} {
		if err := userDefined(t, ns, name, spec); err != nil {
			t.Fatal(err)
		}
		waitCondition(t, networks, name, "NetworkCreated", "True NetworkAttachmentDefinitionCreated")
		waitCondition(t, networks, name, "NetworkAllocationSucceeded", "True NetworkAllocationSucceeded")
	}
	waitNames(t, nads, "flat routed")
	pod := podObject(ns, "user", nodes[1])
	pod.Annotations = map[string]string{contract.NetworksKey: "flat, routed"}
	create(t, pod)
	waitPod(t, ns, "user", "addresses on both networks", func(p *corev1.Pod) bool {
		for key, prefix := range map[string]string{"flat": "10.60.0.", "routed": "10.61."} {
			network, err := contract.ParsePodNetwork(p.Annotations[contract.PodNetworksKey], ns+"/"+key)
			if err != nil || network == nil || !strings.HasPrefix(network.Addresses[0].String(), prefix) {
				return false
			}
		}
		return true
	})
	// A change by hand does not last.
	if _, err := nads.Patch(t.Context(), "flat", types.MergePatchType, []byte(`{"metadata":{"labels":{"k8s.ovn.org/user-defined-network":null,"mine":"x"}},"spec":{"config":"{}"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the NetworkAttachmentDefinition is as it was", func() (bool, string) {
		u, err := nads.Get(t.Context(), "flat", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		config, _, _ := unstructured.NestedString(u.Object, "spec", "config")
		_, marked := u.GetLabels()[contract.UserDefinedNetworkLabel]
		return marked && u.GetLabels()["mine"] == "" && strings.Contains(config, "10.60.0.0/24"), fmt.Sprint(u.Object)
	})
	if err := networks.Delete(t.Context(), "flat", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, networks, "flat", "NetworkCreated", "False SyncError network in use by pods: ["+ns+"/user]")
	waitNames(t, nads, "flat routed")
	deletePod(t, ns, "user")
	waitNames(t, networks, "routed")
	waitNames(t, nads, "routed")
}

// TestUserDefinedNetwork_PrimaryNeedsLabelFromTheBeginning: the label cannot come later, and a second primary network is
// not ready.
func TestUserDefinedNetwork_PrimaryNeedsLabelFromTheBeginning(t *testing.T) {
	world.Test(t, world.Networks)
	const primary = "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.62.0.0/16}]}}"
	plain := namespace(t)
	if err := userDefined(t, plain, "first", primary); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, objectsOf(t, ovnv1.UserDefinedNetworks(), plain), "first", "NetworkCreated", "False SyncError namespace "+plain+" does not have the label")
	label := []byte(`{"metadata":{"labels":{"` + contract.PrimaryNetworkLabel + `":""}}}`)
	if _, err := cluster.client.CoreV1().Namespaces().Patch(t.Context(), plain, types.MergePatchType, label, metav1.PatchOptions{}); err == nil || !strings.Contains(err.Error(), "only when a namespace is created") {
		t.Errorf("the label was added later: %v", err)
	}
	ns := labelledNamespace(t, map[string]string{contract.PrimaryNetworkLabel: ""})
	networks := objectsOf(t, ovnv1.UserDefinedNetworks(), ns)
	if err := userDefined(t, ns, "first", primary); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, networks, "first", "NetworkCreated", "True")
	if err := userDefined(t, ns, "second", primary); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, networks, "second", "NetworkCreated", "False SyncError primary network already exists in namespace "+ns+": first")
}

// TestClusterUserDefinedNetwork_FollowsItsNamespaces: a localnet in two namespaces, of which one ends.
func TestClusterUserDefinedNetwork_FollowsItsNamespaces(t *testing.T) {
	world.Test(t, world.Networks)
	one, two := namespace(t), namespace(t)
	labelNamespace(t, one, "cudn", `"`+one+`"`)
	labelNamespace(t, two, "cudn", `"`+one+`"`)
	name := "vlan-" + one[len(one)-5:]
	networks := clusterUserDefined(t, name, fmt.Sprintf("{namespaceSelector: {matchLabels: {cudn: %s}}, "+
		"network: {topology: Localnet, localnet: {role: Secondary, physicalNetworkName: physnet, subnets: [10.63.0.0/24], vlan: {mode: Access, access: {id: 7}}}}}", one))
	waitNames(t, objectsOf(t, nadResource, one), name)
	waitNames(t, objectsOf(t, nadResource, two), name)
	waitCondition(t, networks, name, "NetworkCreated", "True NetworkAttachmentDefinitionCreated")
	labelNamespace(t, two, "cudn", "null")
	waitNames(t, objectsOf(t, nadResource, two), "")
	labelNamespace(t, two, "cudn", `"`+one+`"`)
	waitNames(t, objectsOf(t, nadResource, two), name)
	if err := cluster.client.CoreV1().Namespaces().Delete(t.Context(), two, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "the namespace ends", func() (bool, string) {
		found, err := cluster.client.CoreV1().Namespaces().Get(t.Context(), two, metav1.GetOptions{})
		return err != nil, fmt.Sprint(found.Status)
	})
	waitCondition(t, networks, name, "NetworkCreated", "True NetworkAttachmentDefinitionCreated NetworkAttachmentDefinition has been created in following namespaces: ["+one+"]")
}

// TestUserDefinedNetworks_ManyLeaveNothing: many at once, created and deleted. The full tier has 300.
func TestUserDefinedNetworks_ManyLeaveNothing(t *testing.T) {
	world.Test(t, world.Networks, world.Strict)
	count := tier.Pick(20, 300)
	ns := namespace(t)
	networks, nads := objectsOf(t, ovnv1.UserDefinedNetworks(), ns), objectsOf(t, nadResource, ns)
	switches := func() int {
		rows := strings.Fields(nbctl(t, "--bare", "--columns=name", "find", "Logical_Switch"))
		n := 0
		for _, name := range rows {
			if strings.HasPrefix(name, strings.ReplaceAll(ns, "-", ".")+"_") {
				n++
			}
		}
		return n
	}
	counts := func(want int) {
		t.Helper()
		began := time.Now()
		eventually(t, 5*time.Minute, fmt.Sprintf("%d networks", want), func() (bool, string) {
			u, err := networks.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return false, err.Error()
			}
			n, err := nads.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return false, err.Error()
			}
			rows := switches()
			return len(u.Items) == want && len(n.Items) == want && rows == want,
				fmt.Sprintf("%d UserDefinedNetworks, %d NetworkAttachmentDefinitions, %d switches", len(u.Items), len(n.Items), rows)
		})
		t.Logf("%d networks after %s", want, time.Since(began).Round(100*time.Millisecond))
	}
	for i := range count {
		if err := userDefined(t, ns, fmt.Sprintf("net-%03d", i), fmt.Sprintf("{topology: Layer2, layer2: {role: Secondary, subnets: [10.%d.%d.0/24]}}", 64+i/200, i%200)); err != nil {
			t.Fatal(err)
		}
	}
	counts(count)
	if err := networks.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	counts(0)
}
