//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestTraceLive_AnswersAndDropsOnBothNodes: the trace of a connection between two nodes has the way there and the way back on
// both. Packets that a policy drops on the node of the pod that they are for end there, by the policy's name, and none comes
// back. All policies without a rule for them are named. Without policies they have the same way as the others. The next commands lead
// from the computed path to the flows and to one of them, and from packets that are dropped to the page about them.
func TestTraceLive_AnswersAndDropsOnBothNodes(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	web := world.Pod(ns, "web", nodes[2])
	client, other := world.Pod(ns, "client", nodes[1]), world.Pod(ns, "other", nodes[1])
	world.Run(t, web, client, other)
	world.CreatePolicy(t, ns, "lets-client", world.AllowPods("web", "client"))
	world.Reaches(t, other, false, world.Endpoints(web)[0])
	target := world.Endpoints(web)[0].String()
	for _, from := range []string{"client", "other"} {
		world.MustInPod(t, map[string]*corev1.Pod{"client": client, "other": other}[from], "sh", "-c",
			"(probe stream udp "+target+" </dev/null >/dev/null 2>&1 &)")
	}
	wholeWay := fmt.Sprintf("there %[1]s, there %[2]s, back %[2]s, back %[1]s", nodes[1], nodes[2])
	traced := func(from string) (says.Live, int, string) {
		l, code := kubectlOffloadJSON[says.Live](t, "trace", "--live", "pod/"+from,
			fmt.Sprintf("pod/web:%d/udp", world.EchoPort), "-n", ns)
		return l, code, wayOf(l)
	}
	world.Eventually(t, flowsWithin, "the way of packets that are allowed", func() (bool, string) {
		l, code, way := traced("client")
		return code == 0 && l.Verdict == says.Allowed && way == wholeWay, fmt.Sprintf("exit code %d, %s, %s: %+v", code, l.Verdict, way, l)
	})
	world.Eventually(t, flowsWithin, "the next command of each answer leads from the computed path to the flows, and to one of them", func() (bool, string) {
		args := []string{"trace", "pod/client", fmt.Sprintf("pod/web:%d/udp", world.EchoPort), "-n", ns}
		for _, want := range []string{"DELIVERED", "ALLOWED", "matches  "} {
			out, code := kubectlOffload(t, args...)
			if code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "next: ") {
				return false, fmt.Sprintf("%q: exit code %d, want 0 and %s: %s", args, code, want, out)
			}
			args = nextOf(out)
		}
		return true, ""
	})
	policy := "NetworkPolicy/" + ns + "/lets-client"
	world.Eventually(t, flowsWithin, "the way of packets that are dropped", func() (bool, string) {
		l, code, way := traced("other")
		dropped := slices.IndexFunc(l.Legs, func(leg says.Leg) bool { return leg.Drops && slices.Equal(leg.DecidedBy, []string{policy}) })
		return code == 1 && l.Verdict == says.Dropped && dropped >= 0 && way == fmt.Sprintf("there %s, drops %s", nodes[1], nodes[2]),
			fmt.Sprintf("exit code %d, %s, %s: %+v", code, l.Verdict, way, l)
	})
	for from, code := range map[string]int{"client": 0, "other": 1} {
		world.Eventually(t, flowsWithin, "the computed path is the same: "+from, func() (bool, string) {
			l, got := kubectlOffloadJSON[says.Live](t, "trace", "--live", "--compare", "pod/"+from,
				fmt.Sprintf("pod/web:%d/udp", world.EchoPort), "-n", ns)
			return l.Compared != nil && l.Compared.Same && got == code, fmt.Sprintf("exit code %d: %+v", got, l.Compared)
		})
	}
	for how, drops := range map[string]string{"--live": "DROPPED by netpol/" + ns + "/lets-client", "--live=false": "DROPPED"} {
		world.Eventually(t, flowsWithin, how+" explains what is dropped", func() (bool, string) {
			out, _ := kubectlOffload(t, "trace", how, "pod/other", fmt.Sprintf("pod/web:%d/udp", world.EchoPort), "-n", ns)
			return strings.Contains(out, drops) && slices.Equal(nextOf(out), []string{"help", "policy-surprise"}), out
		})
	}
	world.CreatePolicy(t, ns, "lets-none", world.AllowPods("web"))
	denies := "no rule allows it: netpol/" + ns + "/lets-client, netpol/" + ns + "/lets-none select pod/" + ns + "/web for ingress"
	for from, isDenied := range map[string]bool{"client": false, "other": true} {
		world.Eventually(t, flowsWithin, fmt.Sprintf("%s: %t: %s", from, isDenied, denies), func() (bool, string) {
			out, _ := kubectlOffload(t, "trace", "--live", "pod/"+from, fmt.Sprintf("pod/web:%d/udp", world.EchoPort), "-n", ns)
			return strings.Contains(out, denies) == isDenied, out
		})
	}
	world.DeletePolicy(t, ns, "lets-none")
	world.DeletePolicy(t, ns, "lets-client")
	world.Eventually(t, flowsWithin, "without policies they have the whole way", func() (bool, string) {
		l, code, way := traced("other")
		return code == 0 && l.Verdict == says.Allowed && way == wholeWay, fmt.Sprintf("exit code %d, %s, %s: %+v", code, l.Verdict, way, l)
	})
}

// nextOf are the arguments of the plugin that the last line of an answer names.
func nextOf(out string) []string {
	_, next, _ := strings.Cut(out, "\nnext: kubectl offload ")
	return strings.Fields(next)
}

// wayOf is what the legs of a way do, and on which node.
func wayOf(l says.Live) string {
	var way []string
	for _, leg := range l.Legs {
		word := "there "
		if leg.Back {
			word = "back "
		}
		if leg.Drops {
			word = "drops "
		}
		way = append(way, word+leg.Node)
	}
	return strings.Join(slices.Compact(way), ", ")
}
