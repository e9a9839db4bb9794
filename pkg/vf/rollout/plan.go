package rollout

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

const (
	// mostChanging and mostProblems bound a status.
	mostChanging = 100
	mostProblems = 20
)

// Plan is pure. Results has what each selected node says of the policy, and is empty for a node that has said nothing yet.
func Plan(p *v1alpha1.OffloadPolicy, results map[string][]v1alpha1.PolicyResult) v1alpha1.OffloadPolicyStatus {
	status := v1alpha1.OffloadPolicyStatus{
		ObservedGeneration: p.Generation, Selected: len(results), Conditions: slices.Clone(p.Status.Conditions),
	}
	var waiting []string
	for _, node := range sorted(results) {
		worst, state := worstOf(p, results[node])
		switch state {
		case v1alpha1.PolicyApplied:
			status.Applied++
		case v1alpha1.PolicyFailed, v1alpha1.PolicyRefused, v1alpha1.PolicyConflict:
			status.Failed++
		default:
			status.Pending++
		}
		if state == v1alpha1.PolicyWaiting {
			waiting = append(waiting, node)
		}
		if slices.Contains(p.Status.Changing, node) && keepsTurn(p, state) {
			status.Changing = append(status.Changing, node)
		}
		if needsAction(p, state) {
			status.Problems = append(status.Problems, v1alpha1.NodeProblem{Node: node, Device: worst.Device, State: state, Message: worst.Message})
		}
	}
	limit := min(maxUnavailable(p, len(results)), mostChanging)
	for _, node := range waiting {
		if len(status.Changing) < limit && !slices.Contains(status.Changing, node) {
			status.Changing = append(status.Changing, node)
		}
	}
	slices.Sort(status.Changing)
	if over := len(status.Problems) - mostProblems; over > 0 {
		status.Problems, status.ProblemsOmitted = status.Problems[:mostProblems], over
	}
	setCondition(&status)
	return status
}

func sorted(results map[string][]v1alpha1.PolicyResult) []string {
	var nodes []string
	for node := range results {
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	return nodes
}

// order is that of states, the worst first. Of a node with a result that waits for its turn and one that has failed, the
// failure counts.
func order() []v1alpha1.PolicyState {
	return []v1alpha1.PolicyState{
		v1alpha1.PolicyFailed, v1alpha1.PolicyRefused, v1alpha1.PolicyConflict, v1alpha1.PolicyDrainNeeded,
		v1alpha1.PolicyWaiting, v1alpha1.PolicyRebootNeeded, v1alpha1.PolicyPending, v1alpha1.PolicyPlanned, v1alpha1.PolicyApplied,
	}
}

// worstOf is the result that decides for a node. What an agent says of another generation of the policy does not count.
func worstOf(p *v1alpha1.OffloadPolicy, results []v1alpha1.PolicyResult) (v1alpha1.PolicyResult, v1alpha1.PolicyState) {
	current := slices.DeleteFunc(slices.Clone(results), func(r v1alpha1.PolicyResult) bool { return r.Generation != p.Generation })
	if len(current) == 0 {
		return v1alpha1.PolicyResult{}, v1alpha1.PolicyPending
	}
	worst := slices.MinFunc(current, func(a, b v1alpha1.PolicyResult) int {
		return cmp.Compare(slices.Index(order(), a.State), slices.Index(order(), b.State))
	})
	return worst, worst.State
}

// keepsTurn says that a node is not done with its change. One that has failed may be without its network, so that no other
// node begins.
func keepsTurn(p *v1alpha1.OffloadPolicy, state v1alpha1.PolicyState) bool {
	switch state {
	case v1alpha1.PolicyPending, v1alpha1.PolicyWaiting, v1alpha1.PolicyFailed:
		return true
	case v1alpha1.PolicyDrainNeeded:
		return p.Spec.Drain == v1alpha1.DrainEvict
	}
	return false
}

// needsAction says that an administrator has to act.
func needsAction(p *v1alpha1.OffloadPolicy, state v1alpha1.PolicyState) bool {
	switch state {
	case v1alpha1.PolicyFailed, v1alpha1.PolicyRefused, v1alpha1.PolicyConflict, v1alpha1.PolicyRebootNeeded:
		return true
	case v1alpha1.PolicyDrainNeeded:
		return p.Spec.Drain != v1alpha1.DrainEvict
	}
	return false
}

// maxUnavailable is 1 by default; 0 pauses the policy.
func maxUnavailable(p *v1alpha1.OffloadPolicy, selected int) int {
	if p.Spec.MaxUnavailable == nil {
		return 1
	}
	limit, err := intstr.GetScaledValueFromIntOrPercent(p.Spec.MaxUnavailable, selected, true)
	if err != nil || limit < 0 {
		return 0
	}
	return limit
}

func setCondition(status *v1alpha1.OffloadPolicyStatus) {
	c := metav1.Condition{
		Type: v1alpha1.ConditionApplied, Status: metav1.ConditionFalse, ObservedGeneration: status.ObservedGeneration,
		Message: fmt.Sprintf("%d of %d nodes have the settings, %d are pending, %d have failed", status.Applied, status.Selected, status.Pending, status.Failed),
	}
	switch {
	case status.Selected == 0:
		c.Reason = "NoNodes"
	case status.Failed > 0:
		c.Reason = "Failed"
	case len(status.Problems) > 0:
		c.Reason = "ActionNeeded"
	case status.Applied < status.Selected:
		c.Reason = "Progressing"
	default:
		c.Status, c.Reason = metav1.ConditionTrue, "AllApplied"
	}
	for i, old := range status.Conditions {
		if old.Type != c.Type {
			continue
		}
		c.LastTransitionTime = old.LastTransitionTime
		if old.Status != c.Status {
			c.LastTransitionTime = metav1.Now()
		}
		status.Conditions[i] = c
		return
	}
	c.LastTransitionTime = metav1.Now()
	status.Conditions = append(status.Conditions, c)
}
