package conncheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

func lasting(to string) Case {
	return Case{ID: "to-" + to, From: "client", To: "pod/" + to, Names: []string{to}, Protocol: "tcp", Family: 4, Want: probe.Reached, Size: Lasting}
}

// TestAgree_EachWitnessMaySayNo: flows in hardware are not enough where the rules of TC or the representor say otherwise.
func TestAgree_EachWitnessMaySayNo(t *testing.T) {
	s := &Sight{devices: devices()}
	legs := s.witnesses(lasting("other"))
	if len(legs) != 2 || legs[0].Node != "a" || legs[0].pod() != "client" || legs[1].Node != "b" || legs[1].pod() != "other" {
		t.Fatalf("%+v", legs)
	}
	port := func(hardware, software uint64) flowapi.Port {
		return flowapi.Port{End: flowapi.End{Port: "rep0"}, Hardware: hardware, Software: software}
	}
	client := [2]string{"a", "client"}
	for name, c := range map[string]struct {
		before, after flowapi.Port
		want          string
	}{
		"silent":                    {port(100, 50), port(900, 60), ""},
		"first packets in software": {port(0, 0), port(800, 200), ""},
		"rules made again":          {port(5000, 50), port(700, 60), ""},
		"no rule":                   {port(100, 50), port(100, 900), "the rules of TC at rep0 on node a sent no packet on in hardware, 850 packets were in software"},
		"not silent":                {port(0, 0), port(800, 201), "201 packets passed rep0 on node a in software, 800 in hardware"},
		"not read":                  {port(0, 0), flowapi.Port{Problem: "link rep0: not found"}, "link rep0: not found"},
	} {
		good := port(400, 0)
		before, after := counted{client: c.before, {"b", "other"}: {}}, counted{client: c.after, {"b", "other"}: good}
		r := Result{Verdict: OK, Text: "reached other", Places: []Placed{{Node: "a"}, {Node: "b"}}}
		r.agree(legs, before, after)
		want := OK
		if c.want != "" {
			want = Fail
		}
		if r.Verdict != want || !strings.Contains(r.Text, c.want) || r.Places[0].Wrong != (want == Fail) || r.Places[1].Wrong || *r.Places[1].Counters != (Counters{Hardware: 400}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	absent := Result{Verdict: OK, Places: []Placed{{Node: "a"}, {Node: "b"}}}
	if absent.agree(legs, counted{}, counted{}); absent.Verdict != Fail || !strings.Contains(absent.Text, "pod client has no representor with counters on node a") {
		t.Errorf("without a representor: %+v", absent)
	}
	timeout := Result{Verdict: Fail, Text: "timeout"}
	if timeout.agree(legs, counted{}, counted{}); timeout.Text != "timeout" {
		t.Errorf("of a case without an answer: %+v", timeout)
	}
}

// TestWitnesses_AreOfLastingCasesInHardware.
func TestWitnesses_AreOfLastingCasesInHardware(t *testing.T) {
	s := &Sight{devices: devices()}
	short := lasting("other")
	short.Size = Large
	for name, c := range map[string]Case{"short": short, "to a veth": lasting("allowed")} {
		for _, leg := range s.witnesses(c) {
			if name == "short" || leg.pod() == "allowed" {
				t.Errorf("%s: %+v", name, leg)
			}
		}
	}
	off := &Sight{devices: devices()}
	off.devices.Offloads = nil
	if got := off.witnesses(lasting("other")); len(got) > 0 {
		t.Errorf("with offload off: %+v", got)
	}
	if off.instead.Hardware = true; len(off.witnesses(lasting("other"))) == 0 {
		t.Error("hardware was asked for, and nothing is compared")
	}
}

// TestTrial_CountsAlone: lasting cases come after the others, one at a time between two readings, and the results are in the
// order of the cases. Counters that cannot be read are missing, and fail nothing.
func TestTrial_CountsAlone(t *testing.T) {
	var order []string
	var fails error
	s := &Sight{devices: devices(), flows: func(_ context.Context, node string, q flowapi.Query) (*flowapi.Flows, error) {
		order = append(order, "read "+node)
		if !q.Counters || !q.NoFlows || fails != nil {
			return nil, errors.Join(fails, errors.New("away"))
		}
		n := uint64(len(order))
		return &flowapi.Flows{Ports: []flowapi.Port{
			{End: flowapi.End{Pod: "client"}, Hardware: 100 * n}, {End: flowapi.End{Pod: "same"}, Hardware: 100 * n}, {End: flowapi.End{Pod: "other"}, Hardware: 7},
		}}, nil
	}}
	short := lasting("same")
	short.ID, short.Size = "short", Small
	cases := []Case{lasting("same"), short, lasting("other")}
	env := Env{Pods: map[string]Addresses{}}
	run := Runner{Env: env, Done: func(r Result) { order = append(order, r.ID) }}
	results, missing, agree := Trial{}.ask(t.Context(), run, s, cases)
	want := "[short read a to-same read a read a read b to-other read a read b]"
	if got := fmt.Sprint(order); got != want || len(missing) > 0 {
		t.Errorf("%s, missing %q, want %s", got, missing, want)
	}
	for i := range results {
		if results[i].ID != cases[i].ID {
			t.Errorf("result %d is of %s", i, results[i].ID)
		}
		results[i].Verdict, results[i].Places = OK, []Placed{{Node: "a"}, {Node: "b"}}
	}
	agree()
	verdicts := []Verdict{results[0].Verdict, results[1].Verdict, results[2].Verdict}
	if !slices.Equal(verdicts, []Verdict{OK, OK, Fail}) || results[1].Places[0].Counters != nil || results[0].Places[0].Counters == nil {
		t.Errorf("%+v", results)
	}
	fails = errors.New("no answer")
	results, missing, agree = Trial{}.ask(t.Context(), run, s, cases)
	results[0].Verdict, results[0].Places = OK, []Placed{{Node: "a"}}
	if agree(); len(missing) != 2 || !strings.Contains(missing[0], "counters of node a: no answer") || results[0].Verdict != OK {
		t.Errorf("%q, %+v", missing, results)
	}
}

// TestTrial_CountsOnASlowNode: a reading takes longer than rules live without packets. The connection then lasts longer than a
// reading, and what was counted meanwhile is kept. The control is a connection in software.
func TestTrial_CountsOnASlowNode(t *testing.T) {
	const reading, idle = 15 * time.Second, 10 * time.Second
	for _, perSecond := range []uint64{100, 0} {
		synctest.Test(t, func(t *testing.T) {
			var begin, end time.Time
			s := &Sight{devices: devices(), flows: func(context.Context, string, flowapi.Query) (*flowapi.Flows, error) {
				time.Sleep(reading)
				port := flowapi.Port{End: flowapi.End{Pod: "client", Port: "rep0"}, Software: 10}
				if now := time.Now(); !begin.IsZero() && (end.IsZero() || now.Before(end.Add(idle))) {
					port.Hardware = perSecond * uint64(now.Sub(begin).Seconds())
				}
				return &flowapi.Flows{Ports: []flowapi.Port{port}}, nil
			}}
			run := Runner{Env: env(), Done: func(Result) {}, Ask: func(_ context.Context, _ string, command []string) (probe.Reply, error) {
				over, err := time.ParseDuration(strings.TrimPrefix(command[len(command)-1], "--over="))
				begin = time.Now()
				time.Sleep(over)
				end = time.Now()
				return probe.Reply{Outcome: probe.Reached, Names: map[string]int{"same": 1}}, err
			}}
			results, missing, agree := Trial{}.ask(t.Context(), run, s, []Case{lasting("same")})
			results[0].Places = []Placed{{Node: "a"}}
			agree()
			want := map[bool]Verdict{true: OK, false: Fail}[perSecond > 0]
			if results[0].Verdict != want || len(missing) > 0 || end.Sub(begin) != 2*reading+readEvery {
				t.Errorf("%d packets a second for %s: %+v, missing %q", perSecond, end.Sub(begin), results[0], missing)
			}
		})
	}
}

// TestWithResource_AsksWhereThereIsSome: a node without VFs gets pods without, and two such nodes are an error.
func TestWithResource_AsksWhereThereIsSome(t *testing.T) {
	const vf = "example.com/vf"
	node := func(name string, resources ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{}}}
		for _, r := range resources {
			n.Status.Allocatable[corev1.ResourceName(r)] = resource.MustParse("4")
		}
		return n
	}
	for name, c := range map[string]struct {
		resource string
		nodes    []corev1.Node
		want     string
		fails    bool
	}{
		"both":     {vf, []corev1.Node{node("a", vf), node("b", vf), node("c")}, "client same other", false},
		"one":      {vf, []corev1.Node{node("a", vf), node("b")}, "client same", false},
		"the last": {vf, []corev1.Node{node("a"), node("b", vf)}, "other", false},
		"none":     {vf, []corev1.Node{node("a"), node("b"), node("c", vf)}, "", true},
		"no VFs":   {"", []corev1.Node{node("a"), node("b")}, "", false},
	} {
		at, err := Place{NodeA: "a", NodeB: "b"}.WithResource(c.resource, c.nodes)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		var got []string
		for _, object := range Objects(at) {
			if p, is := object.(*corev1.Pod); is && len(p.Spec.Containers[0].Resources.Limits) > 0 {
				got = append(got, p.Name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v ask for one, want %s", name, got, c.want)
		}
	}
}
