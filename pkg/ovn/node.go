package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// node is what the annotations of a Node object say, parsed.
type node struct {
	net     scope
	name    string
	subnets []netip.Prefix
	// id is 0 and chassis "" until they are known.
	id      uint32
	chassis string
	gateway *contract.GatewayConfig
	// mtu is that of pods, 0 where the gateway router does not look at it.
	mtu int
	// hosts are all addresses of the node itself.
	hosts []netip.Prefix
	// encaps are the ends of its tunnels.
	encaps []netip.Addr
}

// buildNode gives a node's switch with its router port and management port, and
// the gateway as soon as the agent has published it.
func buildNode(view View, net scope, owner contract.Owner) ([]ovsdb.Row, error) {
	name := owner.Name
	object := view.Node(name)
	if object == nil {
		return nil, nil
	}
	if net.Name != "" {
		return furtherNode(view, net, object)
	}
	if net.NodeSwitch(name) == net.JoinSwitch() {
		return nil, fmt.Errorf("a node cannot be called %s: that is the name of the join switch", name)
	}
	n, err := parseNode(net, name, object.Annotations)
	if err != nil {
		return nil, err
	}
	if len(n.subnets) == 0 {
		return nil, notReady("node %s has no subnet", name)
	}
	own, err := ownAddresses(object, n)
	if err != nil {
		return nil, err
	}
	rows := append(append(nodeSwitch(n), hostPolicies(n, own)...), tunnelRules(n)...)
	gateway, err := nodeGateway(n, view.NetworksWithGateway())
	if err != nil {
		return append(rows, gateway...), err
	}
	shared, err := sharedPorts(view, n)
	return slices.Concat(rows, gateway, shared), err
}

func parseNode(net scope, name string, annotations map[string]string) (node, error) {
	n := node{net: net, name: name, chassis: annotations[contract.NodeChassisIDKey]}
	var err error
	if n.subnets, err = contract.ParseNodeSubnets(annotations[contract.NodeSubnetsKey], contract.DefaultNetwork); err != nil {
		return n, fmt.Errorf("annotation %s of node %s: %w", contract.NodeSubnetsKey, name, err)
	}
	if value, ok := annotations[contract.NodeIDKey]; ok {
		id, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return n, fmt.Errorf("annotation %s of node %s: %w", contract.NodeIDKey, name, err)
		}
		n.id = uint32(id)
	}
	if value := annotations[contract.NodeMTUKey]; value != "" && annotations[contract.GatewayMTUSupportKey] != "false" {
		mtu, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return n, fmt.Errorf("annotation %s of node %s: %w", contract.NodeMTUKey, name, err)
		}
		n.mtu = int(mtu)
	}
	if n.gateway, err = contract.ParseGatewayConfig(annotations[contract.GatewayConfigKey], contract.DefaultNetwork); err != nil {
		return n, fmt.Errorf("annotation %s of node %s: %w", contract.GatewayConfigKey, name, err)
	}
	if n.hosts, err = contract.ParseHostCIDRs(annotations[contract.HostCIDRsKey]); err != nil {
		return n, fmt.Errorf("annotation %s of node %s: %w", contract.HostCIDRsKey, name, err)
	}
	if n.encaps, err = contract.ParseEncapIPs(annotations[contract.NodeEncapIPsKey]); err != nil {
		return n, fmt.Errorf("annotation %s of node %s: %w", contract.NodeEncapIPsKey, name, err)
	}
	return n, nil
}

