package trace

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// north is what the Northbound database says about the entry of a packet.
type north struct {
	// gateway and cluster are the ports of the node's gateway router and of the cluster router on the join switch.
	gateway, cluster routerPort
	// nextHops are the gateway router's for masquerade addresses.
	nextHops []netip.Addr
	// variables are the node's values for those in load balancers.
	variables map[string]string
	balancers []balancer
}

type routerPort struct {
	mac       contract.MAC
	addresses []netip.Prefix
}

// balancer is a row of Load_Balancer.
type balancer struct {
	name, owner, protocol string
	// template: it has variables, which ovn-trace has no values for.
	template, keepSource bool
	vips                 map[string]string
}

const (
	joinPort      = "jtor-" // of the join switch, to a gateway router
	routerToJoin  = "rtoj-"
	routerOutside = "rtoe-"
)

// enter reads what is needed of the Northbound database, and does what ovn-trace cannot: it changes the packet as the load
// balancers with template variables do. An empty verdict: the path goes on.
func (c *Connection) enter(ctx context.Context, run Run, of *Computed) error {
	answer, err := run(ctx, "nb", c.northCommand())
	if err != nil {
		return err
	}
	n, err := readNorth(answer)
	if err != nil {
		return err
	}
	if c.ByGateway {
		step, err := c.byGateway(n)
		if err != nil {
			return err
		}
		of.Steps = append(of.Steps, step)
		if c.isForNode(n) {
			of.Steps = append(of.Steps, Step{Where: "node/" + c.Node, What: "no service has the port: the node itself gets the packet"})
			of.Verdict = Delivered
			return nil
		}
	}
	return c.balance(n, of)
}

// northCommand asks for the routers' ports, the node's variables, and the load balancers at the target.
func (c *Connection) northCommand() []string {
	router := contract.Network{}.GatewayRouter(c.Node)
	command := contract.AtMember("ovn-nbctl", "--format=json")
	for _, port := range []string{routerToJoin + router, routerToJoin + contract.Network{}.ClusterRouter()} {
		command = append(command, "--", "--columns=name,mac,networks", "find", "Logical_Router_Port", "name="+port)
	}
	command = append(command, "--", "--columns=ip", "find", "Static_MAC_Binding", "logical_port="+routerOutside+router,
		"--", "--columns=variables", "find", "Chassis_Template_Var", fmt.Sprintf("chassis=%q", c.Chassis))
	for _, key := range c.frontends() {
		command = append(command, "--", "--columns=name,external_ids,protocol,vips,options", "find", "Load_Balancer", fmt.Sprintf("vips:%q!=none", key))
	}
	return command
}

// frontends are the keys that load balancers may have for the target, and for the node port that was asked for.
func (c *Connection) frontends() (keys []string) {
	for _, at := range []netip.AddrPort{c.Target, c.NodePort} {
		if !at.IsValid() || at.Port() == 0 {
			continue
		}
		keys = append(keys, at.String())
		if c.isOwn(at.Addr()) {
			keys = append(keys, fmt.Sprintf("^%s:%d", contract.NodeVariable(contract.FamilyOf(at.Addr())), at.Port()))
		}
		if at.Addr().Is6() {
			keys = append(keys, fmt.Sprintf("^%s:%d", contract.AddressVariable(at.Addr()), at.Port()))
		}
	}
	return keys
}

func readNorth(answer []byte) (n north, err error) {
	rows, err := ParseRows(answer)
	if err != nil {
		return n, err
	}
	for _, row := range rows {
		switch {
		case row["vips"] != nil:
			n.balancers = append(n.balancers, readBalancer(row))
		case row["variables"] != nil:
			n.variables = MapOf(row["variables"])
		case row["mac"] != nil:
			port, err := readPort(row)
			if err != nil {
				return n, err
			}
			if row["name"] == routerToJoin+(contract.Network{}).ClusterRouter() {
				n.cluster = port
			} else {
				n.gateway = port
			}
		default:
			if hop, err := netip.ParseAddr(fmt.Sprint(row["ip"])); err == nil {
				n.nextHops = append(n.nextHops, hop)
			}
		}
	}
	return n, nil
}

func readPort(row map[string]any) (p routerPort, err error) {
	if err := p.mac.UnmarshalText(fmt.Append(nil, row["mac"])); err != nil {
		return p, fmt.Errorf("router port %v: %w", row["name"], err)
	}
	for _, text := range textsOf(row["networks"]) {
		if address, err := netip.ParsePrefix(text); err == nil {
			p.addresses = append(p.addresses, address)
		}
	}
	return p, nil
}

