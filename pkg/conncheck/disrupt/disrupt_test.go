package disrupt

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/scratch"
)

func at() conncheck.Place { return conncheck.Place{NodeA: "a", NodeB: "b", Image: "image"} }

// TestObjects_AreOfTheTable: each connection has its pods, all in the namespace, a client keeps those of the families that
// servers have, and the control has a policy.
func TestObjects_AreOfTheTable(t *testing.T) {
	env := conncheck.Env{Pods: map[string]conncheck.Addresses{}, Services: map[string]conncheck.Addresses{}, NodePorts: map[string]map[string]int{}}
	v4 := conncheck.Addresses{4: netip.MustParseAddr("192.0.2.1")}
	env.Nodes = map[string]conncheck.Addresses{"node-a": v4, "node-b": {4: v4[4], 6: netip.MustParseAddr("2001:db8::1")}}
	nodes := map[string]string{}
	for _, o := range serverObjects(at()) {
		switch o := o.(type) {
		case *corev1.Pod:
			env.Pods[o.Name], nodes[o.Name] = v4, o.Spec.NodeName
		case *corev1.Service:
			env.Services[o.Name], env.NodePorts[o.Name] = v4, map[string]int{"tcp": 30001, "udp": 30002}
		}
		if of := o.(metav1.Object); of.GetNamespace() != Namespace {
			t.Errorf("%s is in namespace %q", of.GetName(), of.GetNamespace())
		}
	}
	var commands []string
	for _, o := range clientObjects(at(), env) {
		pod := o.(*corev1.Pod)
		nodes[pod.Name] = pod.Spec.NodeName
		if pod.Namespace != Namespace || pod.Spec.HostNetwork != (pod.Name == "host-a") {
			t.Errorf("%+v", pod)
		}
		commands = append(commands, pod.Spec.Containers[0].Command...)
	}
	for _, want := range []string{
		"--connection=disrupt/client-to-pod-other/tcp4=tcp/192.0.2.1:8080", "--connection=disrupt/client-to-svc-other/udp4=udp/192.0.2.1:80",
		"--connection=disrupt/client-to-nodeport-other@node-b/tcp4=tcp/192.0.2.1:30001", "--connection=disrupt/host-a-to-pod-other/tcp4=tcp/192.0.2.1:8080",
		"--connection=disrupt/client-to-pod-denied/udp4=udp/192.0.2.1:8080",
	} {
		if !slices.Contains(commands, want) {
			t.Errorf("no %s in %v", want, commands)
		}
	}
	if text := strings.Join(commands, " "); strings.Contains(text, "6=") {
		t.Errorf("pods have no IPv6: %s", text)
	}
	ids := map[string]bool{}
	for _, c := range Cases() {
		if ids[c.ID] {
			t.Errorf("%s is there twice", c.ID)
		}
		ids[c.ID] = true
		if nodes[c.From] != "a" || nodes[c.Names[0]] == "" || (c.Want == probe.Timeout) != (c.Names[0] == denied) {
			t.Errorf("%+v: nodes %v", c, nodes)
		}
	}
}

const (
	tcp     = "disrupt/client-to-pod-other/tcp4"
	udp     = "disrupt/client-to-pod-other/udp4"
	control = "disrupt/client-to-pod-denied/udp4"
)

func pods(names ...string) (out []corev1.Pod) {
	for _, name := range names {
		node := "a"
		if servers(at())[name] != "" {
			node = servers(at())[name]
		}
		pod := conncheck.NewPod(name, node, at())
		pod.Namespace = Namespace
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: scratch.Container}}
		out = append(out, *pod)
	}
	return out
}

// TestJudge_NetworkIsAtFault when TCP broke, a silence was too long, or a denied packet was answered.
func TestJudge_NetworkIsAtFault(t *testing.T) {
	began := time.Date(2026, 11, 25, 21, 7, 0, 0, time.UTC)
	good := probe.Lasted{Began: began, Seconds: 60, Sent: 600, Answered: 600, Silence: 1.25, SilentFrom: began.Add(30 * time.Second)}
	with := func(change func(*probe.Lasted)) probe.Lasted {
		l := good
		change(&l)
		return l
	}
	for _, c := range []struct {
		id      string
		lasted  probe.Lasted
		verdict conncheck.Verdict
		text    string
	}{
		{tcp, good, conncheck.OK, "lives, 600 answers, longest silence 1.2 s"},
		{udp, with(func(l *probe.Lasted) { l.Answered, l.Lost = 588, 12 }), conncheck.OK, "lives, 588 answers, 12 lost, longest silence 1.2 s"},
		{tcp, with(func(l *probe.Lasted) { l.Silence = 5 }), conncheck.OK, "lives, 600 answers, longest silence 5.0 s"},
		{udp, with(func(l *probe.Lasted) { l.Silence = 5.1 }), conncheck.Fail, "lives, 600 answers, 0 lost, longest silence 5.1 s, from 21:07:30Z; expected at most 5 s"},
		{tcp, with(func(l *probe.Lasted) { l.Broken, l.BrokenAt = "connection reset by peer", began.Add(time.Minute) }), conncheck.Fail, "600 answers, the connection broke after 60 s, at 21:08:00Z: connection reset by peer"},
		{tcp, probe.Lasted{}, conncheck.Fail, "no answer, the connection never began"},
		{control, probe.Lasted{Sent: 600}, conncheck.OK, "no answer to 600 datagrams"},
		{control, good, conncheck.Fail, "600 answers, 0 lost, expected none, as a policy denies them"},
	} {
		f := found{pods: pods("client", "host-a", "same", "other", "allowed", denied), kept: map[string]map[string]probe.Lasted{"client": {c.id: c.lasted}}}
		results := f.results(5 * time.Second)
		if got := result(t, results, c.id); got.Verdict != c.verdict || got.Text != c.text || got.Seconds != c.lasted.Seconds {
			t.Errorf("%s: %s %q, want %s %q", c.id, got.Verdict, got.Text, c.verdict, c.text)
		}
		if got := result(t, results, "disrupt/client-to-pod-other/tcp6"); got.Verdict != conncheck.Skip || got.Text != "pods have no IPv6" {
			t.Errorf("%+v", got)
		}
	}
}

