package node

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// hostAndServices lead the host's processes to the router, which has the load
// balancers, and back; and what the router sends to the host itself, which is
// the endpoint of a service on the host's network. Addresses and stand-ins are
// exchanged one for one, so that this needs no conntrack.
func hostAndServices(w wire) []string {
	if len(w.Meetings) == 0 {
		return nil
	}
	flows := []string{
		// An error that the router makes goes back to the MAC whence the packet
		// came: the one that both have would be its own.
		flow(tableToRouter, 0, "", fmt.Sprintf("set_field:%s->eth_src,set_field:%s->eth_dst,%s",
			contract.MACFromAddress(w.Meetings[0].hop), w.MAC, output(w.Router))),
		flow(tableToHost, 0, "", fmt.Sprintf("move:NXM_OF_ETH_DST[]->NXM_OF_ETH_SRC[],set_field:%s->eth_dst,%s", w.MAC, w.toHost())),
	}
	for _, m := range w.Meetings {
		flows = append(flows, hostToRouter(w, m)...)
		flows = append(flows, routerToHost(w, m)...)
	}
	return flows
}

func hostToRouter(w wire, m meeting) []string {
	in := "in_port=" + w.hostPort() + ","
	flows := []string{
		flow(0, 270, in+to(single(m.router)), rewrite("src", m.host)+rewrite("dst", m.address)+next(tableToRouter)),
		// Also answers to those whom the router has not hidden.
		flow(0, 260, in+family(m.address)+","+from(m.host), next(tableToRouter)),
		flow(0, 230, in+to(m.subnet), "drop"),
	}
	type target struct {
		match string
		as    netip.Addr // the node's address
	}
	targets := []target{{to(single(m.elsewhere)), m.client}}
	for _, services := range m.services {
		targets = append(targets, target{to(services), m.bound})
	}
	for _, e := range w.Services.External {
		if contract.FamilyOf(m.address).Has(e.Addr) && !e.passesBy(w.Addresses) {
			targets = append(targets, target{e.match(), m.bound})
		}
	}
	for _, t := range targets {
		flows = append(flows,
			flow(0, 250, in+t.match+","+from(m.address), rewrite("src", t.as)+next(tableToRouter)),
			flow(0, 240, in+t.match, fmt.Sprintf("ct(commit,zone=%d,table=%d,nat(src=%s))", zoneOther, tableToRouter, m.other)),
		)
	}
	return flows
}

func routerToHost(w wire, m meeting) []string {
	in := fmt.Sprintf("in_port=%d,dl_src=%s,", w.Router, w.MAC)
	flows := []string{
		flow(0, 130, in+to(single(m.host))+","+from(m.address), rewrite("src", m.router)+rewrite("dst", m.address)+next(tableToHost)),
		flow(0, 120, in+to(single(m.host)), next(tableToHost)),
		flow(0, 120, in+to(single(m.bound)), rewrite("dst", m.address)+next(tableToHost)),
		flow(0, 120, in+to(single(m.client)), rewrite("dst", m.address)+next(tableToHost)),
		flow(0, 120, in+to(single(m.other)), fmt.Sprintf("ct(zone=%d,table=%d,nat)", zoneOther, tableToHost)),
		flow(0, 110, in+to(m.subnet), "drop"),
		flow(0, 110, in+family(m.address)+","+fromAny(m.subnet), "drop"),
	}
	for _, services := range m.services {
		// No load balancer took it: it is no packet for the wire.
		flows = append(flows, flow(0, 105, in+to(services), "drop"))
	}
	return flows
}

