//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// agentFlows asks the agent of a node at its socket.
func agentFlows(t *testing.T, node, query string) *flowapi.Flows {
	t.Helper()
	out := world.MustOnNode(t, node, "curl", "-s", "-m", "30", "--unix-socket", "/run/ovn-kubernetes/flows.sock",
		"http://agent/v1/flows?"+query)
	flows := &flowapi.Flows{}
	if err := json.Unmarshal([]byte(out), flows); err != nil {
		t.Fatalf("flows of %s: %v: %s", node, err, out)
	}
	return flows
}

// TestFlows_AgentHasThoseOfPodsWithTheirRules: the flows of a connection are there on both nodes, with rules; those of a pod
// without traffic are not.
func TestFlows_AgentHasThoseOfPodsWithTheirRules(t *testing.T) {
	world.Test(t, world.Tools, world.Core)
	ns := world.Namespace(t)
	server, client := world.Pod(ns, "server", nodes[1]), world.Pod(ns, "client", nodes[2])
	world.Run(t, server, client, world.Pod(ns, "silent", nodes[2]))
	to := netip.AddrPortFrom(world.Addresses(server)[0], world.EchoPort)
	for _, tc := range []struct {
		pod, node string
		ends      func(f *flowapi.Flow) bool
	}{
		{"client", nodes[2], func(f *flowapi.Flow) bool {
			return f.From.Pod == "client" && strings.HasPrefix(f.Target, to.Addr().String())
		}},
		{"server", nodes[1], func(f *flowapi.Flow) bool { return len(f.To) == 1 && f.To[0].Pod == "server" }},
	} {
		world.Eventually(t, flowsWithin, "flows of "+tc.pod, func() (bool, string) {
			world.MustInPod(t, client, "probe", "dial", "tcp", to.String())
			flows := agentFlows(t, tc.node, "why=true&namespace="+ns+"&pod="+tc.pod)
			for i := range flows.Flows {
				f := &flows.Flows[i]
				if f.Packets > 0 && tc.ends(f) && f.Why != nil && len(f.Why.Rules) > 3 {
					return true, ""
				}
			}
			text, _ := json.Marshal(flows)
			return false, string(text)
		})
	}
	// What is not there is looked for in answers that have the flows of the connection.
	isTCP := func(f flowapi.Flow) bool { return f.Protocol == "tcp" }
	world.Eventually(t, flowsWithin, "the client's node has flows of the client and none of the pod without connections",
		func() (bool, string) {
			world.MustInPod(t, client, "probe", "dial", "tcp", to.String())
			silent := agentFlows(t, nodes[2], "namespace="+ns+"&pod=silent").Flows
			if slices.ContainsFunc(silent, isTCP) {
				t.Fatalf("a pod without connections has flows: %+v", silent)
			}
			own := agentFlows(t, nodes[2], "namespace="+ns+"&pod=client").Flows
			return slices.ContainsFunc(own, isTCP), fmt.Sprintf("%+v", own)
		})
	world.Eventually(t, flowsWithin, "the server's node has flows of the server and none of the client", func() (bool, string) {
		world.MustInPod(t, client, "probe", "dial", "tcp", to.String())
		if flows := agentFlows(t, nodes[1], "namespace="+ns+"&pod=client"); flows.Matched > 0 {
			t.Fatalf("the other node has flows of the client: %+v", flows)
		}
		own := agentFlows(t, nodes[1], "namespace="+ns+"&pod=server").Flows
		return slices.ContainsFunc(own, isTCP), fmt.Sprintf("%+v", own)
	})
}

