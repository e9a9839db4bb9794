package conncheck

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// TestCases_IDsAreUniqueAndEachGroupHasAControl, and a full test has all cases of a quick one.
func TestCases_IDsAreUniqueAndEachGroupHasAControl(t *testing.T) {
	quick, full := Cases(false), Cases(true)
	t.Logf("%d quick cases, %d in all", len(quick), len(full))
	if len(quick) < 60 || len(full) < 200 {
		t.Errorf("%d quick cases, %d in all", len(quick), len(full))
	}
	ids := map[string]bool{}
	for _, c := range full {
		if ids[c.ID] {
			t.Errorf("%s is there twice", c.ID)
		}
		ids[c.ID] = true
	}
	control := map[string]bool{}
	for _, c := range quick {
		if !ids[c.ID] {
			t.Errorf("%s is not in the full test", c.ID)
		}
		if c.Want != probe.Reached || c.To == "svc/spread" {
			control[c.Group] = true
		}
	}
	for _, g := range groups() {
		if !control[g.name] {
			t.Errorf("group %s has no control", g.name)
		}
	}
}

func env() Env {
	addrs := Addresses{4: netip.MustParseAddr("192.0.2.1"), 6: netip.MustParseAddr("2001:db8::1")}
	e := Env{
		Pods: map[string]Addresses{}, Services: map[string]Addresses{}, NodePorts: map[string]map[string]int{},
		Nodes: map[string]Addresses{"node-a": addrs, "node-b": addrs}, API: addrs, APIPort: 443,
	}
	for _, o := range Objects(Place{NodeA: "a", NodeB: "b", Image: "image"}) {
		switch o := o.(type) {
		case *corev1.Pod:
			e.Pods[o.Name] = addrs
		case *corev1.Service:
			e.Services[o.Name] = addrs
			if o.Spec.Type == corev1.ServiceTypeNodePort {
				e.NodePorts[o.Name] = map[string]int{"tcp": 30001, "udp": 30002, "sctp": 30003}
			}
		}
	}
	return e
}

// TestCases_NameObjectsOfTheTest: each case has a pod that asks, and a host and a port.
func TestCases_NameObjectsOfTheTest(t *testing.T) {
	e := env()
	for _, c := range Cases(true) {
		q, impossible := e.Question(c)
		if impossible != "" || q.Host == "" || q.Port == 0 {
			t.Errorf("%s: %q, %+v", c.ID, impossible, q)
		}
		for _, pod := range append(slices.Clone(c.Names), c.From) {
			if e.Pods[pod] == nil {
				t.Errorf("%s: no pod %s", c.ID, pod)
			}
		}
	}
	for pod := range e.Pods {
		delete(e.Pods[pod], 6)
	}
	for _, c := range Cases(true) {
		if _, impossible := e.Question(c); (impossible != "") != (c.Family == 6) {
			t.Errorf("without IPv6, %s: %q", c.ID, impossible)
		}
	}
}

// TestNeeded_ArePodsThatAskAndAreAsked: each case alone has its pods and can be asked, and all cases need all pods.
func TestNeeded_ArePodsThatAskAndAreAsked(t *testing.T) {
	objects := Objects(Place{NodeA: "a", NodeB: "b", Image: "image"})
	podsOf := func(cases ...Case) (names []string) {
		for _, o := range Needed(objects, cases) {
			if p, is := o.(*corev1.Pod); is {
				names = append(names, p.Name)
			}
		}
		return names
	}
	for _, c := range Cases(true) {
		names, e := podsOf(c), env()
		for _, pod := range append(slices.Clone(c.Names), c.From) {
			if !slices.Contains(names, pod) {
				t.Errorf("%s: no pod %s: %v", c.ID, pod, names)
			}
		}
		maps.DeleteFunc(e.Pods, func(pod string, _ Addresses) bool { return !slices.Contains(names, pod) })
		if _, impossible := e.Question(c); impossible != "" {
			t.Errorf("%s: %s", c.ID, impossible)
		}
	}
	if got := Needed(objects, Cases(true)); len(got) != len(objects) {
		t.Errorf("all cases need %d of %d objects", len(got), len(objects))
	}
	for to, want := range map[string]string{
		"pod/same": "client same", "svc/denied": "client denied", "svc/spread": "client same other", "nodeport/gate@node-b": "client other", "svc/none": "client", "api": "client",
		"pod/blocked": "client outsider blocked",
	} {
		if got := strings.Join(podsOf(Case{From: "client", To: to}), " "); got != want {
			t.Errorf("%s needs %s, want %s", to, got, want)
		}
	}
	if got := podsOf(Case{From: "host-a", To: "pod/host-b"}); !slices.Equal(got, []string{"client", "host-a", "host-b"}) {
		t.Errorf("between hosts: %v", got)
	}
}

