//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const silence = 3 * time.Second

// TestNetworkPolicy_IsLoggedWithAnnotation: with the namespace's annotation, what a policy drops and what
// it lets in is in the log of the pod's node; without it nothing is.
func TestNetworkPolicy_IsLoggedWithAnnotation(t *testing.T) {
	world.Test(t, world.Policies)
	ns := world.Namespace(t)
	target, from := world.Run(t, world.Pod(ns, "target", nodes[1]))[0], world.Shared(t).Clients[2]
	address := world.Endpoints(target)[0]
	port := intstr.FromInt32(world.EchoPort)
	world.CreatePolicy(t, ns, "tcp-alone", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: target.Labels},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}},
	})
	knock := func() (tcp, udp bool, lines []string) {
		got, err := world.FromPod(from).Reached("tcp:"+address.String(), "udp:"+address.String())
		if err != nil {
			t.Fatal(err)
		}
		tcp, udp = slices.Contains(got, "tcp:"+address.String()), slices.Contains(got, "udp:"+address.String())
		for line := range strings.Lines(flowLog(t, nodes[1])) {
			if strings.Contains(line, `"NP:`+ns+`:`) {
				lines = append(lines, line)
			}
		}
		return tcp, udp, lines
	}
	world.Eventually(t, world.PolicyWithin, "the policy holds", func() (bool, string) {
		tcp, udp, _ := knock()
		return tcp && !udp, fmt.Sprint(tcp, udp)
	})
	if _, _, lines := knock(); len(lines) > 0 {
		t.Errorf("logged without the annotation: %s", lines)
	}
	annotate := []byte(`{"metadata":{"annotations":{"k8s.ovn.org/acl-logging":"{\"deny\":\"alert\",\"allow\":\"notice\"}"}}}`)
	if _, err := cluster.client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, annotate, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, world.PolicyWithin, "both verdicts are logged", func() (bool, string) {
		_, _, lines := knock()
		all := strings.Join(lines, "")
		return strings.Contains(all, "verdict=drop, severity=alert") && strings.Contains(all, "verdict=allow, severity=notice"), all
	})
}

// flowLog is the log of a node's ovn-controller.
func flowLog(t *testing.T, node string) string {
	t.Helper()
	pods, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: "app=ovnkube-node", FieldSelector: "spec.nodeName=" + node})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("ovnkube-node on %s: %d pods, %v", node, len(pods.Items), err)
	}
	text, err := cluster.client.CoreV1().Pods(system).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Container: "ovn-controller"}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNetworkPolicy_NewPodIsNeverOpen: the first act of a pod that a policy forbids to speak is
// to speak: it never succeeds. The control is the same pod without the policy.
func TestNetworkPolicy_NewPodIsNeverOpen(t *testing.T) {
	world.Test(t, world.Policies, world.Core, world.Strict)
	ns := world.Namespace(t)
	target := world.Endpoints(world.Shared(t).Servers[2])[0].String()
	world.CreatePolicy(t, ns, "silent", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"silent": "yes"}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
	})
	for set := range tier.Pick(1, 3) {
		name := func(i int) string { return fmt.Sprintf("first-%d-%d", set, i) }
		const last = 3 // may speak
		for i := range last + 1 {
			pod := world.Pod(ns, name(i), nodes[i%len(nodes)], world.Command("probe", "dial", "tcp", target, "0", world.LongPatience))
			if pod.Labels["silent"] = "no"; i < last {
				pod.Labels["silent"], pod.Spec.Containers[0].Command[5] = "yes", world.Patience
			}
			world.Create(t, pod)
		}
		for i := range last + 1 {
			if passed := world.Ended(t, ns, name(i)).Status.Phase == corev1.PodSucceeded; passed != (i == last) {
				t.Errorf("pod %d of %d: its first connection passed: %t", i+1, last+1, passed)
			}
		}
	}
}
