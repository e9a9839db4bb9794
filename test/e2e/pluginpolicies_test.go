//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	ways "github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestPlugin_ExplainsPoliciesOfTheCluster: explain and flows --policy have the stream that an AdminNetworkPolicy lets pass, and not
// for one that decides about nothing; of the first they say that its log costs hardware. A headless service has the stream to its
// pod, and one of other pods has none.
func TestPlugin_ExplainsPoliciesOfTheCluster(t *testing.T) {
	world.Test(t, world.Tools)
	client := clusterPolicies(t)
	ns := world.Namespace(t)
	web, from := world.Pod(ns, "web", nodes[2]), world.Pod(ns, "client", nodes[1])
	world.Run(t, web, from)
	logs, idle := "logs-"+ns, "idle-"+ns
	for name, c := range map[string]struct{ annotation, peer string }{logs: {`{"allow":"info"}`, "client"}, idle: {`{}`, "other"}} {
		applyClusterPolicy(t, client, contract.KindAdminNetworkPolicy, fmt.Sprintf(`
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: %[1]s, annotations: {k8s.ovn.org/acl-logging: '%[2]s'}}
spec:
  priority: 60
  subject: {pods: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[3]s}}, podSelector: {matchLabels: {app: web}}}}
  ingress: [{action: Allow, from: [{pods: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[3]s}}, podSelector: {matchLabels: {app: %[4]s}}}}]}]`,
			name, c.annotation, ns, c.peer))
	}
	headless := func(app string) string {
		return world.Service(t, ns, func(spec *corev1.ServiceSpec) {
			spec.ClusterIP, spec.Selector = corev1.ClusterIPNone, map[string]string{"app": app}
			spec.Ports = []corev1.ServicePort{{Name: "a", Port: world.EchoPort, Protocol: corev1.ProtocolTCP}}
		}).Name
	}
	own, others := headless("web"), headless("other")
	target := netip.AddrPortFrom(world.Addresses(web)[0], world.EchoPort).String()
	world.MustInPod(t, from, "sh", "-c", "(probe stream tcp "+target+" </dev/null >/dev/null 2>&1 &)")
	isTheirs := func(s ways.Stream) bool { return s.From == "pod/"+ns+"/client" && s.To == "pod/"+ns+"/web" }
	world.Eventually(t, flowsWithin, "the policy has the stream", func() (bool, string) {
		d, code := kubectlOffloadJSON[says.Deciding](t, "explain", "anp/"+logs)
		return code == 0 && d.Selected != nil && *d.Selected == 1 && slices.ContainsFunc(d.Streams, isTheirs) && strings.Contains(strings.Join(d.Facts, " "), "each packet visits ovn-controller"), fmt.Sprintf("%+v", d)
	})
	out, _ := kubectlOffload(t, "explain", "anp/"+logs)
	t.Log(out)
	hasNone := func(args ...string) (d says.Deciding) {
		t.Helper()
		world.Eventually(t, flowsWithin, fmt.Sprintf("all agents answer, and %q has no stream", args), func() (bool, string) {
			if d, _ = kubectlOffloadJSON[says.Deciding](t, append([]string{"explain"}, args...)...); len(d.Streams) != 0 {
				t.Fatalf("%q has streams: %+v", args, d)
			}
			return d.Object != "" && len(d.Missing) == 0, fmt.Sprintf("%+v", d)
		})
		return d
	}
	if d := hasNone("anp/" + idle); len(d.Facts) != 0 || d.Selected == nil || *d.Selected != 1 {
		t.Errorf("of a policy that decides nothing and logs nothing: %+v", d)
	}
	for name, want := range map[string]bool{"anp/" + logs: true, "anp/" + idle: false, "cnp/" + logs: false, logs: false} {
		world.Eventually(t, flowsWithin, fmt.Sprintf("flows --policy %s has the stream: %t", name, want), func() (bool, string) {
			a, _ := kubectlOffloadJSON[says.Streams](t, "flows", "-n", ns, "--policy", name)
			return slices.ContainsFunc(a.Streams, isTheirs) == want && len(a.Missing) == 0 && a.Kind != "", fmt.Sprintf("%+v", a)
		})
	}
	world.Eventually(t, flowsWithin, "the headless service has the stream", func() (bool, string) {
		d, _ := kubectlOffloadJSON[says.Deciding](t, "explain", "svc/"+own, "-n", ns)
		return slices.ContainsFunc(d.Streams, isTheirs), fmt.Sprintf("%+v", d)
	})
	out, _ = kubectlOffload(t, "explain", "svc/"+own, "-n", ns)
	t.Log(out)
	hasNone("svc/"+others, "-n", ns) // of other pods
	verbRefuses(t, says.Degraded, "there is no AdminNetworkPolicy none", "explain", "anp/none")
}
