package setup

import (
	"maps"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

const notSupervised = "other_config:hw-offload is set; ovs-vswitchd has to be restarted for it, and here only its administrator can do that"

// planOVS switches hw-offload of OVS on with the first PF that needs offload, and off with the last. It does not change a
// setting that a user has made before.
func planOVS(s State, wants map[string]Want) (Change, bool) {
	policy := ovsPolicy(s, wants)
	if s.OVS == nil || policy == "" && s.Saved.OVS == nil {
		return Change{}, false
	}
	want := map[string]string{offload.HWOffloadKey: "true"}
	if policy == "" {
		want = s.Saved.OVS
	}
	c := Change{Policy: policy}
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
	switch restart := len(plan.Restart) > 0; {
	case restart && s.OVS.Supervised:
		c.Steps = append(c.Steps, restartOVS{})
	case restart && policy != "" && len(c.Steps) == 0:
		c.Refused = notSupervised
	}
	if policy == "" {
		c.Steps = append(c.Steps, forgetOVS{})
	}
	return c, true
}

// ovsPolicy is the policy of the first PF that wants OVS to offload; "" when none does.
func ovsPolicy(s State, wants map[string]Want) string {
	for i := range s.PFs { // in their order, so that it is always the same one
		if w := wants[s.PFs[i].Name]; w.OVS {
			return w.Policy
		}
	}
	return ""
}

// whyRules is the reason why OVS offloads to a NIC that no policy selects any more.
func whyRules(s State, wants map[string]Want) string {
	policy := ovsPolicy(s, wants)
	switch {
	case policy != "":
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
