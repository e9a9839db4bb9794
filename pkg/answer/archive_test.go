package answer

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// readings are flows and summaries as verbs read them, from a cluster or an archive.
type readings struct {
	s                *snapshot.Snapshot
	flows            []flowapi.Flow
	summaries        []*flowapi.Summary
	missing, unknown []string
}

// answers are those of the verbs about flows, as text and as JSON, with their exit codes.
func (r readings) answers(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(name string, a Answer, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var text bytes.Buffer
		for _, format := range []string{"text", "json"} {
			if err := Write(&text, a, format, taken.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		if a.Head().Code != Uncertain {
			t.Errorf("%s: exit code %d, and a node did not answer", name, a.Head().Code)
		}
		out[name] = text.String()
	}
	a, err := NewStreams(r.s, slices.Clone(r.flows), r.missing, Filter{Namespace: "shop"}, 0)
	add("flows", a, err)
	for _, by := range []string{"pod", "node", "reason"} {
		add("top --by "+by, NewTop(r.s, by, r.summaries, r.unknown, false), nil)
	}
	d, err := ExplainService(r.s, "shop/db", slices.Clone(r.flows), r.missing)
	add("service", d, err)
	d, err = ExplainPolicy(r.s, selected.Kinds()[0], "shop/db-ingress", slices.Clone(r.flows), r.missing)
	add("policy", d, err)
	l, err := NewLive(r.s, streams.Ends{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}, "", slices.Clone(r.flows), r.missing)
	add("trace --live", l, err)
	return out
}

// TestArchive_AnswersAsTheCluster byte for byte, also about a node that did not answer: silence is never an answer.
func TestArchive_AnswersAsTheCluster(t *testing.T) {
	live := readings{s: shop(t), flows: shopFlows(), missing: []string{"names of flows: no database", "node/w3: no ready pod"}, unknown: []string{"node/w3: no ready pod"}}
	var nodes []snapshot.NodeFlows
	for _, node := range []string{"w1", "w2"} {
		of := snapshot.NodeFlows{Summary: &flowapi.Summary{Node: node, Taken: taken, Total: offload.Share{OVS: offload.Count{Packets: 70}}}}
		for _, f := range live.flows {
			if f.Node == node {
				of.Flows = append(of.Flows, f)
			}
		}
		nodes, live.summaries = append(nodes, of), append(live.summaries, of.Summary)
	}
	live.s.Unread = &snapshot.Unread{Flows: live.missing, Summaries: live.unknown}
	s := throughArchive(t, live.s, nodes...)
	archived := readings{s: s, flows: s.Flows(""), summaries: s.Summaries(""), missing: s.UnreadFlows(""), unknown: s.UnreadSummaries("")}
	want := live.answers(t)
	for verb, got := range archived.answers(t) {
		if got != want[verb] {
			t.Errorf("%s: from an archive it is\n%s\nand not\n%s", verb, got, want[verb])
		}
		if !strings.Contains(got, "not known: node/w3: no ready pod") {
			t.Errorf("%s does not name the node that did not answer:\n%s", verb, got)
		}
	}
	if one := s.UnreadFlows("w1"); len(one) != 1 || len(s.UnreadSummaries("w3")) != 1 || len(s.UnreadSummaries("w1")) != 0 || len(s.Summaries("w2")) != 1 {
		t.Errorf("of one node: %q", one)
	}
}

// TestFolded_CountsManyNodes with one reason, and names few.
func TestFolded_CountsManyNodes(t *testing.T) {
	few := []string{"node/w1: not in this archive", "names: none", "names: none"}
	if got := folded(few); !slices.Equal(got, few[:2]) {
		t.Errorf("%q", got)
	}
	many := []string{"node/other: no answer"}
	for _, name := range strings.Fields("a b c d e f g h i j") {
		many = append(many, "node/"+name+": not in this archive")
	}
	if got := folded(many); !slices.Equal(got, []string{"node/other: no answer", "10 nodes: not in this archive"}) {
		t.Errorf("%q", got)
	}
}