// TestFlows_AreForTheRelayAndAdministrators: the address of the NodeOffload answers to the relay's certificate and to the
// token of an account that may list podflows; not to others.
func TestFlows_AreForTheRelayAndAdministrators(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	at := flowEndpoint(t, nodes[1])
	relay, err := cluster.client.CoreV1().Secrets(system).Get(t.Context(), "ovn-relay", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := "/tmp/" + ns + ".pem"
	world.MustOnNode(t, nodes[2], "sh", "-c",
		fmt.Sprintf("umask 077; cat > %s <<'END'\n%s%sEND", file, relay.Data[corev1.TLSCertKey],
			relay.Data[corev1.TLSPrivateKeyKey]))
	t.Cleanup(func() { world.MustOnNode(t, nodes[2], "rm", file) })
	reader, tenant := accountToken(t, ns, "reader"), accountToken(t, ns, "tenant")
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"ovn-offload.io"}, Resources: []string{"podflows"}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: ns},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "reader"}},
	}
	if _, err := cluster.client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cluster.client.RbacV1().ClusterRoleBindings().Delete(context.Background(), ns, metav1.DeleteOptions{})
		_ = cluster.client.RbacV1().ClusterRoles().Delete(context.Background(), ns, metav1.DeleteOptions{})
	})
	authorized(t, ns, "reader", authorizationv1.ResourceAttributes{Group: "ovn-offload.io", Resource: "podflows", Verb: "list"})
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"relay":              {[]string{"--cert", file}, "200"},
		"nothing":            {nil, "401"},
		"administrator":      {[]string{"-H", "Authorization: Bearer " + reader}, "200"},
		"tenant":             {[]string{"-H", "Authorization: Bearer " + tenant}, "403"},
		"no token":           {[]string{"-H", "Authorization: Bearer " + strings.Repeat("x", 20)}, "403"},
		"chassis of a node":  {[]string{"--cert", "/var/lib/ovn-offload/chassis/tls.crt", "--key", "/var/lib/ovn-offload/chassis/tls.key"}, "401"},
		"other certificates": {[]string{"--cert", file, "--tls-max", "1.2"}, "000"}, // TLS 1.3 keeps the client's name secret
	} {
		world.Eventually(t, world.Soon, "answer to "+name, func() (bool, string) {
			out, _ := world.OnNode(nodes[2], append([]string{"curl", "-sk", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}",
				"https://" + at.Address + "/v1/summary"}, tc.args...)...)
			if out == "200" && tc.want != "200" {
				t.Fatalf("%s has an answer, want %s", name, tc.want)
			}
			return out == tc.want, out + ", want " + tc.want
		})
	}
	out := world.MustOnNode(t, nodes[2], "sh", "-c",
		"openssl s_client -connect "+at.Address+" </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256")
	if got := strings.ToLower(strings.ReplaceAll(out, ":", "")); !strings.Contains(got, at.Fingerprint) {
		t.Errorf("the certificate is another one than the NodeOffload's %s: %s", at.Fingerprint, out)
	}
}

// flowEndpoint is where the NodeOffload says that the agent of a node is.
func flowEndpoint(t *testing.T, node string) *v1alpha1.AgentEndpoint {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	var at *v1alpha1.AgentEndpoint
	world.Eventually(t, time.Minute, "the NodeOffload has the agent's address", func() (bool, string) {
		u, err := client.Resource(v1alpha1.NodeOffloads()).Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		object, err := v1alpha1.Decode[v1alpha1.NodeOffload](u)
		if err != nil {
			return false, err.Error()
		}
		at = object.Status.Agent
		return at != nil, fmt.Sprintf("%+v", object.Status)
	})
	return at
}

// authorized waits until the API server lets an account do something: who asks earlier remembers the refusal for a minute.
func authorized(t *testing.T, ns, account string, may authorizationv1.ResourceAttributes) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + ns + ":" + account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + ns, "system:authenticated"}, ResourceAttributes: &may,
	}}
	world.Eventually(t, world.Soon, fmt.Sprintf("account %s has the right to %s %s", account, may.Verb, may.Resource),
		func() (bool, string) {
			got, err := cluster.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			return err == nil && got.Status.Allowed, fmt.Sprint(err)
		})
}

// accountToken makes an account, and gives a token of it.
func accountToken(t *testing.T, ns, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := cluster.client.CoreV1().ServiceAccounts(ns).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := cluster.client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}
