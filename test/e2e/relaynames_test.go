//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/web"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// policiesDecide has a policy of each of two namespaces decide about the packets that a pod keeps sending.
func policiesDecide(t *testing.T, client, vault *corev1.Pod) {
	t.Helper()
	ns, other := client.Namespace, vault.Namespace
	world.LabelPod(t, vault, `{"app":"vault"}`)
	world.CreatePolicy(t, other, "guards-vault", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "vault"}}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}}},
	})
	world.CreatePolicy(t, ns, "lets-out", networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, Egress: []networkingv1.NetworkPolicyEgressRule{{}},
	})
	keepsSending(t, client, "true", world.Endpoints(vault)[0].String())
}

// namesAreMissing is of the full tier, because rights are remembered for a minute (TestRelay_WithoutNamesStillShowsFlows of pkg/relay
// has the same answers). Without the relay's right to ask for names the page has none. An administrator would not do as viewer: the
// page names flows itself for users who may run commands in our pods.
func namesAreMissing(t *testing.T, viewer, tenant opened, client, vault *corev1.Pod) {
	t.Helper()
	flows := "/api/v1/views/flows?pod=" + client.Namespace + "/" + client.Name
	restore := withoutNames(t)
	world.Eventually(t, relayWithin, "without the right names are missing, and flows are there", func() (bool, string) {
		code, text := viewer.get(t, flows)
		return code == http.StatusOK && strings.Contains(text, "names of flows: asking for names: 403") && strings.Contains(text, vault.Status.PodIP) &&
			!strings.Contains(text, "NetworkPolicy/"), fmt.Sprint(code, text)
	})
	world.Eventually(t, relayWithin, "a tenant does not learn where the controller is", func() (bool, string) {
		code, text := tenant.get(t, flows)
		return code == http.StatusOK && strings.Contains(text, "the leading controller does not answer") && !strings.Contains(text, ":9413"), fmt.Sprint(code, text)
	})
	restore()
}

// namesInRelay: a viewer of all namespaces and nodes sees both policies, and who may view one namespace sees its policy and the
// other's kind. In the full tier namesAreMissing was before, and the controller remembers for a minute that the relay had no right.
func namesInRelay(t *testing.T, viewer, tenant opened, client, vault *corev1.Pod) {
	t.Helper()
	ns, other := client.Namespace, vault.Namespace
	flows := "/api/v1/views/flows?pod=" + ns + "/" + client.Name
	world.Eventually(t, relayWithin, "a viewer of all sees the policies of both namespaces", func() (bool, string) {
		code, text := viewer.get(t, flows)
		return code == http.StatusOK && strings.Contains(text, "NetworkPolicy/"+ns+"/lets-out") && strings.Contains(text, "NetworkPolicy/"+other+"/guards-vault") &&
			!strings.Contains(text, "names of flows"), fmt.Sprint(code, text)
	})
	world.Eventually(t, relayWithin, "the tenant sees his policy, and that another one decides", func() (bool, string) {
		code, text := tenant.get(t, flows)
		if strings.Contains(text, other) || strings.Contains(text, "guards-vault") {
			t.Fatalf("the tenant sees a foreign name: %s", text)
		}
		return code == http.StatusOK && strings.Contains(text, "NetworkPolicy/"+ns+"/lets-out") && strings.Contains(text, "NetworkPolicy of another namespace"), fmt.Sprint(code, text)
	})
	if tier.IsFull() {
		mostAreNamed(t, viewer)
	}
	namesAreForTheRelay(t, ns)
}

// viewerConfig is a kubeconfig of an account that may view the whole cluster and do nothing.
func viewerConfig(t *testing.T, ns string) string {
	t.Helper()
	config, rights := accountConfig(t, ns, "viewer"), cluster.client.RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"ovn-offload.io"}, Resources: []string{"nodeoffloads", "podoffloads", "podflows"}, Verbs: []string{"get"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ns},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "viewer", Namespace: ns}},
	}
	_, roleErr := rights.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	_, bindingErr := rights.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	if err := errors.Join(roleErr, bindingErr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = rights.ClusterRoleBindings().Delete(context.Background(), ns, metav1.DeleteOptions{})
		_ = rights.ClusterRoles().Delete(context.Background(), ns, metav1.DeleteOptions{})
	})
	authorized(t, ns, "viewer", authorizationv1.ResourceAttributes{Group: "ovn-offload.io", Resource: "podflows", Verb: "get"})
	return config
}

