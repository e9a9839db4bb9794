package ovn

import (
	"fmt"
	"net/netip"
	"strconv"

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
	rows := nodeSwitch(n)
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
	if n.gateway, err = kube.ParseGatewayConfig(annotations[kube.GatewayConfigKey], kube.DefaultNetwork); err != nil {
		return n, fmt.Errorf("annotation %s of node %s: %w", kube.GatewayConfigKey, name, err)
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
	rows := []ovsdb.Row{
		{ID: sw, Model: &nb.LogicalSwitch{Name: sw, OtherConfig: config}, References: balancedBy(ClusterGroup, ClusterSwitchGroup)},
		routerPort(ClusterRouter, &nb.LogicalRouterPort{
			Name:     port,
			MAC:      kube.MACFromAddress(routers[0].Addr()).String(),
			Networks: prefixStrings(routers),
		}),
		switchPort(sw, routerPeer(switchToRouter(n.name), port)),
		switchPort(sw, &nb.LogicalSwitchPort{
			Name:      ManagementPort(n.name),
			Addresses: []string{portAddress(kube.MACFromAddress(hosts[0].Addr()), hosts)},
		}),
	}
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
