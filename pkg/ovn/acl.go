package ovn

import (
	"fmt"
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// clusterRules are the rules of every node's switch, held by one port group with
// a port on each. What no policy decides is allowed, and committed to connection
// tracking, so that a policy that comes later knows replies from requests. Each
// tier before the last passes explicitly what it does not decide: where a tier
// says nothing, OVN lets every packet of a connection through that a later tier
// has blocked, and unblocks it, so that every second packet would pass. A pod
// that reaches itself through a service, which gives it the hairpin's source, may.
func clusterRules(net scope) []ovsdb.Row {
	rows := []ovsdb.Row{
		{ID: net.NodesGroup(), Model: &nb.PortGroup{Name: net.NodesGroup()}},
		{ID: acl.LogMeter + "/band", Model: &nb.MeterBand{Action: nb.MeterBandActionDrop, Rate: acl.LogMessagesPerSec},
			Parents: []ovsdb.Parent{{Table: nb.MeterTable, Name: acl.LogMeter, Column: columnBands}}},
		{ID: acl.LogMeter, Model: &nb.Meter{Name: acl.LogMeter, Unit: nb.MeterUnitPktps, Fair: pointer(true)}},
	}
	for _, egress := range []bool{false, true} {
		add := func(id, action, match string, tier, priority int) {
			rule := &nb.ACL{Action: action, Direction: nb.ACLDirectionToLport, Match: match, Tier: tier, Priority: priority}
			if egress {
				rule.Direction, rule.Options = nb.ACLDirectionFromLport, map[string]string{"apply-after-lb": "true"}
			}
			rows = append(rows, acl.Row(rule.Direction+"/"+id, rule, nb.PortGroupTable, net.NodesGroup()))
		}
		add("arp", nb.ACLActionAllow, "arp", acl.TierPrimary, acl.PriorityFirst)
		for tier := acl.TierPrimary; tier < acl.TierBaseline; tier++ {
			add(fmt.Sprintf("pass%d", tier), nb.ACLActionPass, "1", tier, acl.PriorityLast)
		}
		add("rest", nb.ACLActionAllowRelated, "1", acl.TierBaseline, acl.PriorityLast)
	}
	for _, subnet := range net.MasqueradeSubnets {
		rows = append(rows, fromAddress("hairpin", contract.PrefixAt(subnet, contract.MasqueradeHairpin).Addr(), nb.PortGroupTable, net.NodesGroup()))
	}
	return rows
}

func pointer[T any](v T) *T { return &v }

// nodeRules let a node reach the pods on it, whatever the policies: kubelet's
// probes come from there.
func nodeRules(n node) []ovsdb.Row {
	var rows []ovsdb.Row
	for _, subnet := range n.subnets {
		rows = append(rows, fromAddress("node", contract.PrefixAt(subnet, contract.ManagementOffset).Addr(), nb.LogicalSwitchTable, n.net.NodeSwitch(n.name)))
	}
	return rows
}

// fromAddress lets in what comes from an address, before every policy.
func fromAddress(id string, addr netip.Addr, table, parent string) ovsdb.Row {
	return acl.Row(id+"/"+acl.FamilyOf(addr), &nb.ACL{
		Action: nb.ACLActionAllowRelated, Direction: nb.ACLDirectionToLport, Tier: acl.TierPrimary, Priority: acl.PriorityFirst,
		Match: acl.Source.Of(contract.FamilyOf(addr)) + " == " + addr.String(),
	}, table, parent)
}
