package rollout

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// TestPlan_GivesTurns: words are nodes with their states; a state with a + is that of a node that has a turn.
func TestPlan_GivesTurns(t *testing.T) {
	number := func(n int) *intstr.IntOrString { v := intstr.FromInt32(int32(n)); return &v }
	percent := func(text string) *intstr.IntOrString { v := intstr.FromString(text); return &v }
	for name, c := range map[string]struct {
		limit  *intstr.IntOrString
		drain  v1alpha1.Drain
		states string
		want   string // nodes with a turn, and the condition's reason
	}{
		"one by default":              {nil, "", "Waiting Waiting", "a Progressing"},
		"the next after the first":    {nil, "", "Applied+ Waiting", "b Progressing"},
		"one is at work":              {nil, "", "Pending+ Waiting", "a Progressing"},
		"its turn is not seen yet":    {nil, "", "Waiting+ Waiting", "a Progressing"},
		"a failure stops all":         {nil, "", "Failed+ Waiting", "a Failed"},
		"a refusal stops none":        {nil, "", "Refused+ Waiting", "b Failed"},
		"without a turn nothing ends": {nil, "", "Failed Waiting", "b Failed"},
		"a drain by hand":             {nil, v1alpha1.DrainWait, "DrainNeeded+ Waiting", "b ActionNeeded"},
		"a drain by us":               {nil, v1alpha1.DrainEvict, "DrainNeeded+ Waiting", "a Progressing"},
		"a reboot":                    {nil, "", "RebootNeeded Waiting", "b ActionNeeded"},
		"two":                         {number(2), "", "Waiting Waiting Waiting", "a,b Progressing"},
		"half, rounded up":            {percent("50%"), "", "Waiting Waiting Waiting", "a,b Progressing"},
		"paused":                      {number(0), "", "Waiting Waiting", " Progressing"},
		"fewer than before":           {number(1), "", "Pending+ Pending+ Waiting", "a,b Progressing"},
		"bad":                         {percent("many"), "", "Waiting", " Progressing"},
		"all":                         {nil, "", "Applied Applied+", " AllApplied"},
		"no node":                     {nil, "", "", " NoNodes"},
		"nothing said":                {nil, "", "- Waiting", "b Progressing"},
		"said of an older generation": {nil, "", "Applied-old+ Waiting", "a Progressing"},
	} {
		p := &v1alpha1.OffloadPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 2}, Spec: v1alpha1.OffloadPolicySpec{MaxUnavailable: c.limit, Drain: c.drain}}
		results := map[string][]v1alpha1.PolicyResult{}
		for i, state := range strings.Fields(c.states) {
			node := string(rune('a' + i))
			state, turn := strings.CutSuffix(state, "+")
			if turn {
				p.Status.Changing = append(p.Status.Changing, node)
			}
			state, old := strings.CutSuffix(state, "-old")
			generation := int64(2)
			if old {
				generation = 1
			}
			results[node] = nil
			if state != "-" {
				results[node] = []v1alpha1.PolicyResult{
					{Policy: "p", Generation: generation, State: v1alpha1.PolicyApplied},
					{Policy: "p", Generation: generation, State: v1alpha1.PolicyState(state)},
				}
			}
		}
		status := Plan(p, results)
		if got := strings.Join(status.Changing, ",") + " " + status.Conditions[0].Reason; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if status.Applied+status.Pending+status.Failed != status.Selected {
			t.Errorf("%s: %+v", name, status)
		}
		p.Status = status
		if again := Plan(p, results); fmt.Sprint(again) != fmt.Sprint(status) {
			t.Errorf("%s: not stable: %v, then %v", name, status, again)
		}
	}
}

// TestPlan_StatusIsBounded: 2,000 nodes, all refused, and all of them may change.
func TestPlan_StatusIsBounded(t *testing.T) {
	all := intstr.FromString("100%")
	p := &v1alpha1.OffloadPolicy{Spec: v1alpha1.OffloadPolicySpec{MaxUnavailable: &all}}
	results := map[string][]v1alpha1.PolicyResult{}
	for i := range 2000 {
		state := v1alpha1.PolicyRefused
		if i%2 == 0 {
			state = v1alpha1.PolicyWaiting
		}
		results[fmt.Sprintf("n%04d", i)] = []v1alpha1.PolicyResult{{Policy: "p", State: state, Message: "no"}}
	}
	status := Plan(p, results)
	if len(status.Changing) != mostChanging || len(status.Problems) != mostProblems || status.ProblemsOmitted != 980 || status.Failed != 1000 {
		t.Errorf("%d change, %d problems and %d more, %d failed", len(status.Changing), len(status.Problems), status.ProblemsOmitted, status.Failed)
	}
}