// wireAndServices lead what asks for a service at the node to the router: two flows
// for each node port, whatever the number of the node's addresses. Fragments show
// their port after conntrack only. The connection is committed here, because its
// answers are as they leave: a NIC takes none of which conntrack saw one direction.
func wireAndServices(w wire) []string {
	var flows []string
	in := fmt.Sprintf("in_port=%d,dl_dst=%s,", w.Uplink, w.MAC)
	for _, e := range w.Services.External {
		known := remember(markRouter)
		if slices.ContainsFunc(w.Addresses, e.isOf) {
			known += rememberOwn()
			flows = append(flows, ownAnswers(w, e.matchAs("src")))
		}
		for _, match := range e.allowed() {
			flows = append(flows,
				flow(0, 87, in+match+",nw_frag=no", known+output(w.Router)),
				flow(tableAnswer, 60, match, known+output(w.Router)),
			)
		}
		if e.Limited {
			flows = append(flows, flow(0, 86, in+e.match()+",nw_frag=no", "drop"), flow(tableAnswer, 55, e.match(), "drop"))
		}
	}
	if len(w.Services.NodePorts) == 0 {
		return flows
	}
	for _, own := range w.Addresses {
		addr := to(single(own.Addr()))
		flows = append(flows,
			flow(0, 85, in+addr+",nw_frag=no", next(tableNodePort)),
			flow(tableAnswer, 50, addr, next(tableNodePort)),
		)
	}
	for _, p := range w.Services.NodePorts {
		flows = append(flows, nodePort(w, p.Port, "")...)
		flows = append(flows, nodePort(w, p.Port, "6")...)
	}
	return append(flows,
		flow(tableNodePort, 5, "ct_state=-trk,ip", track(tableAnswer)),
		flow(tableNodePort, 5, "ct_state=-trk,ipv6", track(tableAnswer)),
		flow(tableNodePort, 0, "", w.toHost()),
	)
}

// nodePort gives the way there and back.
func nodePort(w wire, p Port, suffix string) []string {
	protocol := string(p.Protocol) + suffix
	return []string{
		flow(tableNodePort, 10, fmt.Sprintf("%s,tp_dst=%d", protocol, p.Port), remember(markRouter)+rememberOwn()+output(w.Router)),
		ownAnswers(w, fmt.Sprintf("%s,tp_src=%d", protocol, p.Port)),
	}
}

// rememberOwn is the action, with a comma behind it, for connections to the node's
// address. The router looks for them in its own zone, where pods are that it hides:
// one that is not there stays new, and no NIC takes it. So the bridge puts it there.
func rememberOwn() string { return fmt.Sprintf("ct(commit,zone=%d),", zoneRouter) }

// ownAnswers has both zones see the answers of such connections.
func ownAnswers(w wire, match string) string {
	return flow(0, 82, fmt.Sprintf("in_port=%d,dl_src=%s,%s", w.Router, w.MAC, match), fmt.Sprintf("ct(zone=%d),", zoneRouter)+remember(markRouter)+output(w.Uplink))
}

func (e Endpoint) match() string { return e.matchAs("dst") }

// matchAs is of packets to the endpoint, "dst", or of its answers, "src".
func (e Endpoint) matchAs(end string) string {
	if e.Addr.Is4() {
		return fmt.Sprintf("%s,nw_%s=%s,tp_%s=%d", e.Protocol, end, e.Addr, end, e.Port.Port)
	}
	return fmt.Sprintf("%s6,ipv6_%s=%s,tp_%s=%d", e.Protocol, end, e.Addr, end, e.Port.Port)
}

// allowed matches those whom the service answers.
func (e Endpoint) allowed() []string {
	if !e.Limited {
		return []string{e.match()}
	}
	var out []string
	for _, source := range e.Sources {
		if contract.FamilyOf(e.Addr).Has(source.Addr()) {
			out = append(out, e.match()+","+fromAny(source))
		}
	}
	return out
}

func family(addr netip.Addr) string {
	if addr.Is4() {
		return "ip"
	}
	return "ipv6"
}

// from goes behind a match of the same family.
func from(addr netip.Addr) string { return fromAny(single(addr)) }

func fromAny(prefix netip.Prefix) string {
	if prefix.Addr().Is4() {
		return "nw_src=" + prefix.String()
	}
	return "ipv6_src=" + prefix.String()
}

// rewrite is the action, with a comma behind it, that sets an address; end is
// "src" or "dst".
func rewrite(end string, addr netip.Addr) string {
	field := "nw_" + end
	if addr.Is6() {
		field = "ipv6_" + end
	}
	return fmt.Sprintf("set_field:%s->%s,", addr, field)
}

func next(table int) string { return fmt.Sprintf("goto_table:%d", table) }

func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }
