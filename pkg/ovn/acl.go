package ovn

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// OVN evaluates the tiers in this order until one of them decides.
const (
	tierPrimary  = 0
	tierAdmin    = 1
	tierPolicy   = 2
	tierBaseline = 3
)

// Priorities within a tier.
const (
	priorityFirst = 32767
	priorityAllow = 1001
	priorityDeny  = 1000
	// The policies for the whole cluster have the priorities from here downwards.
	priorityAdmin = 32600
	stepsOfPolicy = 32
	priorityLast  = 0
)

// maxACLName is the schema's limit.
const maxACLName = 63

// logMeter bounds the log messages of each rule.
const (
	logMeter          = "acl-logging"
	logMessagesPerSec = 20
)

// aclRow places a rule in a port group or a switch.
func aclRow(id string, acl *nb.ACL, table, parent string) ovsdb.Row {
	return ovsdb.Row{ID: id, Model: acl, Parents: []ovsdb.Parent{{Table: table, Name: parent, Column: columnACLs}}}
}

// logRule names a rule, which the log shows, and sets whether it is logged.
func logRule(acl *nb.ACL, name string, logging contract.ACLLogging) {
	if len(name) > maxACLName {
		name = strings.ToValidUTF8(name[:maxACLName], "")
	}
	acl.Name = &name
	severity := logging.Allow
	if acl.Action == nb.ACLActionDrop {
		severity = logging.Deny
	}
	if severity != "" {
		meter := logMeter
		acl.Log, acl.Severity, acl.Meter = true, &severity, &meter
	}
}

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
		{ID: logMeter + "/band", Model: &nb.MeterBand{Action: nb.MeterBandActionDrop, Rate: logMessagesPerSec},
			Parents: []ovsdb.Parent{{Table: nb.MeterTable, Name: logMeter, Column: columnBands}}},
		{ID: logMeter, Model: &nb.Meter{Name: logMeter, Unit: nb.MeterUnitPktps, Fair: pointer(true)}},
	}
	for _, egress := range []bool{false, true} {
		add := func(id, action, match string, tier, priority int) {
			acl := &nb.ACL{Action: action, Direction: nb.ACLDirectionToLport, Match: match, Tier: tier, Priority: priority}
			if egress {
				acl.Direction, acl.Options = nb.ACLDirectionFromLport, map[string]string{"apply-after-lb": "true"}
			}
			rows = append(rows, aclRow(acl.Direction+"/"+id, acl, nb.PortGroupTable, net.NodesGroup()))
		}
		add("arp", nb.ACLActionAllow, "arp", tierPrimary, priorityFirst)
		for tier := tierPrimary; tier < tierBaseline; tier++ {
			add(fmt.Sprintf("pass%d", tier), nb.ACLActionPass, "1", tier, priorityLast)
		}
		add("rest", nb.ACLActionAllowRelated, "1", tierBaseline, priorityLast)
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
	return aclRow(id+"/"+familyOf(addr), &nb.ACL{
		Action: nb.ACLActionAllowRelated, Direction: nb.ACLDirectionToLport, Tier: tierPrimary, Priority: priorityFirst,
		Match: sourceField.of(contract.FamilyOf(addr)) + " == " + addr.String(),
	}, table, parent)
}

// families are the address families in the order of rows.
func families() []contract.Family { return []contract.Family{contract.IPv4, contract.IPv6} }

// familyOf is the family of an address as a match spells it.
func familyOf(addr netip.Addr) string { return matchFamily(contract.FamilyOf(addr)) }

func matchFamily(family contract.Family) string { return fmt.Sprintf("ip%d", family) }

// field is the source or the destination address of a packet.
type field string

const (
	sourceField      field = "src"
	destinationField field = "dst"
)

func (f field) of(family contract.Family) string { return matchFamily(family) + "." + string(f) }

// and joins matches; "" is the one of all packets. A match is put together here
// alone: users' text never comes into it, only addresses, numbers, and names that
// are hashes.
func and(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " && " + b
}

// peerMatches is one match for each family, "" for any peer.
func peerMatches(f field, addresses map[contract.Family][]string, anyPeer bool) []string {
	if anyPeer {
		return []string{""}
	}
	var all []string
	for _, family := range families() {
		if set := addresses[family]; len(set) > 0 {
			all = append(all, f.of(family)+" == {"+strings.Join(set, ", ")+"}")
		}
	}
	return all
}

// portMatches is one match for each protocol that has a port with a number, ""
// for any port.
func portMatches(ports []policy.Port, anyPort bool) []string {
	if anyPort {
		return []string{""}
	}
	var all []string
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		if text := protocolMatch(strings.ToLower(string(protocol)), protocol, ports); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// protocolMatch has parentheses where && and || meet, without which OVN refuses it.
func protocolMatch(name string, protocol corev1.Protocol, ports []policy.Port) string {
	var numbers, terms []string
	for _, p := range ports {
		switch {
		case p.Protocol != protocol || p.Named != nil:
		case p.First == 0:
			return name
		case p.First == p.Last:
			numbers = append(numbers, fmt.Sprint(p.First))
		default:
			terms = append(terms, fmt.Sprintf("%d <= %s.dst <= %d", p.First, name, p.Last))
		}
	}
	if len(numbers) > 0 {
		terms = append(terms, fmt.Sprintf("%s.dst == {%s}", name, strings.Join(numbers, ", ")))
	}
	if len(terms) > 1 {
		return "(" + strings.Join(terms, " || ") + ")"
	}
	return strings.Join(terms, "")
}
