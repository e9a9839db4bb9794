package contract

import (
	"net/netip"
	"slices"
	"strings"
)

// IntegrationBridge is the OVS bridge of all pods. ovn-controller fills it.
const IntegrationBridge = "br-int"

// PhysicalNetwork is the network_name of the ports to the gateway bridges. An agent maps it to its node's bridge.
const PhysicalNetwork = "physnet"

// SecondPhysicalNetwork is that of the second external bridge.
const SecondPhysicalNetwork = "exgwphysnet"

// PhysicalNetworkLabel and the name of a physical network are the key of a label of nodes that are connected to it. Its
// value is "true". All nodes are connected to PhysicalNetwork, without a label.
const PhysicalNetworkLabel = "physical-network.ovn-offload.io/"

// ClusterRouter is the distributed router of all pods.
func (n Network) ClusterRouter() string { return n.prefix() + "ovn_cluster_router" }

// JoinSwitch connects the cluster router with every gateway router.
func (n Network) JoinSwitch() string { return n.prefix() + "join" }

// NodeSwitch is the switch of a node's pods.
func (n Network) NodeSwitch(node string) string { return n.prefix() + node }

// PodSwitch is the switch of the pods of a node.
func (n Network) PodSwitch(node string) string {
	switch n.Topology {
	case Layer2:
		return n.prefix() + "ovn_layer2_switch"
	case Localnet:
		return n.prefix() + "ovn_localnet_switch"
	}
	return n.NodeSwitch(node)
}

// LocalnetPort is the port of a localnet's switch to the physical network.
func (n Network) LocalnetPort() string { return n.prefix() + "ovn_localnet_port" }

// ChainRouter is the router of a NetworkChaining.
func ChainRouter(namespace, name string) string { return "chain_" + namespace + "_" + name }

// ExternalSwitch is the switch between a gateway router and the node's uplink.
func (n Network) ExternalSwitch(node string) string { return "ext_" + n.prefix() + node }

// TransitSwitch connects a node's gateway router with the routers of primary networks.
func TransitSwitch(node string) string { return "transit_" + node }

// GatewayRouter is the router of a node's north-south traffic.
func (n Network) GatewayRouter(node string) string { return "GR_" + n.prefix() + node }

// ManagementPort is the logical switch port of a node's own interface in its pod subnet, and the iface-id of that
// interface.
func (n Network) ManagementPort(node string) string { return "k8s-" + n.prefix() + node }

// PodPort is the logical switch port of a pod, and the iface-id of its interface.
func (n Network) PodPort(namespace, pod string) string { return n.prefix() + namespace + "_" + pod }

// The groups through which a load balancer reaches every node: its switches, its gateway routers, or both. A load
// balancer is attached to a group once, not to each switch.

// ClusterGroup is the group of all switches and gateway routers.
func (n Network) ClusterGroup() string { return n.groupPrefix() + "clusterLBGroup" }

// SwitchGroup is the group of all switches.
func (n Network) SwitchGroup() string { return n.groupPrefix() + "clusterSwitchLBGroup" }

// RouterGroup is the group of all gateway routers.
func (n Network) RouterGroup() string { return n.groupPrefix() + "clusterRouterLBGroup" }

// groupPrefix has the exact name: a group of load balancers has no external_ids that could say it.
func (n Network) groupPrefix() string {
	if n.Name == "" {
		return ""
	}
	return n.Name + "/"
}

// NetworkOfGroup is the network of a group of load balancers; false for a name that is no group's.
func NetworkOfGroup(group string) (Network, bool) {
	name, rest, further := strings.Cut(group, "/")
	if !further {
		name, rest = "", group
	}
	n := Network{Name: name}
	return n, (name != "" || !further) && slices.Contains([]string{n.ClusterGroup(), n.SwitchGroup(), n.RouterGroup()}, n.groupPrefix()+rest)
}

// LoadBalancer is the name of a service's load balancer on the network.
func (n Network) LoadBalancer(service string) string { return n.prefix() + service }

// NodesGroup is the port group of all management ports, so that its ACLs are on every node's switch.
func (n Network) NodesGroup() string { return n.prefix() + "nodes" }

// LockedGroup is the port group of pods that have another network as primary one.
func (n Network) LockedGroup() string { return n.prefix() + "locked" }

// GatewaysGroup is the port group of all gateway routers' ports on the switches to external bridges.
func (n Network) GatewaysGroup() string { return n.prefix() + "gateways" }

// LocalnetsGroup is the port group of the ports of all localnets to their physical networks. The default network has it.
const LocalnetsGroup = "localnets"

// NodeVariable is the template variable of a node's address in a family, at which node ports answer.
func NodeVariable(family Family) string { return "NODEIP_" + family.String() + "_0" }

// AddressVariable is the template variable of an IPv6 address, with the same value on every node: in a template OVN reads the
// colons of an address as separators.
func AddressVariable(address netip.Addr) string {
	return "ADDRESS." + strings.ReplaceAll(address.StringExpanded(), ":", "_")
}