func result(t *testing.T, results []conncheck.Result, id string) conncheck.Result {
	t.Helper()
	i := slices.IndexFunc(results, func(r conncheck.Result) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("no %s in %v", id, results)
	}
	return results[i]
}

// TestResults_SkipWhatTheClusterChanged: a connection that broke because its pod has gone says nothing about the network, and
// one of other pods does.
func TestResults_SkipWhatTheClusterChanged(t *testing.T) {
	broken := probe.Lasted{Began: time.Unix(1, 0), Broken: "connection reset by peer"}
	change := func(of string, to func(*corev1.Pod)) []corev1.Pod {
		all := pods("client", "host-a", "same", "other", "allowed", denied)
		to(&all[slices.IndexFunc(all, func(p corev1.Pod) bool { return p.Name == of })])
		return all
	}
	now := metav1.Now()
	for want, there := range map[string][]corev1.Pod{
		"pod other was deleted":      pods("client", "host-a", "same", "allowed", denied),
		"pod other restarted":        change("other", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 1 }),
		"pod other ended: Evicted":   change("other", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }),
		"pod other is being deleted": change("other", func(p *corev1.Pod) { p.DeletionTimestamp = &now }),
		"pod client restarted":       change("client", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 2 }),
		"asking in pod client: no":   pods("client", "host-a", "same", "other", "allowed", denied),
		"":                           pods("client", "host-a", "same", "other", "allowed", denied),
	} {
		f := found{pods: there, kept: map[string]map[string]probe.Lasted{"client": {tcp: broken}}}
		if strings.HasPrefix(want, "asking") {
			f.kept, f.silent = nil, map[string]string{"client": want}
		}
		out := f.outcome(time.Second)
		got := result(t, out.Results, tcp)
		if want == "" {
			if got.Verdict != conncheck.Fail || !failed(out) {
				t.Errorf("the network broke it: %+v", got)
			}
			continue
		}
		if got.Verdict != conncheck.Skip || got.Text != want || failed(out) || len(out.Missing) != len(f.silent) {
			t.Errorf("%s: %+v, missing %v", want, got, out.Missing)
		}
	}
}

// TestCheck_NeedsConnections: without a set-up it says what to do. With one it removes what was made, unless that is to stay, and
// says on which nodes the pods are.
func TestCheck_NeedsConnections(t *testing.T) {
	session := func(objects ...runtime.Object) *Session {
		return NewSession(fake.NewSimpleDynamicClient(scheme.Scheme, objects...), nil)
	}
	var said strings.Builder
	if _, _, err := session().Check(t.Context(), &said, time.Second, false); !errors.Is(err, ErrAbsent) || said.Len() > 0 {
		t.Errorf("%v: %s", err, said.String())
	}
	own := session().Object()
	var there []runtime.Object
	for _, pod := range pods("same", "other") { // the clients were deleted
		there = append(there, &pod)
	}
	for _, keep := range []bool{true, false} {
		s := session(append(there, own)...)
		out, where, err := s.Check(t.Context(), &said, time.Second, keep)
		if err != nil || where.NodeA != "a" || where.NodeB != "b" || len(out.Results) != len(Cases()) || failed(out) {
			t.Errorf("%+v, %v, %v", out, where, err)
		}
		if got := result(t, out.Results, tcp); got.Text != "pod client was deleted" {
			t.Errorf("%+v", got)
		}
		if found, err := s.Remove(t.Context()); found != keep || err != nil {
			t.Errorf("keep %t: the namespace is there: %t, %v", keep, found, err)
		}
	}
}

// TestSetup_LeavesThoseThatAreThere: a second one is refused, with what to do, and removes nothing.
func TestSetup_LeavesThoseThatAreThere(t *testing.T) {
	s := NewSession(fake.NewSimpleDynamicClient(scheme.Scheme), nil)
	if err := s.Make(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if _, err := s.Setup(t.Context(), &said, at()); !errors.Is(err, scratch.ErrPresent) || !strings.Contains(err.Error(), "next: kubectl offload test --check-disrupt, or --cleanup") {
		t.Errorf("%v", err)
	}
	if found, err := s.Remove(t.Context()); !found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
}
