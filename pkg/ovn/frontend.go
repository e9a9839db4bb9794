package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// balancer says which of its service's load balancers a frontend is in.
type balancer struct {
	protocol corev1.Protocol
	audience audience
	// template has variables in it, which each node has its own values of; such
	// a load balancer is of one family.
	template bool
	family   contract.Family
	// own has the backends of the node alone; keepSource leaves the client's
	// address as it is; elsewhere is for nodes without backends of their own.
	own, keepSource, elsewhere bool
}

// audience is who sees a frontend: pods are behind switches; nodes, and those
// outside, behind gateway routers.
type audience int

const (
	everybody audience = iota
	onSwitches
	onRouters
)

// frontend is an address and port at which a service answers.
type frontend struct {
	in            balancer
	vip, backends string
}

// id tells the load balancers of a service apart; their names end with it.
func (b balancer) id() string {
	scope := "cluster"
	if b.template || b.audience != everybody {
		scope = "node"
		switch {
		case b.own && b.audience == onRouters && !b.keepSource:
			scope += "_local_snat" // of the cluster address: beside it may be that of the others
		case b.own:
			scope += "_local"
		case b.elsewhere:
			scope += "_elsewhere"
		}
		scope += [...]string{everybody: "_router+switch", onSwitches: "_switch", onRouters: "_router"}[b.audience]
	}
	if b.template {
		scope += "_template_" + b.family.String()
	}
	return string(b.protocol) + "_" + scope
}

func (b balancer) group(net scope) string {
	return [...]string{everybody: net.ClusterGroup(), onSwitches: net.SwitchGroup(), onRouters: net.RouterGroup()}[b.audience]
}

func (b balancer) familyName() string { return strings.ToLower(b.family.String()) }

// frontends are where a port of a service answers.
func (p servicePort) frontends(view Gateways) []frontend {
	var out []frontend
	for _, t := range p.internal() {
		out = append(out, t.at(p.address, uint16(p.Port)))
	}
	for _, t := range p.external() {
		for _, address := range p.service.external {
			if address.Is6() == p.address.Is6() {
				out = append(out, t.at(address, uint16(p.Port)))
			}
		}
		if p.NodePort != 0 {
			out = append(out, t.atNodes(view, uint16(p.NodePort))...)
		}
	}
	return out
}

// elsewhere is where a process of a node without an endpoint finds a node port with
// policy Local: the node ports of the nodes that have one. Their routers keep the address
// of the client, which is the node's own. An endpoint itself is the backend where its
// node has no node ports: it sees the router's address in the join subnet, by which
// alone an answer of a pod comes back.
func (p servicePort) elsewhere(view View, net scope) []frontend {
	subnet, ok := contract.FamilyOf(p.address).Pick(net.MasqueradeSubnets)
	if !ok || p.NodePort == 0 || !p.service.externalLocal() {
		return nil
	}
	var behind []endpoint
	for _, e := range usable(p.endpoints) {
		for _, address := range view.GatewayAddresses(view.Node(e.node)) {
			if address.Is6() == p.address.Is6() {
				e.address = netip.AddrPortFrom(address, uint16(p.NodePort))
			}
		}
		behind = append(behind, e)
	}
	slices.SortFunc(behind, func(a, b endpoint) int { return a.address.Compare(b.address) })
	behind = slices.CompactFunc(behind, func(a, b endpoint) bool { return a.address == b.address })
	at := contract.PrefixAt(subnet, contract.MasqueradeElsewhere).Addr()
	return []frontend{{
		in:  balancer{protocol: protocolOf(p.Protocol), audience: onRouters, elsewhere: true},
		vip: netip.AddrPortFrom(at, uint16(p.NodePort)).String(), backends: backends(behind),
	}}
}

// internal are the targets at the service's cluster address.
func (p servicePort) internal() []target { return p.targets(everybody, p.service.internalLocal()) }

