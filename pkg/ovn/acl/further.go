package acl

import (
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// resolution is what always passes: without it, an address has no MAC.
const resolution = "(arp || nd || nd_rs || nd_ra)"

// further gives what the switches of the default network have of their own. Address resolution passes. A direction that
// the policy does not isolate is allowed and committed to connection tracking: else the replies to its packets would be
// new connections for the rules of the other direction.
func (b *policyBuilder) further() {
	for _, d := range []struct {
		name     string
		isolated *policy.Direction
	}{{"Ingress", b.policy.Ingress}, {"Egress", b.policy.Egress}} {
		id, match, rule := "resolution", resolution, aclRule{direction: d.name, action: nb.ACLActionAllow, priority: PriorityFirst}
		if d.isolated == nil {
			id, match, rule = "rest", "ip", aclRule{direction: d.name, action: nb.ACLActionAllowRelated, priority: PriorityLast}
		}
		b.rows = append(b.rows, Row(d.name+"/"+id, b.acl(rule, match), nb.PortGroupTable, b.group))
	}
}

// withoutAddresses says that a rule refers to pods of a network that gives them no addresses.
func (b *policyBuilder) withoutAddresses(rule policy.Rule) error {
	if b.policy.Owner.Network == "" || len(b.net.Subnets) > 0 || len(setsOf(rule)) == 0 {
		return nil
	}
	return fmt.Errorf("network %s has no subnets, so the addresses of its pods are unknown: selectors and named ports allow nothing, "+
		"ipBlock and numbered ports do", b.net.Name)
}
