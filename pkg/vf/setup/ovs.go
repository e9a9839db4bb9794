package setup

import (
	"maps"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

const notSupervised = "other_config:hw-offload is set; ovs-vswitchd has to be restarted for it, and here only its administrator can do that"

// planOVS switches hw-offload of OVS on with the first PF that needs offload, and off with the last. It does not change a
// setting that a user has made before.
func planOVS(s State, wants map[string]Want) (Change, bool) {
	policy, dryRun := ovsPolicy(s, wants)
	if s.OVS == nil || policy == "" && s.Saved.OVS == nil {
		return Change{}, false
	}
	want := map[string]string{offload.HWOffloadKey: "true"}
	if policy == "" {
		want = s.Saved.OVS
	}
	c := Change{Policy: policy, DryRun: dryRun}
	plan, err := offload.PlanSettings(s.OVS.Observed, want)
	if err != nil {
		c.Refused = err.Error()
		return c, true
	}
	if len(plan.Set) > 0 {
		if policy != "" && s.Saved.OVS == nil {
			c.Steps = append(c.Steps, saveOVS{maps.Clone(plan.Undo)})
		}
		c.Steps = append(c.Steps, mergeOVS{plan.Set})
	}
	if len(plan.Restart) > 0 {
		c = c.restart(s.OVS.Supervised)
	}
	if policy == "" {
		c.Steps = append(c.Steps, deleteRules{}, forgetOVS{})
	}
	if policy != "" && !dryRun && !hasTurn(wants, policy) && interrupts(c.Steps) {
		c.Steps, c.State, c.Refused = nil, v1alpha1.PolicyWaiting, waits
	}
	return c, true
}

func hasTurn(wants map[string]Want, policy string) bool {
	for _, want := range wants {
		if want.Policy == policy {
			return want.Turn
		}
	}
	return false
}

// restart adds the restart of ovs-vswitchd, or says who can do it.
func (c Change) restart(supervised bool) Change {
	switch {
	case supervised:
		c.Steps = append(c.Steps, restartOVS{})
	case c.DryRun && len(c.Steps) > 0:
		c.Then = "only the administrator of OVS can restart ovs-vswitchd"
	case c.Policy != "" && len(c.Steps) == 0:
		c.Refused = notSupervised
	}
	return c
}

// ovsPolicy is the policy of the first PF that wants OVS to offload, a dry run only when no other
// does; "" when none does.
func ovsPolicy(s State, wants map[string]Want) (policy string, dryRun bool) {
	for i := range s.PFs { // in their order, so that it is always the same one
		switch w := wants[s.PFs[i].Name]; {
		case w.OVS && !w.DryRun:
			return w.Policy, false
		case w.OVS && policy == "":
			policy, dryRun = w.Policy, true
		}
	}
	return policy, dryRun
}

// whyRules is the reason why OVS offloads to a NIC that no policy selects any more.
func whyRules(s State, wants map[string]Want) string {
	policy, dryRun := ovsPolicy(s, wants)
	switch {
	case policy != "" && dryRun && s.Saved.OVS != nil:
		return "OVS offloads, and the dry run of policy " + policy + " keeps this setting"
	case policy != "" && !dryRun:
		return "OVS offloads for policy " + policy
	case s.Saved.OVS != nil:
		return "OVS offloads as long as a NIC cannot go back"
	case s.OVS != nil && s.OVS.Settings().HWOffload && s.OVS.OtherConfig[offload.HWOffloadKey] != "true":
		return "OVS offloads until ovs-vswitchd is restarted, and here only its administrator can do that"
	case s.OVS != nil && s.OVS.Settings().HWOffload:
		return "other_config:hw-offload of OVS is on, and is no policy's"
	}
	return "they are not OVS', which does not offload"
}