// TestJudge_WrongAnswersFail: silence, an answer where none may come, another pod's answer, too few pods.
func TestJudge_WrongAnswersFail(t *testing.T) {
	reached := Case{Want: probe.Reached, Names: []string{"other"}, Protocol: "tcp"}
	denied := Case{Want: probe.Timeout, Protocol: "tcp"}
	spread := Case{Want: probe.Reached, Names: []string{"same", "other"}, Distinct: 2, Protocol: "tcp"}
	for _, c := range []struct {
		c     Case
		reply probe.Reply
		want  Verdict
	}{
		{reached, probe.Reply{Outcome: probe.Reached, Names: map[string]int{"other": 1}}, OK},
		{reached, probe.Reply{Outcome: probe.Reached, Names: map[string]int{"same": 1}}, Fail},
		{reached, probe.Reply{Outcome: probe.Reached}, Fail},
		{reached, probe.Reply{Outcome: probe.Timeout}, Fail},
		{denied, probe.Reply{Outcome: probe.Timeout}, OK},
		{denied, probe.Reply{Outcome: probe.Refused}, Fail},
		{denied, probe.Reply{Outcome: probe.Reached, Names: map[string]int{"other": 1}}, Fail},
		{denied, probe.Reply{Outcome: probe.Unsupported}, Skip},
		{spread, probe.Reply{Outcome: probe.Reached, Names: map[string]int{"other": 4, "same": 4}}, OK},
		{spread, probe.Reply{Outcome: probe.Reached, Names: map[string]int{"other": 8}}, Fail},
	} {
		if got := c.c.Judge(c.reply); got.Verdict != c.want {
			t.Errorf("%+v: %+v, want %s", c.reply, got, c.want)
		}
	}
}

// TestAwait_AsksOnceForEachObject, and once for each client of the service with affinity, whose first connection is lost.
func TestAwait_AsksOnceForEachObject(t *testing.T) {
	asked := map[string]int{}
	for _, c := range Await(Cases(true)) {
		if c.Want != probe.Reached || c.Times != 1 {
			t.Errorf("%+v", c)
		}
		if c.Family == 4 {
			asked[c.To]++
		}
		if c.To == "svc/affinity" {
			asked[c.From+" to svc/affinity"]++
		}
	}
	for what, want := range map[string]int{
		"svc/other": 1, "svc/spread": 1, "pod/blocked": 1, "svc/affinity": 3, "same to svc/affinity": 2, "other to svc/affinity": 2,
		"svc/none": 0, "pod/other": 0,
	} {
		if asked[what] != want {
			t.Errorf("%s is asked %d times, want %d", what, asked[what], want)
		}
	}
}

// TestRun_GivesResultsInTheOrderOfCases, and a pod that cannot be asked is a failure.
func TestRun_GivesResultsInTheOrderOfCases(t *testing.T) {
	cases, err := Select(Cases(false), "^policy/.*4$")
	if err != nil || len(cases) == 0 {
		t.Fatal(err, len(cases))
	}
	seen := 0
	run := Runner{env(), 4, func(context.Context, string, []string) (probe.Reply, error) {
		return probe.Reply{}, errors.New("no such pod")
	}, func(Result) { seen++ }}
	results := run.Run(t.Context(), cases)
	for i, r := range results {
		if r.ID != cases[i].ID || r.Verdict != Fail || !strings.Contains(r.Text, "no such pod") {
			t.Errorf("%d: %+v, want %s", i, r, cases[i].ID)
		}
	}
	if seen != len(cases) {
		t.Errorf("%d of %d results came", seen, len(cases))
	}
	others, err := Select(Cases(false), "!^policy/.*4$")
	if err != nil || len(others)+len(cases) != len(Cases(false)) {
		t.Errorf("%d and %d cases, %v", len(others), len(cases), err)
	}
	var junit strings.Builder
	if err := writeJUnit(&junit, results); err != nil || !strings.Contains(junit.String(), `failures="`) {
		t.Errorf("%v: %s", err, junit.String())
	}
}
