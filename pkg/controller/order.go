package controller

import (
	"cmp"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
)

// longBuild is the time for building rows after which waiting ports of pods go first.
const longBuild = 20 * time.Millisecond

// isUrgent says that an owner goes before policies and services. These are ports of new and of deleted pods, and the
// switches and routers of networks and nodes.
func (c *Zone) isUrgent(owner contract.Owner) bool {
	switch owner.Kind {
	case contract.KindNetwork, contract.KindNode:
		return true
	case contract.KindPod:
		return c.portComesOrGoes(owner)
	}
	return false
}

// portComesOrGoes says that the database has no port for the pod's UID, or that the pod is deleted. A change of an
// existing port is not urgent: one policy may change the ports of all pods of a namespace.
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

// inOrder sorts owners into build order. A new port adds the owners that must not be later than the port and may still
// wait in the queue. These are its policies without a port group, and the pod sets by which administrators' policies
// deny, and the neighbors by which the router knows the pod.
func (c *Zone) inOrder(owners []contract.Owner) []contract.Owner {
	all := slices.Clone(owners)
	for _, owner := range owners {
		pod := c.view.Pod(owner.Namespace, owner.Name)
		if owner.Kind != contract.KindPod || pod == nil || !c.portComesOrGoes(owner) {
			continue
		}
		network := c.networkOf(owner)
		if network == nil {
			continue
		}
		all = append(append(all, c.view.AdminSetsOf(pod)...), c.neighbors(owner)...)
		policies, _ := c.view.PoliciesOf(pod, network.Name)
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
