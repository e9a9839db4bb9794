package controller

import (
	"cmp"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
)

// longBuild is how long a pass builds rows before it lets the ports of new pods go first.
const longBuild = 20 * time.Millisecond

// isUrgent says that an owner goes before policies and services: the port of a pod
// that comes or goes, and what ports are attached to.
func (c *Zone) isUrgent(owner contract.Owner) bool {
	switch owner.Kind {
	case contract.KindNetwork, contract.KindNode:
		return true
	case contract.KindPod:
		return c.portComesOrGoes(owner)
	}
	return false
}

// portComesOrGoes says that the database has no port for the pod as it is now, or
// that the pod has gone. Changes of a port that runs are not urgent: one policy may
// change those of all pods of a namespace.
func (c *Zone) portComesOrGoes(owner contract.Owner) bool {
	pod, db := c.view.Pod(owner.Namespace, owner.Name), c.opened.Load()
	if pod == nil {
		return true
	}
	if db == nil || !contract.WantsNetwork(pod) {
		return false
	}
	for _, row := range db.Rows(owner.String()) {
		if port, ok := row.Model.(*nb.LogicalSwitchPort); ok && port.Options["iface-id-ver"] == string(pod.UID) {
			return false
		}
	}
	return true
}

// inOrder puts owners into the order in which they are built. A port that comes
// brings with it what must not be later than the port and may wait in the queue
// behind others': its policies that have no port group yet, and the sets of pods
// by which administrators' policies deny.
func (c *Zone) inOrder(owners []contract.Owner) []contract.Owner {
	all := slices.Clone(owners)
	for _, owner := range owners {
		pod := c.view.Pod(owner.Namespace, owner.Name)
		if owner.Kind != contract.KindPod || pod == nil || !c.portComesOrGoes(owner) {
			continue
		}
		all = append(all, c.view.AdminSetsOf(pod)...)
		policies, _ := c.view.PoliciesOf(pod)
		for _, policy := range policies {
			if len(c.db.Rows(policy.Owner.String())) == 0 {
				all = append(all, policy.Owner)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b contract.Owner) int { return cmp.Compare(ovn.Rank(a), ovn.Rank(b)) })
	seen := map[contract.Owner]bool{}
	return slices.DeleteFunc(all, func(owner contract.Owner) bool {
		again := seen[owner]
		seen[owner] = true
		return again
	})
}
