package ovn

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// Set columns through which a parent row holds its children.
const (
	columnPorts          = "ports"
	columnStaticRoutes   = "static_routes"
	columnGatewayChassis = "gateway_chassis"
	columnLoadBalancer   = "load_balancer"
	columnPolicies       = "policies"
	columnNAT            = "nat"
	columnACLs           = "acls"
	columnBands          = "bands"
)

// columnLoadBalancerGroup is the reference column of switches and routers.
const columnLoadBalancerGroup = "load_balancer_group"

// The groups through which a load balancer reaches every node: its switches, its
// gateway routers, or both. A load balancer is attached to a group once, not to
// each switch.
const (
	ClusterGroup       = "clusterLBGroup"
	ClusterSwitchGroup = "clusterSwitchLBGroup"
	ClusterRouterGroup = "clusterRouterLBGroup"
)

func groups() []string { return []string{ClusterGroup, ClusterSwitchGroup, ClusterRouterGroup} }

// priorityHost is that of the cluster router's policies that lead a node's pods
// to the node itself: before every other way out of the cluster.
const priorityHost = 1004

// priorityMasquerade is that of the policies that drop what pods send to the
// masquerade subnets: before priorityHost.
const priorityMasquerade = 1005

// priorityRepeat is that of a gateway router's policies; it has no others.
const priorityRepeat = 1000

// JoinSwitch connects the cluster router with every gateway router.
const JoinSwitch = "join"

// ClusterRouter is the distributed router of all pods.
const ClusterRouter = "ovn_cluster_router"

// PhysicalNetwork is the network_name of the localnet ports; an agent maps it
// to the node's gateway bridge.
const PhysicalNetwork = "physnet"

// SecondPhysicalNetwork is that of a node's second external bridge.
const SecondPhysicalNetwork = "exgwphysnet"

// secondPrefix begins the names of what belongs to the second external bridge.
const secondPrefix = "exgw-"

// repeatPrefix begins the names of the cluster router's second port on the join switch.
const repeatPrefix = "repeat-"

// NodeSwitch is the switch of a node's pods; it bears the node's name.
func NodeSwitch(node string) string { return node }

// ExternalSwitch is the switch between a gateway router and the node's wire.
func ExternalSwitch(node string) string { return "ext_" + node }

// GatewayRouter is the router of a node's north-south traffic.
func GatewayRouter(node string) string { return "GR_" + node }

// NodesGroup is the port group of all management ports, so that its rules are on
// every node's switch.
const NodesGroup = "nodes"

// GatewaysGroup is the port group of all gateway routers' ports on the switches to
// external bridges.
const GatewaysGroup = "gateways"

// PolicyGroup is the port group of the pods that a policy selects.
func PolicyGroup(policy kube.Owner) string {
	sum := sha256.Sum256([]byte(policy.String()))
	return "p" + hex.EncodeToString(sum[:16])
}

// PodPort is the logical switch port of a pod and the iface-id of its device.
func PodPort(namespace, pod string) string { return namespace + "_" + pod }

// ManagementPort is the logical switch port of a node's own interface in its
// pod subnet, and the iface-id of that interface.
func ManagementPort(node string) string { return "k8s-" + node }

// Ports between routers and switches are named after the two roles, r(outer),
// s(witch), j(oin), e(xternal), and what stands on the far side.

func switchToRouter(node string) string  { return "stor-" + node }
func routerToSwitch(node string) string  { return "rtos-" + node }
func joinToRouter(router string) string  { return "jtor-" + router }
func routerToJoin(router string) string  { return "rtoj-" + router }
func externalToRouter(gr string) string  { return "etor-" + gr }
func routerToExternal(gr string) string  { return "rtoe-" + gr }
func gatewayChassis(p, ch string) string { return p + "-" + ch }
