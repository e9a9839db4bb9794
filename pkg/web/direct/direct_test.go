package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// lister has one pod in each namespace that is asked for, and remembers what it was asked.
type lister struct {
	mu    sync.Mutex
	asked []string
}

func (l *lister) List(ctx context.Context, r snapshot.Resource, of snapshot.Selected, _ metav1.ListOptions) ([]*snapshot.Object, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, fmt.Sprintf("%s in %q %s%s", r, of.Namespace, of.Fields, of.Labels))
	if r != snapshot.Pods || of.Namespace == "" || ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	return []*snapshot.Object{snapshot.NewObject(map[string]any{
		"metadata": map[string]any{"namespace": of.Namespace, "name": "web"}, "spec": map[string]any{"nodeName": "w1"}, "status": map[string]any{"phase": "Running"},
	})}, "", nil
}

// dumped is when the agent read its flows.
var dumped = time.Unix(1_700_000_000, 0)

// asker gives one of the flows of an agent, without a name.
type asker struct {
	questions []string
	fails     string
}

func (a *asker) flows(_ context.Context, pods []corev1.Pod, nodes []string, q flowapi.Query) ([]*flowapi.Flows, []string, error) {
	a.questions = append(a.questions, fmt.Sprintf("%d pods %v %s/%s", len(pods), nodes, q.Namespace, q.Pod))
	if a.fails != "" {
		return nil, []string{a.fails}, nil
	}
	end := func(namespace string) flowapi.End { return flowapi.End{Namespace: namespace, Pod: "web"} }
	flow := flowapi.Flow{ID: "1", Node: "w1", From: end("shop"), To: []flowapi.End{end("bank")}, Traffic: flowapi.Traffic{Packets: 7}}
	return []*flowapi.Flows{{Node: "w1", Taken: dumped, Matched: 900, Flows: []flowapi.Flow{flow}}}, []string{"names of flows: no database"}, nil
}

func newFacts() (*Facts, *lister, *asker) {
	l, a := &lister{}, &asker{}
	return New(Config{From: l, System: "ovn-kubernetes", Flows: a.flows}), l, a
}

// TestSnapshot_ReadsWhatAViewNeeds, once for all who look at it, and never all pods.
func TestSnapshot_ReadsWhatAViewNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		want web.Want
		has  []string
	}{
		"overview":   {web.Want{Resources: answer.StatusResources()}, []string{`nodes in "" `, `leases in "ovn-kubernetes" `}},
		"node":       {web.Want{Resources: append(answer.TopologyResources(), answer.StatusResources()...), Node: "w1"}, []string{`nodes in "" metadata.name=w1`, `pods in "" spec.nodeName=w1`}},
		"pod":        {web.Want{Resources: answer.ExplainPodResources(), Pod: "shop/web"}, []string{`pods in "shop" metadata.name=web`, `nodeoffloads in "" metadata.name=w1`, `pods in "ovn-kubernetes" app=ovnkube-db`}},
		"namespaces": {web.Want{Resources: answer.FlowResources(), Namespaces: []string{"bank", "shop"}}, []string{`pods in "bank" `, `services in "shop" `, `nodes in "" `}},
	} {
		f, l, _ := newFacts()
		for range 3 {
			if _, err := f.Snapshot(t.Context(), test.want); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range test.has {
			if n := len(slices.DeleteFunc(slices.Clone(l.asked), func(got string) bool { return got != want })); n == 0 || n > 1 && test.want.Pod == "" {
				t.Errorf("%s: asked %d times for %s: %q", name, n, want, l.asked)
			}
		}
		if slices.Contains(l.asked, `pods in "" `) {
			t.Errorf("%s: all pods were read", name)
		}
	}
}

