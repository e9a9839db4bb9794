package chains

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network/chain"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// Priorities of the router's policies.
const (
	// priorityNear is that of what leads to an end with subnets; priorityFar, to one that is everything else.
	priorityNear = 300
	priorityFar  = 200
	// priorityOwn is that of the router's own packets.
	priorityOwn = 400
	// priorityRest is that of the policy that drops all others: the router does not connect networks by itself.
	priorityRest = 1
)

// fromPort are the policies of packets that arrive from a network: of stage i, those to the right go to function i, and
// those to the left go to function i-1.
func (b builder) fromPort(family contract.Family, stage int, place chain.Place) (rows []ovsdb.Row) {
	port, name := b.portOn(place), matchName(family)
	for _, router := range place.Network.Gateways {
		if family.Has(router.Addr()) { // answers to ping
			rows = append(rows, b.policy("own "+port+" "+router.String(), &nb.LogicalRouterPolicy{
				Priority: priorityOwn, Action: nb.LogicalRouterPolicyActionAllow,
				Match: fmt.Sprintf("inport == %q && %s.src == %s && %s.dst == %s", port, name, router.Addr(), name, router.Masked()),
			}))
		}
	}
	if stage < len(b.chain.Functions) {
		rows = append(rows, b.lead(hop{family, place, stage, stage, true})...)
	}
	if stage > 0 {
		rows = append(rows, b.lead(hop{family, place, stage, stage - 1, false})...)
	}
	return rows
}

// hop is the way from a network of a stage to a function, to the right or to the left.
type hop struct {
	family          contract.Family
	from            chain.Place
	stage, function int
	right           bool
}

// lead are the policies of a hop. With no replica, an open chain leads to the next function, or to the end.
func (b builder) lead(h hop) []ovsdb.Row {
	replicas := b.replicas(h.family, h.function)
	for ; b.chain.Open && len(replicas) == 0; replicas = b.replicas(h.family, h.function) {
		if h.right {
			h.function++
		} else {
			h.function--
		}
		if h.function < 0 || h.function == len(b.chain.Functions) {
			return []ovsdb.Row{b.toward(h, "end", b.ends(h), nil)}
		}
	}
	if len(replicas) == 0 {
		return nil // dropped
	}
	// The function is reached on the network before it; on one of several at an end, on that from which the packet comes.
	place := h.from
	if before := h.before(); before != h.stage {
		place = b.chain.Stages[before][0]
	}
	var rows []ovsdb.Row
	shares := divide(replicas)
	for _, pod := range replicas {
		if len(shares[pod]) == 0 {
			continue
		}
		address, _ := b.addressOn(pod, place, h.family) // replicas have one
		match := b.ends(h)
		if len(replicas) > 1 {
			match = b.slots(h, shares[pod])
		}
		rows = append(rows, b.toward(h, pod.Name, match, &address))
	}
	return rows
}

// before is the stage from which a packet enters the function.
func (h hop) before() int {
	if h.right {
		return h.function
	}
	return h.function + 1
}

// replicas are the ready pods of a function with addresses on all networks on both sides.
func (b builder) replicas(family contract.Family, function int) (pods []*corev1.Pod) {
	for _, pod := range b.facts.Replicas(b.chain, function) {
		has := true
		for _, stage := range b.chain.Stages[function : function+2] {
			for _, place := range stage {
				_, ok := b.addressOn(pod, place, family)
				has = has && ok
			}
		}
		if has {
			pods = append(pods, pod)
		}
	}
	return pods
}

// toward is the policy that leads packets of a hop to an address, or to where the routes lead.
func (b builder) toward(h hop, to, match string, address *netip.Addr) ovsdb.Row {
	direction := "left"
	if h.right {
		direction = "right"
	}
	policy := &nb.LogicalRouterPolicy{
		Priority: priorityNear, Match: fmt.Sprintf("inport == %q && %s", b.portOn(h.from), match), Action: nb.LogicalRouterPolicyActionAllow,
	}
	for _, subnet := range b.chain.Ends(h.right, h.family) {
		if subnet.Bits() == 0 {
			policy.Priority = priorityFar
		}
	}
	if address != nil {
		policy.Action, policy.Nexthops = nb.LogicalRouterPolicyActionReroute, []string{address.String()}
	}
	return b.policy(strings.Join([]string{matchName(h.family), b.portOn(h.from), direction, to}, " "), policy)
}

// ends matches the subnets to which a hop leads.
func (b builder) ends(h hop) string {
	var texts []string
	for _, subnet := range b.chain.Ends(h.right, h.family) {
		texts = append(texts, subnet.String())
	}
	return fmt.Sprintf("%s.dst == {%s}", matchName(h.family), strings.Join(texts, ", "))
}

func matchName(family contract.Family) string {
	if family == contract.IPv6 {
		return "ip6"
	}
	return "ip4"
}
