//go:build e2e

package e2e

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// longestAllowed is for how long a stream may be silent: a limit, and twice the longest silence of a witness.
func longestAllowed(limit, witnessed time.Duration) time.Duration { return limit + 2*witnessed }

// withinPod is a stream of a pod to itself, which does not leave the pod. It is silent when the machine has no time.
func withinPod(t *testing.T, pod *corev1.Pod) *flow {
	t.Helper()
	return startFlow(t, pod.Namespace, pod.Name, "udp",
		netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), world.EchoPort))
}

// wantShortSilences ends streams, and compares their longest silences with a limit and a witness.
func wantShortSilences(t *testing.T, while string, streams map[string]*flow, witness *flow, limit time.Duration) {
	t.Helper()
	witness.wantAnswer(t, world.Soon)
	witnessed := witness.stop()
	for name, stream := range streams {
		if gap := stream.stop(); gap > longestAllowed(limit, witnessed) {
			t.Errorf("no answer of %s for %s while %s, want at most %s; the witness had none for %s", name, gap, while, limit, witnessed)
		}
	}
}
