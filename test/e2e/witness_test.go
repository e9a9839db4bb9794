//go:build e2e

package e2e

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// atOnce runs subtests, three at a time. Subtests that call t.Parallel would begin behind all tests that wait for their
// turn, and the pods of their test would wait with them.
func atOnce(t *testing.T, tests map[string]func(*testing.T)) {
	t.Helper()
	turns := make(chan struct{}, 3)
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			t.Run(name, test)
		})
	}
	all.Wait()
}

// allRunning makes pods at once, and waits until all answer.
func allRunning(t *testing.T, pods ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	running := allStarted(t, pods...)
	for _, pod := range running {
		listening(t, pod)
	}
	return running
}

// allStarted makes pods at once, and waits until all run.
func allStarted(t *testing.T, pods ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	for _, pod := range pods {
		create(t, pod)
	}
	var running []*corev1.Pod
	for _, pod := range pods {
		running = append(running, waitPod(t, pod.Namespace, pod.Name, "Running", isRunning))
	}
	return running
}

// attempt asks for an answer; without one there is an error.
type attempt func() (string, error)

func podTries(pod *corev1.Pod, command ...string) attempt {
	return func() (string, error) { return inPod(pod.Namespace, pod.Name, command...) }
}

func nodeTries(node string, command ...string) attempt {
	return func() (string, error) { return onNode(node, command...) }
}

// failsBeside wants an attempt to fail at a moment at which that of a witness succeeds: on a busy machine, which loses
// packets, every attempt may fail.
func failsBeside(t *testing.T, what string, forbidden, witness attempt) {
	t.Helper()
	eventually(t, soon, "the witness has an answer beside: "+what, func() (bool, string) {
		var seen string
		var silent error
		var both sync.WaitGroup
		both.Go(func() { seen, silent = witness() })
		out, err := forbidden()
		both.Wait()
		if err == nil {
			t.Errorf("%s: %s", what, out)
		}
		return err == nil || silent == nil, seen
	})
}

// pingsFail wants pings of a pod to an address to have no answer while those to another address have one. Both are the
// last arguments of ping, with options before them.
func pingsFail(t *testing.T, from *corev1.Pod, forbidden, witness []string) {
	t.Helper()
	failsBeside(t, from.Name+" has an answer of "+forbidden[len(forbidden)-1], podTries(from, pings(forbidden)...), podTries(from, pings(witness)...))
}

// pings are three, of which one has to be answered within a second.
func pings(to []string) []string { return append([]string{"ping", "-c3", "-i0.3", "-W1"}, to...) }

// longestAllowed is for how long a stream may be silent: a limit, and twice the longest silence of a witness.
func longestAllowed(limit, witnessed time.Duration) time.Duration { return limit + 2*witnessed }

// withinPod is a stream of a pod to itself, which does not leave the pod. It is silent when the machine has no time.
func withinPod(t *testing.T, pod *corev1.Pod) *flow {
	t.Helper()
	return startFlow(t, pod.Namespace, pod.Name, "udp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), echoPort))
}

// wantShortSilences ends streams, and compares their longest silences with a limit and a witness.
func wantShortSilences(t *testing.T, while string, streams map[string]*flow, witness *flow, limit time.Duration) {
	t.Helper()
	witness.wantAnswer(t, soon)
	witnessed := witness.stop()
	for name, stream := range streams {
		if gap := stream.stop(); gap > longestAllowed(limit, witnessed) {
			t.Errorf("no answer of %s for %s while %s, want at most %s; the witness had none for %s", name, gap, while, limit, witnessed)
		}
	}
}
