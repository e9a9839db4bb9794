//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// refusedVerbs: without a role the verbs say which right is missing, and do not try pods/exec.
func refusedVerbs(t *testing.T, config, ns string) {
	t.Helper()
	for want, args := range map[string][]string{
		"you may not get podoffloads.ovn-offload.io in namespace " + ns:                 {"explain", "pod/web", "-n", ns},
		"the relay refuses: you may not get podflows.ovn-offload.io in namespace " + ns: {"flows", "--pod", "web", "-n", ns},
		`cannot list resource "pods"`:                                                   {"trace", "pod/web", "pod/db", "--live", "-n", ns},
		"in all namespaces: give one with -n":                                           {"top"},
	} {
		world.Eventually(t, relayWithin, fmt.Sprintf("without a role, %q ends with %q", args, want), func() (bool, string) {
			out, code := offloadAs(t, config, args...)
			if code == 0 || strings.Contains(out, "cannot create resource") {
				t.Fatalf("without a role, %q: exit code %d, want %q: %s", args, code, want, out)
			}
			return strings.Contains(out, want), fmt.Sprintf("exit code %d: %s", code, out)
		})
	}
}

// verbsOfTenant: who may view one namespace reads its flows through the relay, and those of no other, without the right to pods/exec.
func verbsOfTenant(t *testing.T, config string, client, vault *corev1.Pod) {
	t.Helper()
	ns, other := client.Namespace, vault.Namespace
	db := world.Run(t, world.Pod(ns, "db", nodes[2]))[0]
	world.CreatePolicy(t, ns, "db-ingress", world.AllowPods("db", "web"))
	port := fmt.Sprint(world.EchoPort)
	keepsSending(t, client, "true", net.JoinHostPort(db.Status.PodIP, port), net.JoinHostPort(vault.Status.PodIP, port))
	foreign := func(out string) bool {
		return strings.Contains(out, other) || strings.Contains(out, "vault") || strings.Contains(out, vault.Status.PodIP)
	}
	for name, verb := range map[string]struct {
		args []string
		has  []string
	}{
		"flows":   {[]string{"flows", "--pod", "web", "-n", ns, "-o", "json"}, []string{`"from": "pod/` + ns + `/web"`, `"to": "pod/` + ns + `/db"`, `"to": "withheld"`}},
		"explain": {[]string{"explain", "pod/web", "-n", ns}, []string{"pod/" + ns + "/db", client.Status.PodIP, "no-vf", "withheld"}},
		"live":    {[]string{"trace", "pod/web", "pod/db:" + port, "--live", "-n", ns}, []string{"ALLOWED", "node " + nodes[1], "node " + nodes[2]}},
		"top":     {[]string{"top", "-n", ns}, []string{ns + "/web"}},
		"policy":  {[]string{"explain", "netpol/db-ingress", "-n", ns}, []string{"pod/" + ns + "/db"}},
	} {
		world.Eventually(t, relayWithin, "a tenant reads "+name, func() (bool, string) {
			out, code := offloadAs(t, config, verb.args...)
			if foreign(out) {
				t.Fatalf("%v of a tenant shows what is of another namespace: %s", verb.args, out)
			}
			lacks := slices.ContainsFunc(verb.has, func(text string) bool { return !strings.Contains(out, text) })
			return code <= int(says.Degraded) && !lacks, fmt.Sprintf("exit code %d: %s", code, out)
		})
	}
	for want, args := range map[string][]string{
		"you may not get podflows.ovn-offload.io in namespace " + other: {"flows", "-n", other},
		"there is no pod " + other + "/vault that the relay shows":      {"explain", "pod/vault", "-n", other},
		`cannot list resource "pods"`:                                   {"trace", "pod/web", "pod/" + other + "/vault", "--live", "-n", ns},
		"in all namespaces: give one with -n":                           {"flows"},
		"you may not get nodeoffloads.ovn-offload.io":                   {"explain", "flow/1@" + nodes[1]},
		"agent of node " + nodes[1]:                                     {"explain", "flow/1@" + nodes[1], "-n", ns, "--ask-driver"},
	} {
		world.Eventually(t, relayWithin, fmt.Sprintf("%q of a tenant ends with %q", args, want), func() (bool, string) {
			out, code := offloadAs(t, config, args...)
			if code == 0 || strings.Contains(out, vault.Status.PodIP) {
				t.Fatalf("%q of a tenant: exit code %d, want %q: %s", args, code, want, out)
			}
			return strings.Contains(out, want), fmt.Sprintf("exit code %d: %s", code, out)
		})
	}
	if out, code := offloadAs(t, config, "flows", "--pod", "web", "-n", ns, "--direct"); code == 0 || !strings.Contains(out, "forbidden") || strings.Contains(out, ns+"/db") {
		t.Errorf("a tenant without the relay: exit code %d: %s", code, out)
	}
}

