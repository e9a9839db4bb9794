package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// isClusterPolicy says that an owner's object has a status to be written.
func isClusterPolicy(owner contract.Owner) bool {
	_, ok := policy.AdminKinds()[owner.Kind]
	return ok
}

// decided records the outcome of a policy for the whole cluster, or of a chain, and marks its status for writing.
func (c *Zone) decided(owner contract.Owner, err error) {
	if !isClusterPolicy(owner) && owner.Kind != contract.KindNetworkChaining {
		return
	}
	condition := metav1.Condition{
		Type: kube.PolicyReadyCondition, Status: metav1.ConditionTrue,
		Reason: "SetupSucceeded", Message: "the rules of this policy are in the Northbound database",
	}
	if err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "SetupFailed", err.Error()
	}
	c.outcomes.Store(owner, condition)
	c.statuses.Mark(owner)
}

// writeStatuses writes the conditions of policies and the states of chains. It is a loop of its own, so
// that a slow API server does not hold up the rows.
func (c *Zone) writeStatuses(ctx context.Context, owners []contract.Owner) (map[contract.Owner]error, error) {
	failed := map[contract.Owner]error{}
	for _, owner := range owners {
		object := c.view.AdminPolicy(owner)
		if owner.Kind == contract.KindNetworkChaining {
			object = c.view.NetworkChaining(owner.Namespace, owner.Name)
		}
		outcome, ok := c.outcomes.Load(owner)
		switch {
		case object == nil:
			c.outcomes.Delete(owner)
		case ok && owner.Kind == contract.KindNetworkChaining:
			failed[owner] = kube.SetChainState(ctx, c.cfg.Dynamic, object, outcome.(metav1.Condition))
		case ok:
			failed[owner] = kube.SetPolicyCondition(ctx, c.cfg.Dynamic, owner, object, outcome.(metav1.Condition))
		}
	}
	return failed, nil
}
