package conncheck

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// fakeNetwork has pods by node and logs by pod.
type fakeNetwork struct {
	pods []corev1.Pod
	logs map[string]string
}

func (f fakeNetwork) PodsAt(_ context.Context, node string) ([]corev1.Pod, error) {
	return f.those(func(p corev1.Pod) bool { return p.Spec.NodeName == node }), nil
}

func (f fakeNetwork) PodsOf(_ context.Context, app string) ([]corev1.Pod, error) {
	return f.those(func(p corev1.Pod) bool { return p.Labels["app"] == app }), nil
}

func (f fakeNetwork) those(fit func(corev1.Pod) bool) (out []corev1.Pod) {
	for _, p := range f.pods {
		if fit(p) {
			out = append(out, p)
		}
	}
	return out
}

func (f fakeNetwork) LogSince(_ context.Context, of sysdump.Container, _ time.Duration, _ int64) ([]byte, error) {
	text, ok := f.logs[of.Pod]
	if !ok {
		return nil, errors.New("forbidden")
	}
	return []byte(text), nil
}

// netPod is a pod of the network with one container, which has restarted so many times.
func netPod(name, uid, node, app string, restarted int32) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main"}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: restarted}}},
	}
}

// TestRestarts_AreThoseOfTheNodesAndControllers: not of other nodes, of before, or of a pod that is new.
func TestRestarts_AreThoseOfTheNodesAndControllers(t *testing.T) {
	at := Place{NodeA: "a", NodeB: "b"}
	read := func(pods ...corev1.Pod) []corev1.Pod {
		got, err := own(t.Context(), fakeNetwork{pods: pods}, at)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := read(netPod("agent-a", "1", "a", "ovnkube-node", 3), netPod("agent-b", "2", "b", "ovnkube-node", 0), netPod("agent-c", "3", "c", "ovnkube-node", 0),
		netPod("master", "4", "m", "ovnkube-master", 0), netPod("master-a", "5", "a", "ovnkube-master", 0))
	if got := restarts(before, before); len(got) > 0 {
		t.Errorf("nothing restarted: %v", got)
	}
	after := read(netPod("agent-a", "1", "a", "ovnkube-node", 3), netPod("agent-b", "6", "b", "ovnkube-node", 1), netPod("agent-c", "3", "c", "ovnkube-node", 1),
		netPod("master", "4", "m", "ovnkube-master", 2), netPod("master-a", "5", "a", "ovnkube-master", 1))
	want := []string{"container main of pod master-a on node a restarted 1 times", "container main of pod master on node m restarted 2 times"}
	if got := restarts(before, after); !slices.Equal(got, want) {
		t.Errorf("restarts %v, want %v", got, want)
	}
}

// TestErrorsOf_AreLinesOfLevelError, a few of each log; and logs that cannot be read are missing.
func TestErrorsOf_AreLinesOfLevelError(t *testing.T) {
	network := fakeNetwork{logs: map[string]string{
		"agent": `2026-11-26T21:00:00Z {"level":"ERROR","msg":"one"}` + "\n" + `2026-11-26T21:00:00Z {"level":"WARN","msg":"ERROR"}` + "\n",
		"ovs":   strings.Repeat("2026-11-26T21:00:00Z 2026-11-26T21:00:00Z|00012|dpif|ERR|two\n", 5) + "2026-11-26T21:00:00Z|00013|dpif|WARN|ERR three\n",
	}}
	lines, missing := errorsOf(t.Context(), network, []corev1.Pod{netPod("agent", "1", "a", "", 0), netPod("ovs", "2", "a", "", 0), netPod("db", "3", "a", "", 0)}, time.Second)
	text := strings.Join(lines, "\n")
	if len(lines) != 5 || !strings.Contains(text, "one") || strings.Count(text, "two") != 3 || !strings.Contains(text, "main of pod ovs: 2 more") {
		t.Errorf("errors:\n%s", text)
	}
	if want := []string{"the log of main of pod db: forbidden"}; !slices.Equal(missing, want) {
		t.Errorf("missing %v, want %v", missing, want)
	}
}

// TestDrops_AreThoseThatNoCaseExpects: of the test's pods only.
func TestDrops_AreThoseThatNoCaseExpects(t *testing.T) {
	w := NewWitness(Env{})
	in := "pod/" + Namespace + "/"
	for _, ends := range [][2]string{
		{in + "client", in + "denied"}, {in + "client", in + "other"}, {in + "other", in + "denied"}, {in + "same", in + "same"}, {"pod/shop/web", in + "other"}, {in + "client", "10.0.0.0/8"},
	} {
		w.dropped[sighting{4, "a", streams.Ends{From: ends[0], To: ends[1], Protocol: "tcp"}, flowapi.Placed{}}] = true
	}
	cases := []Case{{From: "client", To: "svc/denied", Want: probe.Timeout}, {From: "client", To: "pod/other", Want: probe.Reached}, {From: "same", To: "svc/affinity", Want: probe.Reached, Names: []string{"same"}}}
	want := []string{in + "client to " + in + "other, tcp, on node a", in + "other to " + in + "denied, tcp, on node a"}
	if got := w.Drops(cases); !slices.Equal(got, want) {
		t.Errorf("drops %q, want %q", got, want)
	}
}
