//go:build apiserver

package apiserver

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
)

// nadsOfTenant is a client of a user with all rights over NetworkAttachmentDefinitions of a namespace.
func nadsOfTenant(t *testing.T, ns string) dynamic.ResourceInterface {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "networker"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{nadResource.Group}, Resources: []string{nadResource.Resource}, Verbs: []string{"*"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "networker"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "networker"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "networker"}},
	}
	if _, err := cluster.client.RbacV1().Roles(ns).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.client.RbacV1().RoleBindings(ns).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(impersonating("networker", nil))
	if err != nil {
		t.Fatal(err)
	}
	nads := client.Resource(nadResource).Namespace(ns)
	eventually(t, "the tenant's rights", func() (bool, string) {
		_, err := nads.List(t.Context(), metav1.ListOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return nads
}

// TestTenancy_NetworkBelongsToItsOwner: what the API server refuses of a tenant's NetworkAttachmentDefinitions, what the controller
// refuses of the others, and of pods that ask for networks of another namespace.
func TestTenancy_NetworkBelongsToItsOwner(t *testing.T) {
	t.Parallel()
	shop, evil := namespace(t), namespace(t)
	nads := nadsOfTenant(t, evil)
	if err := userDefined(t, shop, "backend", "{topology: Layer2, layer2: {role: Secondary, subnets: [10.64.0.0/24]}}"); err != nil {
		t.Fatal(err)
	}
	udns := objectsOf(ovnv1.UserDefinedNetworks(), shop)
	waitCondition(t, udns, "backend", "NetworkAllocationSucceeded", "True")
	made, err := objectsOf(nadResource, shop).Get(t.Context(), "backend", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner := made.GetOwnerReferences()[0]
	const flat = `"topology": "layer2", "subnets": "10.64.0.0/24"`
	with := func(name, metadata string) string {
		return strings.Replace(networkOf(evil, name, flat), "name: "+name+"}", "name: "+name+", "+metadata+"}", 1)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"id":     {with("id", `annotations: {k8s.ovn.org/network-id: "1"}`), "only the network's controller may write annotation k8s.ovn.org/network-id"},
		"named":  {with("named", `annotations: {k8s.ovn.org/network-name: x}`), "k8s.ovn.org/network-name"},
		"forged": {with("forged", fmt.Sprintf("ownerReferences: [{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, name: backend, uid: %s, controller: true}]", owner.UID)), "remove its ownerReferences"},
		"wide":   {strings.Replace(networkOf(evil, "wide", flat), evil+".wide", "cluster_udn_wide", 1), "names of networks that begin with cluster_udn_"},
		"plain":  {networkOf(evil, "plain", flat), ""},
		"squat":  {strings.Replace(networkOf(evil, "squat", flat), evil+".squat", shop+"_backend", 1), ""},
	} {
		_, err := nads.Create(t.Context(), object(tc.text), metav1.CreateOptions{})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("NetworkAttachmentDefinition %s: %v, want %q", name, err, tc.want)
		}
	}
	wantEvent(t, evil, "InvalidConfig", "squat", "name "+shop+"_backend is reserved for UserDefinedNetwork "+shop+"/backend")

	asksFor(t, evil, "guest", shop+"/backend")
	wantEvent(t, evil, "NetworkNotFound", "guest", "network "+shop+"_backend belongs to UserDefinedNetwork backend of namespace "+shop)
	asksFor(t, evil, "member", "squat")
	wantEvent(t, evil, "NetworkNotFound", "member", "is reserved for")
	asksFor(t, shop, "db", "backend")
	waitAddresses(t, shop, "db", shop+"/backend")
	for _, name := range []string{"guest", "member"} {
		if has := getPod(t, evil, name).Annotations[contract.PodNetworksKey]; strings.Contains(has, "10.64.0.") {
			t.Errorf("pod %s has %s", name, has)
		}
	}
	// The owner lets the namespace in.
	grant := []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, contract.NamespacesKey, evil))
	if _, err := udns.Patch(t.Context(), "backend", types.MergePatchType, grant, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitAddresses(t, evil, "guest", shop+"/backend")

	// The id of a network is not its annotation.
	id := func() string {
		nad, err := nads.Get(t.Context(), "plain", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return nad.GetAnnotations()[contract.NetworkIDKey]
	}
	eventually(t, "the network has an id", func() (bool, string) { return id() != "", "none" })
	before := id()
	if _, err := nads.Patch(t.Context(), "plain", types.MergePatchType, []byte(`{"metadata":{"annotations":{"k8s.ovn.org/network-id":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the network's id is back", func() (bool, string) { return id() == before, id() })
}

// TestClusterUserDefinedNetwork_SelectorIsReadable: a selector that cannot be read is refused, or is in the condition, and the object
// can be deleted.
func TestClusterUserDefinedNetwork_SelectorIsReadable(t *testing.T) {
	t.Parallel()
	networks := objectsOf(ovnv1.ClusterUserDefinedNetworks(), "")
	const network = "network: {topology: Layer2, layer2: {role: Secondary, subnets: [10.65.0.0/24]}}"
	text := func(name, selector string) string {
		return fmt.Sprintf("apiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: %s}\nspec: {namespaceSelector: %s, %s}\n", name, selector, network)
	}
	for _, selector := range []string{"{matchExpressions: [{key: team, operator: In}]}", "{matchExpressions: [{key: team, operator: NotIn, values: []}]}", "{matchExpressions: [{key: team, operator: Exists, values: [x]}]}"} {
		if _, err := networks.Create(t.Context(), object(text("unreadable-in", selector)), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "values is required with the operators In and NotIn") {
			t.Errorf("selector %s: %v", selector, err)
		}
	}
	clusterUserDefined(t, "unreadable", "{namespaceSelector: {matchLabels: {team: a b}}, "+network+"}")
	waitCondition(t, networks, "unreadable", "NetworkCreated", "False NetworkAttachmentDefinitionSyncError namespaceSelector: ")
	deleteObject(t, networks, "unreadable")
	eventually(t, "the object is gone", func() (bool, string) {
		_, err := networks.Get(t.Context(), "unreadable", metav1.GetOptions{})
		return err != nil, fmt.Sprint(err)
	})
}