func nodeSwitch(n node) []ovsdb.Row {
	net := n.net
	var routers, hosts []netip.Prefix
	config := map[string]string{}
	for _, subnet := range n.subnets {
		routers = append(routers, contract.PrefixAt(subnet, contract.RouterOffset))
		hosts = append(hosts, contract.PrefixAt(subnet, contract.ManagementOffset))
		if subnet.Addr().Is4() {
			config["subnet"] = subnet.String()
			config["exclude_ips"] = hosts[len(hosts)-1].Addr().String()
		} else {
			config["ipv6_prefix"] = subnet.Addr().String()
		}
	}
	sw := net.NodeSwitch(n.name)
	port := routerToSwitch(sw)
	management := switchPort(sw, &nb.LogicalSwitchPort{
		Name:      net.ManagementPort(n.name),
		Addresses: []string{portAddress(contract.MACFromAddress(hosts[0].Addr()), hosts)},
	})
	management.Parents = append(management.Parents, ovsdb.Parent{Table: nb.PortGroupTable, Name: net.NodesGroup(), Column: columnPorts})
	rows := []ovsdb.Row{
		{ID: sw, Model: &nb.LogicalSwitch{Name: sw, OtherConfig: config}, References: balancedBy(net.ClusterGroup(), net.SwitchGroup())},
		routerPort(net.ClusterRouter(), &nb.LogicalRouterPort{
			Name:     port,
			MAC:      contract.MACFromAddress(routers[0].Addr()).String(),
			Networks: prefixStrings(routers),
		}),
		switchPort(sw, routerPeer(switchToRouter(sw), port)),
		management,
	}
	rows = append(rows, nodeRules(n)...)
	return append(rows, boundToChassis(port, n.chassis)...)
}

// furtherNode gives a node's part of a further network, if nodes have parts of it.
func furtherNode(view View, net scope, object *corev1.Node) ([]ovsdb.Row, error) {
	var link []ovsdb.Row
	if net.HasGateway() {
		var err error
		if link, err = linkedNode(view, net, object); err != nil {
			return nil, err
		}
	}
	if net.Topology != contract.Layer3 {
		return link, nil
	}
	subnets := view.NodeSubnets(object, net.Name)
	if len(subnets) == 0 {
		return nil, notReady("node %s has no subnet on network %s", object.Name, net.Name)
	}
	return append(nodePart(net, object.Name, object.Annotations[contract.NodeChassisIDKey], subnets), link...), nil
}

// ownAddresses are those of the machine behind the management port. On a host with a
// DPU that is the host, if the host has the port, and else the DPU.
func ownAddresses(object *corev1.Node, n node) ([]netip.Addr, error) {
	if contract.IsDPUHost(object) {
		function, err := contract.ParseManagementFunction(object.Annotations[contract.ManagementPortKey], contract.DefaultNetwork)
		if err != nil {
			return nil, fmt.Errorf("annotation %s of node %s: %w", contract.ManagementPortKey, n.name, err)
		}
		if function != nil {
			return internalAddresses(object), nil
		}
	}
	var own []netip.Addr
	for _, host := range n.hosts {
		own = append(own, host.Addr())
	}
	return own, nil
}

// internalAddresses leaves out what the machine may not have itself, as an address of
// a cloud's edge.
func internalAddresses(object *corev1.Node) []netip.Addr {
	var own []netip.Addr
	for _, address := range object.Status.Addresses {
		addr, err := netip.ParseAddr(address.Address)
		if err == nil && address.Type == corev1.NodeInternalIP {
			own = append(own, addr.Unmap())
		}
	}
	return own
}

// hostPolicies send what a node's pods have for the node itself to its
// management port: the gateway router has the node's address too and would keep
// it. One row for each family of the node's subnets.
func hostPolicies(n node, addrs []netip.Addr) []ovsdb.Row {
	var rows []ovsdb.Row
	for _, subnet := range n.subnets {
		var own []string
		for _, addr := range addrs {
			if addr.Is4() == subnet.Addr().Is4() {
				own = append(own, addr.String())
			}
		}
		if len(own) == 0 {
			continue
		}
		slices.Sort(own)
		rows = append(rows, hostPolicy(n, subnet, slices.Compact(own)))
	}
	return rows
}

func hostPolicy(n node, subnet netip.Prefix, own []string) ovsdb.Row {
	family := acl.FamilyOf(subnet.Addr())
	match := fmt.Sprintf("inport == %q && %s.dst == {%s}", routerToSwitch(n.net.NodeSwitch(n.name)), family, strings.Join(own, ", "))
	return routerPolicy(n.net.ClusterRouter(), "host "+family, &nb.LogicalRouterPolicy{
		Priority: priorityHost, Match: match, Action: nb.LogicalRouterPolicyActionReroute,
		Nexthops: []string{contract.PrefixAt(subnet, contract.ManagementOffset).Addr().String()},
	})
}