// mostAreNamed counts the flows of a node on the page, which are those of all that runs there: it is of the full tier. The API server sends each request to any replica of the relay, and the
// controller remembers for a minute that one had no right.
func mostAreNamed(t *testing.T, viewer opened) {
	t.Helper()
	world.Eventually(t, relayWithin, "most flows of a node have names on the page", func() (bool, string) {
		code, text := viewer.get(t, "/api/v1/views/flows?node="+nodes[1])
		var view web.View
		if err := json.Unmarshal([]byte(text), &view); err != nil || code != http.StatusOK || view.Flows == nil {
			return false, fmt.Sprintf("status %d: %v: %s", code, err, text)
		}
		named, all := 0, 0
		unnamed := view.Flows.Missing
		for _, f := range view.Flows.Flows {
			if f.Stale {
				continue
			}
			if all++; flownames.Unnamed(f) == "" {
				named++
			} else {
				unnamed = append(unnamed, flownames.Unnamed(f)+" "+f.Match)
			}
		}
		return all >= 10 && named*10 >= all*9, fmt.Sprintf("%d of %d flows have names: %s", named, all, strings.Join(unnamed, "\n"))
	})
}

// withoutNames takes the relay's right to ask for names away, and gives it back.
func withoutNames(t *testing.T) (restore func()) {
	t.Helper()
	set := func(change func(*rbacv1.ClusterRole)) {
		roles := cluster.client.RbacV1().ClusterRoles()
		role, err := roles.Get(t.Context(), "ovn-offload-relay", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if change(role); err == nil {
			_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	of := func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, flownames.Resource) }
	var rules []rbacv1.PolicyRule
	set(func(role *rbacv1.ClusterRole) {
		rules = slices.Clone(role.Rules)
		if role.Rules = slices.DeleteFunc(role.Rules, of); len(role.Rules) == len(rules) {
			t.Fatal("the relay has no right to ask for names")
		}
	})
	return func() { set(func(role *rbacv1.ClusterRole) { role.Rules = rules }) }
}

// namesAreForTheRelay: the address of the Lease answers to a token of the relay that is for names, and to no other.
func namesAreForTheRelay(t *testing.T, ns string) {
	t.Helper()
	lease, err := cluster.client.CoordinationV1().Leases(system).Get(t.Context(), "ovn-kubernetes-master", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var at flownames.Endpoint
	if err := json.Unmarshal([]byte(lease.Annotations[flownames.LeaseKey]), &at); err != nil {
		t.Fatalf("%v: %v", err, lease.Annotations)
	}
	token := func(ns, account string, audiences ...string) string {
		asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
		got, err := cluster.client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), account, asked, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status.Token
	}
	for name, tc := range map[string]struct{ token, body, want string }{
		"the relay":                    {token(system, "ovn-offload-relay", flownames.Audience), `{"cookies":[1]}`, "200"},
		"the relay, for the API":       {token(system, "ovn-offload-relay"), `{"cookies":[1]}`, "403"},
		"a tenant":                     {token(ns, "tenant", flownames.Audience), `{"cookies":[1]}`, "403"},
		"without a token":              {"", `{"cookies":[1]}`, "401"},
		"the relay, with 4001 cookies": {token(system, "ovn-offload-relay", flownames.Audience), `{"cookies":[1` + strings.Repeat(",1", 4000) + `]}`, "400"},
	} {
		args := []string{"curl", "-sk", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "-d", tc.body, "https://" + at.Address + flownames.Path}
		if tc.token != "" {
			args = append(args, "-H", "Authorization: Bearer "+tc.token)
		}
		world.Eventually(t, relayWithin, fmt.Sprintf("%s asks for names: status %s", name, tc.want), func() (bool, string) {
			out, err := world.OnNode(nodes[2], args...)
			if out == "200" && tc.want != "200" {
				t.Fatalf("%s asks for names: status %s, want %s", name, out, tc.want)
			}
			return out == tc.want, fmt.Sprintf("%s (%v)", out, err)
		})
	}
}
