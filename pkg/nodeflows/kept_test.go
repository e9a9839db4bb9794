package nodeflows

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// TestWhy_AsksOnceWhileAFlowLives: viewers of several dumps are one question a flow, for a minute. Answers without rules are asked for
// again.
func TestWhy_AsksOnceWhileAFlowLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := rules
		v := &vswitchd{detrace: func([]string) (string, error) { return answer, nil }}
		s := testSource(v)
		look := func() *flowapi.Flows {
			got, err := s.Flows(t.Context(), flowapi.Query{Why: true, All: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range got.Flows {
				if len(f.Why.Rules) != 3 {
					t.Fatalf("%s: %+v", f.ID, f.Why)
				}
			}
			return got
		}
		flows := len(look().Flows)
		for range 5 {
			time.Sleep(10 * time.Second)
			look()
		}
		if v.dumps != 6 || len(v.detraces) != flows {
			t.Errorf("%d dumps with %d flows: %d questions", v.dumps, flows, len(v.detraces))
		}
		if kept := testutil.ToFloat64(s.cost.rules.WithLabelValues("kept")); int(kept) != 5*flows {
			t.Errorf("%v answers were kept, want %d", kept, 5*flows)
		}
		time.Sleep(15 * time.Second)
		look()
		if len(v.detraces) != 2*flows {
			t.Errorf("after a minute: %d questions, want %d", len(v.detraces), 2*flows)
		}
	})
}

// TestFlows_LooksAgainByUFID: at a later dump, with rules that are asked for anew. A flow that has ended is not there.
func TestFlows_LooksAgainByUFID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vswitchd{detrace: func([]string) (string, error) { return rules, nil }}
		s := testSource(v)
		if _, err := s.Flows(t.Context(), flowapi.Query{Why: true, All: true}); err != nil {
			t.Fatal(err)
		}
		v.detraces = nil
		const id = "aaaaaaaa-0000-0000-0000-00000000000"
		begun := time.Now()
		got, err := s.Flows(t.Context(), flowapi.Query{Why: true, IDs: id + "4," + id + "9"})
		if err != nil || !slices.Equal(ids(got), []string{"4"}) || len(v.detraces) != 1 {
			t.Fatalf("%v, %v, asked for %v", ids(got), err, v.detraces)
		}
		if v.dumps != 2 || time.Since(begun) != flowapi.MinPeriod {
			t.Errorf("%d dumps after %s", v.dumps, time.Since(begun))
		}
		s.newest.busy = time.Minute // no dump may be made for long
		if got, err = s.Flows(t.Context(), flowapi.Query{Why: true, IDs: id + "4"}); err != nil || len(got.Flows) != 1 || v.dumps != 2 || time.Since(begun) != 2*flowapi.MinPeriod {
			t.Errorf("%v, %v, %d dumps after %s", got, err, v.dumps, time.Since(begun))
		}
	})
}

// TestKeptRules_AreOfTheSameFlow: another one with its UFID, and one whose actions have changed, are asked for.
func TestKeptRules_AreOfTheSameFlow(t *testing.T) {
	flow := flowapi.Flow{ID: "1", Actions: "2", Traffic: flowapi.Traffic{Packets: 7}}
	d := &dump{flows: []flowapi.Flow{flow}}
	var k keptRules
	k.see(d)
	k.keep(&flow, &flowapi.Why{ID: "1", Problem: problemEarly})
	if k.get(&flow) != nil {
		t.Error("an answer without rules was kept")
	}
	k.keep(&flow, &flowapi.Why{ID: "1", Rules: []flowapi.Rule{{Cookie: 9}}})
	newer, changed, again := flow, flow, flow
	newer.Packets, changed.Actions, again.Packets = 8, "drop", 6
	if k.get(&newer) == nil || k.get(&changed) != nil || k.get(&again) != nil {
		t.Errorf("the same flow %v, with other actions %v, begun again %v", k.get(&newer), k.get(&changed), k.get(&again))
	}
	k.see(&dump{})
	k.see(d)
	if k.get(&flow) != nil {
		t.Error("a flow that had ended has rules")
	}
}
