//go:build apiserver

package apiserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// userDefined creates a UserDefinedNetwork in a namespace.
func userDefined(t *testing.T, ns, name, spec string) error {
	t.Helper()
	text := fmt.Sprintf("apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {namespace: %s, name: %s}\nspec: %s\n", ns, name, spec)
	_, err := objectsOf(ovnv1.UserDefinedNetworks(), ns).Create(t.Context(), object(text), metav1.CreateOptions{FieldValidation: "Strict"})
	return err
}

// clusterUserDefined creates a ClusterUserDefinedNetwork that ends with the test at the latest.
func clusterUserDefined(t *testing.T, name, spec string) dynamic.ResourceInterface {
	t.Helper()
	networks := objectsOf(ovnv1.ClusterUserDefinedNetworks(), "")
	text := fmt.Sprintf("apiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: %s}\nspec: %s\n", name, spec)
	if _, err := networks.Create(t.Context(), object(text), metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = networks.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return networks
}

// TestUserDefinedNetwork_LivesWhilePodsUseIt: from the object to a pod's address, and deletion that waits for the
// pod. What the schema refuses never becomes a network.
func TestUserDefinedNetwork_LivesWhilePodsUseIt(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	networks, nads := objectsOf(ovnv1.UserDefinedNetworks(), ns), objectsOf(nadResource, ns)
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
	asksFor(t, ns, "user", "flat, routed")
	user := waitAddresses(t, ns, "user", ns+"/flat", ns+"/routed")
	for key, prefix := range map[string]string{"flat": "10.60.0.", "routed": "10.61."} {
		if address := addressesOn(t, user, ns+"/"+key)[0].String(); !strings.HasPrefix(address, prefix) {
			t.Errorf("the pod has %s on %s", address, key)
		}
	}
	// A change by hand does not last, or is refused.
	if _, err := nads.Patch(t.Context(), "flat", types.MergePatchType, []byte(`{"spec":{"config":"{}"}}`), metav1.PatchOptions{}); err == nil || !strings.Contains(err.Error(), "change this object") {
		t.Errorf("another configuration of the NetworkAttachmentDefinition: %v", err)
	}
	if _, err := nads.Patch(t.Context(), "flat", types.MergePatchType, []byte(`{"metadata":{"labels":{"k8s.ovn.org/user-defined-network":null,"mine":"x"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the NetworkAttachmentDefinition is as it was", func() (bool, string) {
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

// TestUserDefinedNetwork_PrimaryNeedsLabelFromTheBeginning: the label cannot come later, and a second primary
// network is not ready.
func TestUserDefinedNetwork_PrimaryNeedsLabelFromTheBeginning(t *testing.T) {
	t.Parallel()
	const primary = "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.62.0.0/16}]}}"
	plain := namespace(t)
	if err := userDefined(t, plain, "first", primary); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, objectsOf(ovnv1.UserDefinedNetworks(), plain), "first", "NetworkCreated", "False SyncError namespace "+plain+" does not have the label")
	label := []byte(`{"metadata":{"labels":{"` + contract.PrimaryNetworkLabel + `":""}}}`)
	for _, part := range [][]string{nil, {"status"}} {
		_, err := cluster.client.CoreV1().Namespaces().Patch(t.Context(), plain, types.MergePatchType, label, metav1.PatchOptions{}, part...)
		if err == nil || !strings.Contains(err.Error(), "only when a namespace is created") {
			t.Errorf("the label was added later, by %q: %v", part, err)
		}
	}
	ns := labelledNamespace(t, map[string]string{contract.PrimaryNetworkLabel: ""})
	networks := objectsOf(ovnv1.UserDefinedNetworks(), ns)
	if err := userDefined(t, ns, "first", primary); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, networks, "first", "NetworkCreated", "True")
	if err := userDefined(t, ns, "second", primary); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, networks, "second", "NetworkCreated", "False SyncError primary network already exists in namespace "+ns+": first")
}

// TestUserDefinedNetwork_IsRefusedWhereOthersHaveItsSubnet: a NamespaceSubnet is there first, so a network that overlaps it does
// not come to be. The control is a network beside, which a NamespaceSubnet that overlaps it then is refused for.
func TestUserDefinedNetwork_IsRefusedWhereOthersHaveItsSubnet(t *testing.T) {
	t.Parallel()
	primary := func(subnet string) string {
		return "{topology: Layer2, layer2: {role: Primary, subnets: [" + subnet + "]}}"
	}
	one, two := labelledNamespace(t, map[string]string{contract.PrimaryNetworkLabel: ""}), labelledNamespace(t, map[string]string{contract.PrimaryNetworkLabel: ""})
	suffix := one[len(one)-5:]
	namespaceSubnet(t, one, "first-"+suffix, []string{"10.71.0.0/24", "fd00:71::/64"}, "True SubnetAccepted")
	if err := userDefined(t, one, "net", primary("10.71.0.0/16")); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, objectsOf(ovnv1.UserDefinedNetworks(), one), "net", "NetworkCreated", "False SyncError its subnets overlap 10.71.0.0/24")
	if err := userDefined(t, two, "net", primary("10.72.0.0/16")); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, objectsOf(ovnv1.UserDefinedNetworks(), two), "net", "NetworkCreated", "True")
	namespaceSubnet(t, two, "then-"+suffix, []string{"10.72.3.0/24", "fd00:72::/64"}, "False SubnetRefused subnet 10.72.3.0/24 overlaps 10.72.0.0/16 of network")
}

// TestClusterUserDefinedNetwork_FollowsItsNamespaces: a localnet in two namespaces, of which one ends.
func TestClusterUserDefinedNetwork_FollowsItsNamespaces(t *testing.T) {
	t.Parallel()
	one, two := namespace(t), namespace(t)
	labelNamespace(t, one, "cudn", `"`+one+`"`)
	labelNamespace(t, two, "cudn", `"`+one+`"`)
	name := "vlan-" + one[len(one)-5:]
	networks := clusterUserDefined(t, name, fmt.Sprintf("{namespaceSelector: {matchLabels: {cudn: %s}}, "+
		"network: {topology: Localnet, localnet: {role: Secondary, physicalNetworkName: physnet, subnets: [10.63.0.0/24], vlan: {mode: Access, access: {id: 7}}}}}", one))
	waitNames(t, objectsOf(nadResource, one), name)
	waitNames(t, objectsOf(nadResource, two), name)
	waitCondition(t, networks, name, "NetworkCreated", "True NetworkAttachmentDefinitionCreated")
	labelNamespace(t, two, "cudn", "null")
	waitNames(t, objectsOf(nadResource, two), "")
	labelNamespace(t, two, "cudn", `"`+one+`"`)
	waitNames(t, objectsOf(nadResource, two), name)
	if err := cluster.client.CoreV1().Namespaces().Delete(t.Context(), two, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace ends", func() (bool, string) {
		found, err := cluster.client.CoreV1().Namespaces().Get(t.Context(), two, metav1.GetOptions{})
		return err != nil, fmt.Sprint(found.Status)
	})
	waitCondition(t, networks, name, "NetworkCreated", "True NetworkAttachmentDefinitionCreated NetworkAttachmentDefinition has been created in following namespaces: ["+one+"]")
}

// TestUserDefinedNetworks_ManyLeaveNothing: many at once, created and deleted. The full tier has 300.
func TestUserDefinedNetworks_ManyLeaveNothing(t *testing.T) {
	t.Parallel()
	tier.Strict(t)
	count := tier.Pick(20, 300)
	ns := namespace(t)
	networks, nads := objectsOf(ovnv1.UserDefinedNetworks(), ns), objectsOf(nadResource, ns)
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
		eventually(t, fmt.Sprintf("%d networks", want), func() (bool, string) {
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

func labelNamespace(t *testing.T, ns, key, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
	if _, err := cluster.client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
