package lb

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// balancer identifies the load balancer of a frontend among those of its service.
type balancer struct {
	protocol corev1.Protocol
	scope    lbScope
	// template means template variables, with values of each node. A load balancer with them has one family.
	template bool
	family   contract.Family
	// own means that the backends are the node's own. keepSource keeps the client's address. elsewhere is for nodes
	// without backends of their own.
	own, keepSource, elsewhere bool
}

// lbScope is where a frontend is: on switches for pods, on gateway routers for nodes and external clients, or on both.
type lbScope int

const (
	onBoth lbScope = iota
	onSwitches
	onRouters
)

// frontend is an address and port at which a service answers.
type frontend struct {
	in            balancer
	vip, backends string
}

// id is unique among the load balancers of a service, and the end of the load balancer's name.
func (b balancer) id() string {
	id := "cluster"
	if b.template || b.scope != onBoth {
		id = "node"
		switch {
		case b.own && b.scope == onRouters && !b.keepSource:
			id += "_local_snat" // of the cluster address: the external addresses may have another one
		case b.own:
			id += "_local"
		case b.elsewhere:
			id += "_elsewhere"
		}
		id += [...]string{onBoth: "_router+switch", onSwitches: "_switch", onRouters: "_router"}[b.scope]
	}
	if b.template {
		id += "_template_" + b.family.String()
	}
	return string(b.protocol) + "_" + id
}

func (b balancer) group(net scope) string {
	return [...]string{onBoth: net.ClusterGroup(), onSwitches: net.SwitchGroup(), onRouters: net.RouterGroup()}[b.scope]
}

func (b balancer) familyName() string { return strings.ToLower(b.family.String()) }

// frontends are the addresses and ports of one port of a service.
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

// elsewhere is the frontend for processes of a node without an endpoint, at a node port with policy Local. Its backends
// are the node ports of the nodes with endpoints. Their routers keep the client's address, which is the node's own. If an
// endpoint's node has no node ports, the backend is the endpoint itself. It sees the router's address in the join subnet,
// because only this address leads a pod's reply back.
func (p servicePort) elsewhere(view View, net scope) []frontend {
	subnet, ok := contract.FamilyOf(p.address).Pick(net.MasqueradeSubnets)
	if !ok || p.NodePort == 0 || !p.service.externalLocal() {
		return nil
	}
	var behind []endpoint
	for _, e := range usable(p.reached) {
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
		in:  balancer{protocol: protocolOf(p.Protocol), scope: onRouters, elsewhere: true},
		vip: netip.AddrPortFrom(at, uint16(p.NodePort)).String(), backends: backends(behind),
	}}
}

// internal are the targets at the service's cluster address. Only pods of a primary network reach those of its services.
func (p servicePort) internal() []target {
	scope := onBoth
	if p.service.further != nil {
		scope = onSwitches
	}
	return p.targets(scope, p.service.internalLocal())
}

// external are the targets at the service's other addresses, if any. With policy Local, pods still reach every endpoint
// at an external address, as at the cluster address.
func (p servicePort) external() []target {
	switch {
	case p.NodePort == 0 && len(p.service.external) == 0:
		return nil
	case p.service.externalLocal():
	case p.service.further != nil:
		return append(p.targets(onSwitches, false), p.targets(onRouters, false)...)
	default:
		return p.targets(onBoth, false)
	}
	kept := p.targets(onRouters, true)
	for i := range kept {
		kept[i].keepSource = true
	}
	return append(p.targets(onSwitches, false), kept...)
}

// target has the backends and the scope of a frontend.
type target struct {
	servicePort
	scope      lbScope
	selection  selection
	keepSource bool
	// variable says that the backends differ from node to node.
	variable bool
}

// selection is the selection of a port's endpoints on a node; its value is a part of the template variable's name.
type selection string

const (
	selectAll    selection = "ALL"
	selectLocal  selection = "LOCAL"
	selectHinted selection = "NEAR"
)

// targets are the backends for a scope. Host-network endpoints need one target for switches and one for routers: a gateway
// router has another address for endpoints on its own node. So do endpoints that only switches may have.
func (p servicePort) targets(scope lbScope, local bool) []target {
	t := target{servicePort: p, scope: scope, selection: selectAll}
	switch {
	case len(usable(p.endpoints)) == 0:
		return []target{t} // no endpoints: all connections are refused
	case local:
		t.selection = selectLocal
	case hinted(p.endpoints):
		t.selection = selectHinted
	}
	t.variable = t.selection != selectAll
	if !p.differsOnRouters() || scope == onSwitches {
		return []target{t}
	}
	routers := t
	routers.scope, routers.variable, routers.endpoints = onRouters, t.variable || p.onHostNetwork, p.reached
	if scope == onRouters {
		return []target{routers}
	}
	t.scope = onSwitches
	return []target{t, routers}
}

// differsOnRouters says that gateway routers have other backends than switches.
func (p servicePort) differsOnRouters() bool { return p.onHostNetwork || p.guarded }

func (t target) backends() string {
	if t.variable {
		return "^" + t.variableOf(t.selection, t.differsOnRouters() && t.scope == onRouters)
	}
	return backends(usable(t.endpoints))
}

func (t target) in(template bool) balancer {
	b := balancer{protocol: protocolOf(t.Protocol), scope: t.scope, template: template, own: t.selection == selectLocal, keepSource: t.keepSource}
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
		vip = "^" + contract.AddressVariable(address) + ":" + strconv.Itoa(int(port))
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
	return []frontend{{in: t.in(true), vip: nodeVIP(family, port), backends: t.backends()}}
}

// nodeVIP is a port at the address that each node fills in.
func nodeVIP(family contract.Family, port uint16) string {
	return "^" + contract.NodeVariable(family) + ":" + strconv.Itoa(int(port))
}

// variableOf names a node's own backends of a port, those of its pods or those of
// its gateway router. Dots are in no name of the API's, so that no two ports
// share a variable.
func (p servicePort) variableOf(by selection, router bool) string {
	kind := string(by)
	if router {
		kind = "ROUTER_" + kind
	}
	name := fmt.Sprintf("%s.%s.%s.%s.%d.%s", kind, p.service.Namespace, p.service.Name, protocolOf(p.Protocol), p.Port, contract.FamilyOf(p.address))
	return strings.ReplaceAll(name, "-", "_")
}
