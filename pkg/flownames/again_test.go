package flownames

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// agent gives flows as they are at the second look.
type agent struct {
	flowapi.Source
	now   []flowapi.Flow
	asked []string
	err   error
}

func (a *agent) Flows(_ context.Context, q flowapi.Query) (*flowapi.Flows, error) {
	a.asked = append(a.asked, q.IDs)
	if !q.Why || q.Limit < strings.Count(q.IDs, ",")+1 {
		return nil, errors.New("not asked for the rules of all of them")
	}
	return &flowapi.Flows{Node: "the DPU's name", Flows: slices.Clone(a.now)}, a.err
}

func with(id string, cookies ...uint64) flowapi.Flow {
	f := flowapi.Flow{ID: id, Node: "w1", Why: &flowapi.Why{ID: id, TC: &flowapi.TCRule{Device: "rep1"}}}
	for _, cookie := range cookies {
		f.Why.Rules = append(f.Why.Rules, flowapi.Rule{Cookie: cookie, Rule: "priority=100"})
	}
	return f
}

func without(id, problem string) flowapi.Flow {
	f := with(id)
	f.Why.Problem = problem
	return f
}

// changing are flows of which some have changed when the databases are read.
func changing() []*flowapi.Flow {
	flows := []flowapi.Flow{
		with("named", 0xaaaaaaaa), with("replaced", 0x12121212), without("ended", "ovs-vswitchd knows no rules of the flow: it has ended"),
		with("unknown", 0x34343434), with("none", 0xdddddddd), without("old", flowapi.NoRules), {ID: "unasked", Node: "w1"},
	}
	var out []*flowapi.Flow
	for i := range flows {
		out = append(out, &flows[i])
	}
	return out
}

func state(flows []*flowapi.Flow) (out []string) {
	for _, f := range flows {
		text := f.ID + "@" + f.Node
		if f.Stale {
			text += " stale"
		}
		out = append(out, text+" "+strings.Join(f.DecidedBy, ","))
	}
	return out
}

// TestAddAll_LooksAgainAtWhatChanged: rules that were replaced, and a flow that ended, while names were looked for.
func TestAddAll_LooksAgainAtWhatChanged(t *testing.T) {
	flows := changing()
	again := with("replaced", 0xaaaaaaaa)
	again.Why.TC = nil
	a := &agent{now: []flowapi.Flow{again, with("unknown", 0x34343434)}}
	missing, err := AddAll(t.Context(), Databases{Programs(cluster().run)}, func(string) flowapi.Source { return a }, flows)
	if err != nil || missing != nil || !slices.Equal(a.asked, []string{"replaced,ended,unknown"}) {
		t.Fatalf("asked again for %v: %v, %v", a.asked, missing, err)
	}
	const object = "NetworkPolicy/shop/allow"
	want := []string{"named@w1 " + object, "replaced@w1 " + object, "ended@w1 stale ", "unknown@w1 ", "none@w1 ", "old@w1 ", "unasked@w1 "}
	if got := state(flows); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if flows[1].Why.TC == nil {
		t.Error("the rule of TC got lost")
	}
	if why := Unnamed(*flows[3]); !strings.Contains(why, "has no row 34343434") {
		t.Error(why)
	}
}

// TestAddAll_KeepsWhatItHasWithoutASecondAnswer: of an agent that fails, and of one of a former version, which gives other flows.
func TestAddAll_KeepsWhatItHasWithoutASecondAnswer(t *testing.T) {
	first := changing()
	if err := Add(t.Context(), Databases{Programs(cluster().run)}, first); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*agent{{now: []flowapi.Flow{with("replaced", 0xaaaaaaaa), with("other", 0xaaaaaaaa)}}, {err: errors.New("restarting")}} {
		flows := changing()
		missing, err := AddAll(t.Context(), Databases{Programs(cluster().run)}, func(string) flowapi.Source { return a }, flows)
		if got, want := state(flows), state(first); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
		if said := strings.Join(missing, " "); (a.err != nil) != strings.Contains(said, "node/w1: restarting") {
			t.Errorf("missing: %v", missing)
		}
	}
}
