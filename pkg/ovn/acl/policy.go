package acl

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// View is the facts of policies; a method returns nil for what is not there.
type View interface {
	Allocations
	Policy(owner contract.Owner) *policy.Policy
	PoliciesOf(pod *corev1.Pod, network string) (policies []*policy.Policy, complete bool)
	Namespace(name string) *corev1.Namespace
	Peers
}

// Allocations are what pods have on networks.
type Allocations interface {
	// Allocated is the value of a pod on a network as the allocator decided and recorded
	// it: an annotation that says something else is not a fact.
	Allocated(pod *corev1.Pod, network string) *contract.PodNetwork
	// Attached are the values of a pod's attachments to a further network.
	Attached(pod *corev1.Pod, network string) []*contract.PodNetwork
}

// Peers is who is behind the peers of policies.
type Peers interface {
	PodSet(owner contract.Owner) *policy.PodSet
	Members(set *policy.PodSet) []*corev1.Pod
	// Sizes are the numbers of members for each number of a named port, or for 0, as
	// of the last look at them.
	Sizes(set *policy.PodSet) map[int32]int
	UsersOf(set contract.Owner) []contract.Owner
	NodesWith(selector labels.Selector) []*corev1.Node
}

// BuildPolicy gives a policy's port group with its rules. A policy has a rule
// for all that it forbids and rules of a higher priority for what it allows, so
// that it comes and goes as one, and what any policy of a pod allows is allowed.
// The pods' own rows join the group: a port that a policy selects does not exist
// without it, not for a moment.
func BuildPolicy(view View, net contract.Network, owner contract.Owner) ([]ovsdb.Row, error) {
	policy := view.Policy(owner)
	if policy == nil {
		return nil, nil
	}
	b := policyBuilder{view: view, net: net, policy: policy, group: PolicyGroup(owner), beyond: BeyondLimit(view, policy)}
	if policy.Err != nil {
		b.errs = append(b.errs, policy.Err)
	}
	var err error
	if b.logging, err = contract.ParseACLLogging(loggingOf(view, policy)); err != nil {
		b.errs = append(b.errs, fmt.Errorf("annotation %s: %w", contract.ACLLoggingKey, err))
	}
	b.rows = []ovsdb.Row{{ID: b.group, Model: &nb.PortGroup{Name: b.group, ExternalIDs: b.externalIDs()}}}
	if owner.Network != "" {
		b.further()
	}
	b.direction("Ingress", policy.Ingress)
	b.direction("Egress", policy.Egress)
	if len(b.errs) > 0 {
		return b.rows, fmt.Errorf("%w: %w", reconcile.ErrInvalid, errors.Join(b.errs...))
	}
	return b.rows, nil
}

// loggingOf is on the object of a policy for the cluster, else on the namespace.
func loggingOf(view View, policy *policy.Policy) string {
	if policy.Owner.Namespace == "" {
		return policy.Logging
	}
	if ns := view.Namespace(policy.Owner.Namespace); ns != nil {
		return ns.Annotations[contract.ACLLoggingKey]
	}
	return ""
}

// policyBuilder collects the rows of one policy.
type policyBuilder struct {
	view    View
	net     contract.Network
	policy  *policy.Policy
	group   string
	logging contract.ACLLogging
	// beyond are the sets that rules may not refer to; networks counts those of the
	// rules so far.
	beyond   []contract.Owner
	networks int
	// uses are the address sets of the rule that is being built.
	uses []ovsdb.Name
	rows []ovsdb.Row
	errs []error
}

func (b *policyBuilder) direction(name string, d *policy.Direction) {
	if d == nil {
		return
	}
	b.uses = nil
	if b.policy.Tier == policy.TierNetworkPolicy {
		b.rule(aclRule{direction: name, action: nb.ACLActionDrop, priority: PriorityDeny}, "")
	}
	for i, rule := range d.Rules {
		b.uses = nil // of each rule its own
		r := aclRule{direction: name, index: strconv.Itoa(i), action: b.action(rule.Action), priority: b.priority(rule)}
		if err := b.refuses(rule); err != nil {
			b.errs = append(b.errs, fmt.Errorf("spec.%s[%d]: %w", strings.ToLower(name), i, err))
			continue
		}
		if err := b.withoutAddresses(rule); err != nil {
			b.errs = append(b.errs, fmt.Errorf("spec.%s[%d]: %w", strings.ToLower(name), i, err))
		}
		for part, match := range b.matches(name, rule) {
			if part > 0 {
				r.part = "." + strconv.Itoa(part)
			}
			b.rule(r, match)
		}
	}
}