// textsOf reads a text, or ["set", [...]] of texts.
func textsOf(value any) []string {
	if text, ok := value.(string); ok {
		return []string{text}
	}
	var all []string
	if pair, ok := value.([]any); ok && len(pair) == 2 {
		elements, _ := pair[1].([]any)
		for _, element := range elements {
			if text, ok := element.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

func readBalancer(row map[string]any) balancer {
	options := MapOf(row["options"])
	b := balancer{owner: MapOf(row["external_ids"])[OwnerKey], template: options["template"] == "true", keepSource: options["skip_snat"] == "true", vips: MapOf(row["vips"])}
	b.name, _ = row["name"].(string)
	b.protocol, _ = row["protocol"].(string)
	return b
}

// byGateway chooses the source of a process of the node, which the gateway bridge knows, and says how the packet comes.
func (c *Connection) byGateway(n north) (Step, error) {
	bridge := strings.TrimSuffix(c.Gateway.Interface, "_"+c.Node)
	if c.Masquerade == 0 {
		return Step{Where: "node/" + c.Node, What: fmt.Sprintf("gateway bridge %s: from the uplink, of %s", bridge, c.Source)}, nil
	}
	hop, ok := like(n.nextHops, c.Target.Addr())
	if !ok {
		return Step{}, fmt.Errorf("gateway router of node/%s has no route to masquerade addresses of this family", c.Node)
	}
	if at, found, _ := c.find(n, c.NodePort); found && at == "" { // policy Local, and no endpoint here
		c.Masquerade = contract.MasqueradeClient
		c.Target = netip.AddrPortFrom(masquerade(hop, contract.MasqueradeElsewhere), c.NodePort.Port())
	}
	c.Source, c.MAC = masquerade(hop, c.Masquerade), contract.MACFromAddress(hop)
	return Step{Where: "node/" + c.Node, What: fmt.Sprintf("gateway bridge %s: to the gateway router, from %s", bridge, c.Source)}, nil
}

// masquerade is the masquerade address with an offset, by that of the next hop.
func masquerade(hop netip.Addr, offset uint64) netip.Addr {
	return contract.AddressAt(netip.PrefixFrom(hop, hop.BitLen()), offset-contract.MasqueradeNextHop)
}

// isForNode says that a packet from the uplink is for the node itself: no load balancer has its port.
func (c *Connection) isForNode(n north) bool {
	return c.Masquerade == 0 && c.isOwn(c.Target.Addr()) && !slices.ContainsFunc(n.balancers, func(b balancer) bool { return b.protocol == c.Protocol && b.isAt(c.ByGateway) })
}

// isAt says that a load balancer is on gateway routers, or else on the switches of nodes. pkg/ovn/lb gives the names.
func (b balancer) isAt(routers bool) bool {
	id := b.name[strings.LastIndexByte(b.name, '/')+1:]
	onRouters, onSwitches := strings.Contains(id, "_router"), strings.Contains(id, "switch")
	return onRouters == onSwitches || onRouters == routers
}

// find gives the backends at an address and port where the packet enters, if a load balancer with variables has it. Without a
// value on this node they are empty, and so they are of a service without endpoints, whose frontend is there all the same.
func (c *Connection) find(n north, at netip.AddrPort) (backends string, found bool, by balancer) {
	of := Connection{Target: at, Entry: Entry{Gateway: c.Gateway}}
	for _, b := range n.balancers {
		if !b.template || b.protocol != c.Protocol || !b.isAt(c.ByGateway) {
			continue
		}
		for _, key := range of.frontends() {
			if value, ok := b.vips[key]; ok {
				if name, variable := strings.CutPrefix(value, "^"); variable {
					value = n.variables[name]
				}
				return value, true, b
			}
		}
	}
	return "", false, balancer{}
}

// balance changes the packet as a load balancer with variables does.
func (c *Connection) balance(n north, of *Computed) error {
	value, found, by := c.find(n, c.Target)
	if !found {
		return nil
	}
	where := c.Switch
	if c.ByGateway {
		where = contract.Network{}.GatewayRouter(c.Node)
	}
	step := Step{Where: where, Object: by.owner}
	if value == "" {
		step.What = "load balancer: no endpoint"
		if by.hasVariable(c) {
			step.What = "load balancer: no endpoint on this node" // and so it does not answer here
			of.Steps = append(of.Steps, step)
			return nil
		}
		of.Steps, of.Verdict = append(of.Steps, step), Rejected
		return nil
	}
	for text := range strings.SplitSeq(value, ",") {
		backend, err := netip.ParseAddrPort(text)
		if err != nil {
			return fmt.Errorf("load balancer %s: %w", by.name, err)
		}
		of.Path.Chosen = append(of.Path.Chosen, backend)
	}
	step.What = "load balancer: to " + oneOf(of.Path.Chosen)
	of.Steps = append(of.Steps, step)
	c.Target = of.Path.Chosen[0]
	if c.ByGateway {
		c.leaveRouter(n, by, of)
	}
	return nil
}

// hasVariable says that the backends at the target differ from node to node.
func (b balancer) hasVariable(c *Connection) bool {
	return slices.ContainsFunc(c.frontends(), func(key string) bool { return strings.HasPrefix(b.vips[key], "^") })
}

// leaveRouter has the packet go on behind the load balancer of a gateway router: as from the router's address in the join
// network, unless the load balancer keeps that of the client.
func (c *Connection) leaveRouter(n north, by balancer, of *Computed) {
	to := c.Target.Addr()
	if hop, ok := like(n.nextHops, to); ok && masquerade(hop, contract.MasqueradeHost) == to {
		of.Steps = append(of.Steps, Step{Where: "node/" + c.Node, What: "gateway bridge: to a process of the node"})
		of.Verdict = Delivered
		return
	}
	join, ok := contract.FamilyOf(to).Pick(n.gateway.addresses)
	isPod := slices.ContainsFunc(c.Pods, func(p netip.Prefix) bool { return p.Contains(to) })
	if !ok || by.keepSource || !isPod {
		return
	}
	router := contract.Network{}.GatewayRouter(c.Node)
	of.Steps = append(of.Steps, Step{Where: router, What: "SNAT to " + join.Addr().String()})
	c.Switch, c.Port = contract.Network{}.JoinSwitch(), joinPort+router
	c.Source, c.MAC, c.NextHop = join.Addr(), n.gateway.mac, n.cluster.mac
}
