//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
)

// TestTraceLive_AnswersAndDropsOnBothNodes: the trace of a connection between two nodes has the way there and the way back on
// both. Packets that a policy drops on the node of the pod that they are for end there, by the policy's name, and none comes
// back. Without the policy they have the same way as the others.
func TestTraceLive_AnswersAndDropsOnBothNodes(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	web := running(t, ns, "web", nodes[2])
	client, other := running(t, ns, "client", nodes[1]), running(t, ns, "other", nodes[1])
	createPolicy(t, ns, "lets-client", allowIngress("web", "client"))
	becomes(t, other, false, echoTargets(t, web)[0])
	target := echoTargets(t, web)[0].String()
	for _, from := range []string{"client", "other"} {
		mustInPod(t, map[string]*corev1.Pod{"client": client, "other": other}[from], "sh", "-c", "(probe stream udp "+target+" </dev/null >/dev/null 2>&1 &)")
	}
	wholeWay := fmt.Sprintf("there %[1]s, there %[2]s, back %[2]s, back %[1]s", nodes[1], nodes[2])
	traced := func(from string) (says.Live, int, string) {
		l, code := kubectlOffloadJSON[says.Live](t, "trace", "--live", "pod/"+from, fmt.Sprintf("pod/web:%d/udp", echoPort), "-n", ns)
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
		return l, code, strings.Join(slices.Compact(way), ", ")
	}
	eventually(t, soon, "the way of packets that are allowed", func() (bool, string) {
		l, code, way := traced("client")
		return code == 0 && l.Verdict == says.Allowed && way == wholeWay, fmt.Sprintf("exit code %d, %s, %s: %+v", code, l.Verdict, way, l)
	})
	policy := "NetworkPolicy/" + ns + "/lets-client"
	eventually(t, soon, "the way of packets that are dropped", func() (bool, string) {
		l, code, way := traced("other")
		dropped := slices.IndexFunc(l.Legs, func(leg says.Leg) bool { return leg.Drops && slices.Equal(leg.DecidedBy, []string{policy}) })
		return code == 1 && l.Verdict == says.Dropped && dropped >= 0 && way == fmt.Sprintf("there %s, drops %s", nodes[1], nodes[2]),
			fmt.Sprintf("exit code %d, %s, %s: %+v", code, l.Verdict, way, l)
	})
	if out, _ := kubectlOffload(t, "trace", "--live", "pod/other", fmt.Sprintf("pod/web:%d/udp", echoPort), "-n", ns); !strings.Contains(out, "DROPPED by netpol/"+ns+"/lets-client") {
		t.Error(out)
	}
	deletePolicy(t, ns, "lets-client")
	eventually(t, soon, "without the policy they have the whole way", func() (bool, string) {
		l, code, way := traced("other")
		return code == 0 && l.Verdict == says.Allowed && way == wholeWay, fmt.Sprintf("exit code %d, %s, %s: %+v", code, l.Verdict, way, l)
	})
}