// refuses says why a rule is beyond a limit of a NetworkPolicy.
func (b *policyBuilder) refuses(rule policy.Rule) error {
	for _, set := range setsOf(rule) {
		if slices.Contains(b.beyond, set.Owner()) {
			return fmt.Errorf("%w: a policy may have %d pods in its rules: the rule allows nothing", policy.ErrOverLimit, policy.MaxMembers)
		}
	}
	networks, err := rule.Networks.Prefixes()
	if err != nil {
		b.errs = append(b.errs, err)
	}
	if b.networks += len(networks); b.networks > policy.MaxNetworks && b.policy.Tier == policy.TierNetworkPolicy {
		b.networks -= len(networks)
		return fmt.Errorf("%w: over %d networks are left up to this rule: the rule allows nothing", policy.ErrOverLimit, policy.MaxNetworks)
	}
	return nil
}

// setsOf are the sets of pods that a rule refers to.
func setsOf(rule policy.Rule) (sets []*policy.PodSet) {
	if rule.Peers != nil {
		sets = append(sets, rule.Peers)
	}
	for _, port := range rule.Ports {
		sets = append(sets, port.Named...)
	}
	return sets
}

// matches are those of a rule, in parts of one family and protocol each, and for
// named ports of one number: only where every alternative is of one Field does
// OVN add flows for each value of each Field, and not for each combination.
func (b *policyBuilder) matches(direction string, rule policy.Rule) []string {
	peer, pods := Source, Destination
	if direction == "Egress" {
		peer = Destination
	}
	var all []string
	addresses := b.addresses(rule)
	for _, from := range peerMatches(peer, addresses, rule.AnyPeer) {
		for _, port := range portMatches(rule.Ports, rule.AnyPort) {
			all = append(all, and(from, port))
		}
	}
	for _, port := range rule.Ports {
		for _, set := range port.Named {
			for _, family := range b.net.Families() {
				named := b.namedMatches(pods, set, family)
				if direction == "Egress" || rule.AnyPeer { // the set is of the peers already
					all = append(all, named...)
					continue
				}
				for _, from := range peerMatches(peer, map[contract.Family][]string{family: addresses[family]}, false) {
					for _, match := range named {
						all = append(all, and(from, match))
					}
				}
			}
		}
	}
	return all
}

// addresses are the peers of a rule by family, as a match's set has them.
func (b *policyBuilder) addresses(rule policy.Rule) map[contract.Family][]string {
	all := map[contract.Family][]string{}
	if rule.EveryPod {
		all = everyPod(b.net)
	}
	if rule.Peers != nil {
		parts := layouts(b.view.Sizes(rule.Peers)[0])[0]
		for _, family := range b.net.Families() {
			key := addressKey{hash: rule.Peers.Owner().Name, parts: parts, family: family}
			all[family] = append(all[family], b.references(key)...)
		}
	}
	for _, selector := range rule.Nodes {
		var addrs []netip.Addr
		for _, node := range b.view.NodesWith(selector) {
			addrs = append(addrs, nodeAddresses(node)...)
		}
		slices.SortFunc(addrs, netip.Addr.Compare) // the nodes come in no order
		for _, addr := range slices.Compact(addrs) {
			all[contract.FamilyOf(addr)] = append(all[contract.FamilyOf(addr)], addr.String())
		}
	}
	networks, _ := rule.Networks.Prefixes()
	for _, network := range networks {
		family := contract.FamilyOf(network.Addr())
		all[family] = append(all[family], network.String())
	}
	return all
}

// namedMatches are where traffic to a named port may go: to the pods with each number.
func (b *policyBuilder) namedMatches(f Field, set *policy.PodSet, family contract.Family) []string {
	sizes := b.view.Sizes(set)
	var all []string
	for _, number := range slices.Sorted(maps.Keys(sizes)) {
		key := addressKey{set.Owner().Name, number, layouts(sizes[number])[0], family}
		port := policy.Port{Protocol: set.Port.Protocol, First: uint16(number), Last: uint16(number)}
		pods := peerMatches(f, map[contract.Family][]string{family: b.references(key)}, false)
		all = append(all, and(pods[0], portMatches([]policy.Port{port}, false)[0]))
	}
	return all
}