// verbsOfAdmin: an administrator reads through the relay what the verbs have without it, with names. Where the relay does not
// answer the verbs say so, and only --direct asks the agents.
func verbsOfAdmin(t *testing.T, client, vault *corev1.Pod) {
	t.Helper()
	ns := client.Namespace
	var list says.Streams
	flows := []string{"flows", "--pod", "web", "-n", ns, "-o", "json"}
	world.Eventually(t, relayWithin, "an administrator reads flows with names of both namespaces", func() (bool, string) {
		out, code := kubectlOffload(t, flows...)
		list = says.Streams{}
		return code == 0 && json.Unmarshal([]byte(out), &list) == nil && strings.Contains(out, "pod/"+vault.Namespace+"/vault") && list.Named > 0, fmt.Sprintf("exit code %d: %s", code, out)
	})
	world.Eventually(t, relayWithin, "explain by the relay", func() (bool, string) {
		out, code := kubectlOffload(t, "explain", "pod/web", "-n", ns)
		return code <= int(says.Degraded) && strings.Contains(out, "pod/"+vault.Namespace+"/vault"), fmt.Sprintf("exit code %d: %s", code, out)
	})
	world.Eventually(t, relayWithin, "an administrator reads the rules of a flow", func() (bool, string) {
		out, _ := kubectlOffload(t, flows...)
		if json.Unmarshal([]byte(out), &list) != nil || len(list.Streams) == 0 || len(list.Streams[0].Flows) == 0 {
			return false, out
		}
		id, node := list.Streams[0].Flows[0], list.Streams[0].Node
		out, code := kubectlOffload(t, "explain", "flow/"+id+"@"+node)
		return code == 0 && strings.Contains(out, "matches  ") && (strings.Contains(out, "ls_in_") || strings.Contains(out, "port_binding")), fmt.Sprintf("exit code %d: %s", code, out)
	})
	world.Eventually(t, relayWithin, "an administrator asks the driver about a flow, by pods/exec, and is refused because the node has no offload", func() (bool, string) {
		out, _ := kubectlOffload(t, flows...)
		if json.Unmarshal([]byte(out), &list) != nil || len(list.Streams) == 0 || len(list.Streams[0].Flows) == 0 {
			return false, out
		}
		asked := "flow/" + list.Streams[0].Flows[0] + "@" + list.Streams[0].Node
		unasked, without := kubectlOffload(t, "explain", asked) // the control
		if strings.Contains(unasked, "not asked") {
			t.Fatalf("the driver is asked without being asked to: %s", unasked)
		}
		out, code := kubectlOffload(t, "explain", asked, "--ask-driver")
		return without == 0 && code == int(says.Uncertain) && strings.Contains(out, "which was not asked: the driver has not refused the flow: it is not in hardware because of offload-off"), fmt.Sprintf("exit code %d: %s", code, out)
	})
	relays := cluster.client.AppsV1().Deployments(system)
	if _, err := relays.UpdateScale(t.Context(), "ovn-offload-relay", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "ovn-offload-relay", Namespace: system}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, relayWithin, "a relay that does not answer is named", func() (bool, string) {
		out, code := kubectlOffload(t, flows...)
		return code == int(says.Uncertain) && strings.Contains(out, "the relay of this cluster does not answer") && strings.Contains(out, "--direct"), fmt.Sprintf("exit code %d: %s", code, out)
	})
	world.Eventually(t, flowsWithin, "without the relay the agents are asked", func() (bool, string) {
		out, code := kubectlOffload(t, append(flows, "--direct")...)
		return code == 0 && strings.Contains(out, "pod/"+vault.Namespace+"/vault"), fmt.Sprintf("exit code %d: %s", code, out)
	})
}