// TestStreams_HaveAFlowOfTwoNamespacesOnce.
func TestStreams_HaveAFlowOfTwoNamespacesOnce(t *testing.T) {
	f, _, a := newFacts()
	for range 2 {
		list, err := f.Streams(t.Context(), []string{"bank", "shop"})
		if err != nil || len(list.Streams) != 1 || list.Streams[0].Packets != 7 {
			t.Fatalf("%+v, %v", list, err)
		}
	}
	if want := []string{"1 pods [w1] bank/", "1 pods [w1] shop/"}; !slices.Equal(a.questions, want) {
		t.Errorf("asked %q, want %q", a.questions, want)
	}
	f, _, a = newFacts()
	a.fails = "node/w1: no agent"
	if list, err := f.Streams(t.Context(), []string{"shop"}); err != nil || !slices.Equal(list.Missing, []string{"node/w1: no agent"}) {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestFacts_ForgetWhatAClosedViewHasRead: its lists are not whole.
func TestFacts_ForgetWhatAClosedViewHasRead(t *testing.T) {
	f, l, _ := newFacts()
	want := web.Want{Resources: answer.FlowResources(), Namespaces: []string{"shop"}}
	closed, end := context.WithCancel(t.Context())
	end()
	if s, err := f.Snapshot(closed, want); err != nil || s.Missing[snapshot.Pods] == "" {
		t.Fatalf("a view that is closed: %v, %v", s, err)
	}
	for range 2 {
		if s, err := f.Snapshot(t.Context(), want); err != nil || len(s.Missing) > 0 {
			t.Errorf("a view that is open: %v, %v", s.Missing, err)
		}
	}
	if n := len(slices.DeleteFunc(l.asked, func(got string) bool { return got != `pods in "shop" ` })); n != 2 {
		t.Errorf("the pods were read %d times, want 2", n)
	}
}

// TestFlows_AreThoseOfAPodOrANode, and an agent that does not answer is an error.
func TestFlows_AreThoseOfAPodOrANode(t *testing.T) {
	f, l, a := newFacts()
	for _, of := range [][2]string{{"shop/web", ""}, {"", "w2"}} {
		if list, err := f.Flows(t.Context(), of[0], of[1]); err != nil || len(list.Flows) != 1 || list.Matched != 900 || !list.Taken.Equal(dumped) || len(list.Missing) != 1 {
			t.Errorf("%v: %+v, %v", of, list, err)
		} else if (list.Ends != nil) != (of[0] != "") {
			t.Errorf("%v: names of its ends %v", of, list.Ends)
		}
	}
	if want := []string{"1 pods [w1] shop/web", "1 pods [w2] /"}; !slices.Equal(a.questions, want) {
		t.Errorf("asked %q, want %q", a.questions, want)
	}
	if !slices.Contains(l.asked, `pods in "" spec.nodeName=w1`) || !slices.Contains(l.asked, `services in "" `) || slices.Contains(l.asked, `pods in "" `) {
		t.Errorf("the ends of a pod's flows are pods of its node: read %q", l.asked)
	}
	if _, err := f.Flows(t.Context(), "shop/gone", ""); !errors.As(err, new(answer.ErrNotFound)) {
		t.Errorf("a pod that is not there: %v", err)
	}
	f, _, a = newFacts()
	a.fails = "node/w1: no agent"
	if _, err := f.Flows(t.Context(), "shop/web", ""); err == nil || !strings.Contains(err.Error(), "no agent") {
		t.Errorf("an agent that does not answer: %v", err)
	}
}

// TestLive_IsReadOnceForAllViewers, from an archive, too.
func TestLive_IsReadOnceForAllViewers(t *testing.T) {
	for _, archive := range []*snapshot.Snapshot{nil, snapshot.New(dumped, "ovn-kubernetes")} {
		var asked []string
		f := New(Config{Archive: archive, Live: func(_ context.Context, from, to string) (*answer.Live, error) {
			asked = append(asked, from+" "+to)
			return &answer.Live{Verdict: answer.Allowed}, nil
		}})
		for range 2 {
			if l, err := f.Live(t.Context(), "pod/shop/web", "svc/shop/db:1/tcp"); err != nil || l.Verdict != answer.Allowed {
				t.Errorf("%+v, %v", l, err)
			}
		}
		if want := []string{"pod/shop/web svc/shop/db:1/tcp"}; !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	}
}

// TestArchive_HasFlowsAndNoPaths.
func TestArchive_HasFlowsAndNoPaths(t *testing.T) {
	s := snapshot.New(time.Unix(1_700_000_000, 0), "ovn-kubernetes")
	s.Add(snapshot.Pods, map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "web"}, "spec": map[string]any{"nodeName": "w1"}})
	var file bytes.Buffer
	archive, err := snapshot.NewArchive(&file, s)
	if err != nil {
		t.Fatal(err)
	}
	end := flowapi.End{Namespace: "shop", Pod: "web"}
	flows := snapshot.NodeFlows{Flows: []flowapi.Flow{{ID: "1", Node: "w1", From: end, Traffic: flowapi.Traffic{Packets: 1}}, {ID: "2", Node: "w1", To: []flowapi.End{end}, Traffic: flowapi.Traffic{Packets: 2}}, {ID: "3", Node: "w1"}}}
	if err := errors.Join(archive.AddFlows("w1", flows), archive.Close()); err != nil {
		t.Fatal(err)
	}
	read, err := snapshot.Open(&file)
	if err != nil {
		t.Fatal(err)
	}
	f := New(Config{Archive: read})
	if list, err := f.Flows(t.Context(), "shop/web", ""); err != nil || list.Matched != 2 || list.Flows[0].ID != "2" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := f.Flows(t.Context(), "", "w2"); !errors.Is(err, web.ErrNoRelay) {
		t.Errorf("a node without flows: %v", err)
	}
	if list, err := f.Streams(t.Context(), []string{"shop"}); err != nil || len(list.Streams) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := f.Trace(t.Context(), "", ""); err == nil {
		t.Error("a path was computed")
	}
}