// aclRule is what tells the rules of a policy apart.
type aclRule struct {
	direction, index, part string // index "" is the rule for all that is forbidden
	action                 nb.ACLAction
	priority               int
}

func (b *policyBuilder) rule(r aclRule, match string) {
	acl := b.acl(r, match)
	if r.index != "" {
		acl.ExternalIDs["gress-index"] = r.index
	}
	name := b.name() + ":" + r.direction
	if r.index != "" {
		name += ":" + r.index
	}
	logRule(acl, name, b.logging)
	id := r.direction
	if r.index != "" {
		id += ":" + r.index + r.part
	}
	row := Row(id, acl, nb.PortGroupTable, b.group)
	row.Uses = b.uses
	b.rows = append(b.rows, row)
}

// acl has what the rules of a direction have in common.
func (b *policyBuilder) acl(r aclRule, match string) *nb.ACL {
	acl := &nb.ACL{
		Action: r.action, Direction: nb.ACLDirectionToLport, Priority: r.priority, Tier: b.tier(),
		Match: and("outport == @"+b.group, match), ExternalIDs: b.externalIDs(),
	}
	if r.direction == "Egress" {
		// After load balancing: policies are about the pods behind a service.
		acl.Direction, acl.Options = nb.ACLDirectionFromLport, map[string]string{"apply-after-lb": "true"}
		acl.Match = and("inport == @"+b.group, match)
	}
	acl.ExternalIDs["direction"] = r.direction
	return acl
}

// references are the address sets of a key as a match has them.
func (b *policyBuilder) references(key addressKey) []string {
	var all []string
	for part := range key.parts {
		name := key.name(part)
		b.uses = append(b.uses, ovsdb.Name{Table: nb.AddressSetTable, Name: name})
		all = append(all, "$"+name)
	}
	return all
}

// externalIDs are those by which OVN-Kubernetes' tools find a policy's rows.
func (b *policyBuilder) externalIDs() map[string]string {
	owner := b.policy.Owner
	return map[string]string{
		"k8s.ovn.org/owner-controller": owner.NetworkKey() + "-network-controller",
		"k8s.ovn.org/owner-type":       owner.Kind,
		"k8s.ovn.org/name":             strings.TrimPrefix(owner.Namespace+":"+owner.Name, ":"),
	}
}

// name begins the names of the policy's rules.
func (b *policyBuilder) name() string {
	owner := b.policy.Owner
	switch owner.Kind {
	case contract.KindAdminNetworkPolicy:
		return "ANP:" + owner.Name
	case contract.KindBaselineAdminNetworkPolicy:
		return "BANP:" + owner.Name
	case contract.KindClusterNetworkPolicy:
		return "CNP:" + owner.Name
	case contract.KindMultiNetworkPolicy:
		return "MNP:" + owner.Namespace + ":" + owner.Name
	}
	return "NP:" + owner.Namespace + ":" + owner.Name
}

// action is OVN's. In the last tier there is nowhere to pass to: what it passes
// is allowed.
func (b *policyBuilder) action(action policy.Action) nb.ACLAction {
	switch {
	case action == policy.Deny:
		return nb.ACLActionDrop
	case action == policy.Pass && b.policy.Tier != policy.TierBaseline:
		return nb.ACLActionPass
	}
	return nb.ACLActionAllowRelated
}

// priority gives each policy of a tier a range of its own, by its priority.
func (b *policyBuilder) priority(rule policy.Rule) int {
	if b.policy.Tier == policy.TierNetworkPolicy {
		return priorityAllow
	}
	return priorityAdmin - stepsOfPolicy*b.policy.Priority - rule.Step
}

// tier is the first one on a further network, which has no others.
func (b *policyBuilder) tier() int {
	switch {
	case b.policy.Owner.Network != "":
		return TierPrimary
	case b.policy.Tier == policy.TierAdmin:
		return tierAdmin
	case b.policy.Tier == policy.TierBaseline:
		return TierBaseline
	}
	return tierPolicy
}

// nodeAddresses are those of a node's status: what others reach it by.
func nodeAddresses(node *corev1.Node) []netip.Addr {
	var addrs []netip.Addr
	for _, address := range node.Status.Addresses {
		if addr, err := netip.ParseAddr(address.Address); err == nil && addr.Zone() == "" {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
