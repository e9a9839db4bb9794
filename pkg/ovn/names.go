package ovn

import (
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Set columns through which a parent row holds its children.
const (
	columnPorts          = "ports"
	columnStaticRoutes   = "static_routes"
	columnGatewayChassis = "gateway_chassis"
	columnPolicies       = "policies"
	columnNAT            = "nat"
	columnACLs           = "acls"
	columnBands          = "bands"
	columnLoadBalancer   = "load_balancer"
)

// columnLoadBalancerGroup is the reference column of switches and routers.
const columnLoadBalancerGroup = "load_balancer_group"

// Priorities of the routers' policies.
const (
	// priorityMasquerade is that of the policies that drop what pods send to the masquerade subnets: before priorityHost.
	priorityMasquerade = 1005
	// priorityHost is that of the cluster router's policies that lead a node's pods to the node itself: before every
	// other way out of the cluster.
	priorityHost = 1004
	// priorityLeave is that of the policies that lead from primary networks to the links of nodes, and from the subnets of
	// namespaces to the gateway routers.
	priorityLeave = 500
	// priorityRetransmit is that of a gateway router's policies; it has no others.
	priorityRetransmit = 1000
)

// secondPrefix begins the names of what belongs to the second external bridge.
const secondPrefix = "exgw-"

// repeatPrefix begins the names of the cluster router's second port on the join switch.
const repeatPrefix = "repeat-"

// scope is what the rows of a network have in common: the network, and the zone that it is in.
type scope struct {
	contract.Network
	contract.Zone
}

// newScope adds the subnets of namespaces to those of the default network.
func newScope(network contract.Network, zone contract.Zone) scope {
	if network.Name == "" {
		network.Subnets = slices.Clone(network.Subnets)
		for _, prefix := range contract.PrefixesOf(zone.NamespaceSubnets) {
			network.Subnets = append(network.Subnets, contract.Subnet{Prefix: prefix, NodeBits: prefix.Bits()})
		}
	}
	return scope{network, zone}
}

func (s scope) groups() []string { return []string{s.ClusterGroup(), s.SwitchGroup(), s.RouterGroup()} }

// Ports between routers and switches are named after the two roles, r(outer), s(witch), j(oin), e(xternal), and the
// switch or router on the far side.

func switchToRouter(sw string) string    { return "stor-" + sw }
func routerToSwitch(sw string) string    { return "rtos-" + sw }
func joinToRouter(router string) string  { return "jtor-" + router }
func routerToJoin(router string) string  { return "rtoj-" + router }
func externalToRouter(gr string) string  { return "etor-" + gr }
func routerToExternal(gr string) string  { return "rtoe-" + gr }
func gatewayChassis(p, ch string) string { return p + "-" + ch }