// external are those at its other addresses, if it has any. With policy Local,
// pods still reach every endpoint there, as if the address were the cluster's own.
func (p servicePort) external() []target {
	switch {
	case p.NodePort == 0 && len(p.service.external) == 0:
		return nil
	case !p.service.externalLocal():
		return p.targets(everybody, false)
	}
	kept := p.targets(onRouters, true)
	for i := range kept {
		kept[i].keepSource = true
	}
	return append(p.targets(onSwitches, false), kept...)
}

// target is which backends a frontend has and who sees it.
type target struct {
	servicePort
	audience   audience
	choice     choice
	keepSource bool
	// variable says that the backends differ from node to node.
	variable bool
}

// choice is which of the endpoints of a port a node uses.
type choice string

const (
	chooseAll   choice = "ALL"
	chooseLocal choice = "LOCAL"
	chooseNear  choice = "NEAR"
)

// targets are the backends for an audience. Endpoints on the network of nodes
// divide it: a gateway router has another address for those of its own node.
func (p servicePort) targets(who audience, local bool) []target {
	t := target{servicePort: p, audience: who, choice: chooseAll}
	switch {
	case len(usable(p.endpoints)) == 0:
		return []target{t} // nothing to choose from: everybody is refused
	case local:
		t.choice = chooseLocal
	case hinted(p.endpoints):
		t.choice = chooseNear
	}
	t.variable = t.choice != chooseAll
	if !p.onNodes || who == onSwitches {
		return []target{t}
	}
	routers := t
	routers.audience, routers.variable = onRouters, true
	if who == onRouters {
		return []target{routers}
	}
	t.audience = onSwitches
	return []target{t, routers}
}

func (t target) backends() string {
	if t.variable {
		return "^" + t.variableOf(t.choice, t.onNodes && t.audience == onRouters)
	}
	return backends(usable(t.endpoints))
}

func (t target) in(template bool) balancer {
	b := balancer{protocol: protocolOf(t.Protocol), audience: t.audience, template: template, own: t.choice == chooseLocal, keepSource: t.keepSource}
	if template {
		b.family = contract.FamilyOf(t.address)
	}
	return b
}

// at is the frontend at an address of the service's own.
func (t target) at(address netip.Addr, port uint16) frontend {
	vip := netip.AddrPortFrom(address, port).String()
	if t.variable && address.Is6() {
		// OVN reads colons of an IPv6 address in a template as separators.
		vip = "^" + addressVariable(address) + ":" + strconv.Itoa(int(port))
	}
	return frontend{in: t.in(t.variable), vip: vip, backends: t.backends()}
}

// atNodes are the frontends at the addresses of nodes: one that each node fills
// in, unless the affinity needs what templates do not have and the nodes are few.
func (t target) atNodes(view Gateways, port uint16) []frontend {
	family := contract.FamilyOf(t.address)
	if affinity := t.service.affinity(); !t.variable && affinity > 0 && affinity < maxAffinity {
		if addresses, few := view.NodeAddresses(family); few {
			var out []frontend
			for _, address := range addresses {
				out = append(out, t.at(address, port))
			}
			return out
		}
	}
	vip := "^" + nodeVariable(family) + ":" + strconv.Itoa(int(port))
	return []frontend{{in: t.in(true), vip: vip, backends: t.backends()}}
}

// variableOf names a node's own backends of a port, those of its pods or those of
// its gateway router. Dots are in no name of the API's, so that no two ports
// share a variable.
func (p servicePort) variableOf(which choice, router bool) string {
	kind := string(which)
	if router {
		kind = "ROUTER_" + kind
	}
	name := fmt.Sprintf("%s.%s.%s.%s.%d.%s", kind, p.service.Namespace, p.service.Name, protocolOf(p.Protocol), p.Port, contract.FamilyOf(p.address))
	return strings.ReplaceAll(name, "-", "_")
}

// nodeVariable is a node's address in a family.
func nodeVariable(family contract.Family) string { return "NODEIP_" + family.String() + "_0" }

// addressVariable stands for an IPv6 address, the same on every node.
func addressVariable(address netip.Addr) string {
	return "ADDRESS." + strings.ReplaceAll(address.StringExpanded(), ":", "_")
}
