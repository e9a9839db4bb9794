package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// node is what the annotations of a Node object say, parsed.
type node struct {
	name    string
	subnets []netip.Prefix
	// id is 0 and chassis "" until they are known.
	id      uint32
	chassis string
	gateway *kube.GatewayConfig
	// mtu is that of pods, 0 where the gateway router does not look at it.
	mtu int
	// hosts are all addresses of the node itself.
	hosts []netip.Prefix
	// encaps are the ends of its tunnels.
	encaps []netip.Addr
}

// buildNode gives a node's switch with its router port and management port, and
// the gateway as soon as the agent has published it.
func buildNode(view View, cfg Config, name string) ([]ovsdb.Row, error) {
	object := view.Node(name)
	if object == nil {
		return nil, nil
	}
	if NodeSwitch(name) == JoinSwitch {
		return nil, fmt.Errorf("a node cannot be called %s: that is the name of the join switch", name)
	}
	n, err := parseNode(name, object.Annotations)
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
	gateway, err := nodeGateway(cfg, n)
	return append(rows, gateway...), err
}

func parseNode(name string, annotations map[string]string) (node, error) {
	n := node{name: name, chassis: annotations[kube.NodeChassisIDKey]}
	var err error
	if n.subnets, err = kube.ParseNodeSubnets(annotations[kube.NodeSubnetsKey], kube.DefaultNetwork); err != nil {
		return n, fmt.Errorf("annotation %s of node %s: %w", kube.NodeSubnetsKey, name, err)
	}
	if value, ok := annotations[kube.NodeIDKey]; ok {
		id, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return n, fmt.Errorf("annotation %s of node %s: %w", kube.NodeIDKey, name, err)
		}
		n.id = uint32(id)
	}
	if value := annotations[kube.NodeMTUKey]; value != "" && annotations[kube.GatewayMTUSupportKey] != "false" {
		mtu, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return n, fmt.Errorf("annotation %s of node %s: %w", kube.NodeMTUKey, name, err)
		}
		n.mtu = int(mtu)
	}
	if n.gateway, err = kube.ParseGatewayConfig(annotations[kube.GatewayConfigKey], kube.DefaultNetwork); err != nil {
		return n, fmt.Errorf("annotation %s of node %s: %w", kube.GatewayConfigKey, name, err)
	}
	if n.hosts, err = kube.ParseHostCIDRs(annotations[kube.HostCIDRsKey]); err != nil {
		return n, fmt.Errorf("annotation %s of node %s: %w", kube.HostCIDRsKey, name, err)
	}
	if n.encaps, err = kube.ParseEncapIPs(annotations[kube.NodeEncapIPsKey]); err != nil {
		return n, fmt.Errorf("annotation %s of node %s: %w", kube.NodeEncapIPsKey, name, err)
	}
	return n, nil
}

func nodeSwitch(n node) []ovsdb.Row {
	var routers, hosts []netip.Prefix
	config := map[string]string{}
	for _, subnet := range n.subnets {
		routers = append(routers, hostPrefix(subnet, routerOffset))
		hosts = append(hosts, hostPrefix(subnet, managementOffset))
		if subnet.Addr().Is4() {
			config["subnet"] = subnet.String()
			config["exclude_ips"] = hosts[len(hosts)-1].Addr().String()
		} else {
			config["ipv6_prefix"] = subnet.Addr().String()
		}
	}
	sw, port := NodeSwitch(n.name), routerToSwitch(n.name)
	management := switchPort(sw, &nb.LogicalSwitchPort{
		Name:      ManagementPort(n.name),
		Addresses: []string{portAddress(kube.MACFromAddress(hosts[0].Addr()), hosts)},
	})
	management.Parents = append(management.Parents, ovsdb.Parent{Table: nb.PortGroupTable, Name: NodesGroup, Column: columnPorts})
	rows := []ovsdb.Row{
		{ID: sw, Model: &nb.LogicalSwitch{Name: sw, OtherConfig: config}, References: balancedBy(ClusterGroup, ClusterSwitchGroup)},
		routerPort(ClusterRouter, &nb.LogicalRouterPort{
			Name:     port,
			MAC:      kube.MACFromAddress(routers[0].Addr()).String(),
			Networks: prefixStrings(routers),
		}),
		switchPort(sw, routerPeer(switchToRouter(n.name), port)),
		management,
	}
	rows = append(rows, nodeRules(n)...)
	if n.chassis != "" {
		// A port bound to its chassis keeps ovn-controller on the other nodes
		// from computing this switch's flows: what a node computes does not
		// grow with the pods of the others.
		rows = append(rows, ovsdb.Row{
			ID:      port,
			Model:   &nb.GatewayChassis{Name: gatewayChassis(port, n.chassis), ChassisName: n.chassis, Priority: 1},
			Parents: []ovsdb.Parent{{Table: nb.LogicalRouterPortTable, Name: port, Column: columnGatewayChassis}},
		})
	}
	return rows
}

// ownAddresses are those of the machine behind the management port. On a host with a
// DPU that is the host, if the host has the port, and else the DPU.
func ownAddresses(object *corev1.Node, n node) ([]netip.Addr, error) {
	if kube.IsDPUHost(object) {
		function, err := kube.ParseManagementFunction(object.Annotations[kube.ManagementPortKey], kube.DefaultNetwork)
		if err != nil {
			return nil, fmt.Errorf("annotation %s of node %s: %w", kube.ManagementPortKey, n.name, err)
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
		rows = append(rows, hostPolicy(n.name, subnet, slices.Compact(own)))
	}
	return rows
}

func hostPolicy(name string, subnet netip.Prefix, own []string) ovsdb.Row {
	family := familyOf(subnet.Addr())
	match := fmt.Sprintf("inport == %q && %s.dst == {%s}", routerToSwitch(name), family, strings.Join(own, ", "))
	return routerPolicy(ClusterRouter, "host "+family, &nb.LogicalRouterPolicy{
		Priority: priorityHost, Match: match, Action: nb.LogicalRouterPolicyActionReroute,
		Nexthops: []string{hostPrefix(subnet, managementOffset).Addr().String()},
	})
}
