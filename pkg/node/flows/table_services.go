package flows

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// hostAndServices lead the host's processes to the routers, which have the load
// balancers, and back; and what a router sends to the host itself, which is the
// endpoint of a service on the host's network. Addresses and masquerade addresses are
// exchanged one for one, so that this needs no conntrack.
func hostAndServices(b Bridge) []string {
	var flows []string
	for i, r := range b.Routers {
		if len(r.Masquerade) == 0 {
			continue
		}
		match := ""
		if i > 0 {
			match = fmt.Sprintf("reg0=%d", r.Mark)
		}
		// An error that the router makes goes back to the MAC whence the packet
		// came: the one that both have would be its own.
		flows = append(flows, flow(tableToRouter, 10*min(i, 1), match, fmt.Sprintf("set_field:%s->eth_src,set_field:%s->eth_dst,%s",
			contract.MACFromAddress(r.Masquerade[0].NextHop), b.MAC, output(r.Port))))
		if i == 0 {
			flows = append(flows, flow(tableToHost, 0, "", fmt.Sprintf("move:NXM_OF_ETH_DST[]->NXM_OF_ETH_SRC[],set_field:%s->eth_dst,%s", b.MAC, b.toHost())))
		}
		for _, m := range r.Masquerade {
			flows = append(flows, hostToRouter(b, i, m)...)
			flows = append(flows, routerToHost(b, r, m)...)
		}
	}
	return flows
}

// hostToRouter names a router but the first one in register 0, for tableToRouter.
func hostToRouter(b Bridge, nth int, m Masquerade) []string {
	chosen := ""
	if nth > 0 {
		chosen = fmt.Sprintf("set_field:%d->reg0,", b.Routers[nth].Mark)
	}
	in := "in_port=" + b.hostPort() + ","
	flows := []string{
		flow(0, 270, in+to(Single(m.Router)), chosen+rewrite("src", m.Host)+rewrite("dst", m.Address)+next(tableToRouter)),
		// Also answers to clients whose source the router has kept.
		flow(0, 260, in+family(m.Address)+","+from(m.Host), chosen+next(tableToRouter)),
		flow(0, 230, in+to(m.Subnet), "drop"),
	}
	type target struct {
		match string
		as    netip.Addr // in place of the node's address
	}
	targets := []target{{to(Single(m.Elsewhere)), m.Client}}
	for _, services := range m.Services {
		targets = append(targets, target{to(services), m.Bound})
	}
	for _, e := range b.servicesOf(nth).External {
		if contract.FamilyOf(m.Address).Has(e.Addr) && !e.passesBy(b.Addresses) {
			targets = append(targets, target{e.match(), m.Bound})
		}
	}
	for _, t := range targets {
		flows = append(flows,
			flow(0, 250, in+t.match+","+from(m.Address), chosen+rewrite("src", t.as)+next(tableToRouter)),
			flow(0, 240, in+t.match, chosen+fmt.Sprintf("ct(commit,zone=%d,table=%d,nat(src=%s))", zoneOther, tableToRouter, m.Other)),
		)
	}
	return flows
}

// servicesOf are the services of a router: all are the default network's.
func (b Bridge) servicesOf(nth int) Services {
	if nth > 0 {
		return Services{}
	}
	return b.Services
}

func routerToHost(b Bridge, r Router, m Masquerade) []string {
	in := fmt.Sprintf("in_port=%d,dl_src=%s,", r.Port, b.MAC)
	flows := []string{
		flow(0, 130, in+to(Single(m.Host))+","+from(m.Address), rewrite("src", m.Router)+rewrite("dst", m.Address)+next(tableToHost)),
		flow(0, 120, in+to(Single(m.Host)), next(tableToHost)),
		flow(0, 120, in+to(Single(m.Bound)), rewrite("dst", m.Address)+next(tableToHost)),
		flow(0, 120, in+to(Single(m.Client)), rewrite("dst", m.Address)+next(tableToHost)),
		flow(0, 120, in+to(Single(m.Other)), fmt.Sprintf("ct(zone=%d,table=%d,nat)", zoneOther, tableToHost)),
		flow(0, 110, in+to(m.Subnet), "drop"),
		flow(0, 110, in+family(m.Address)+","+fromAny(m.Subnet), "drop"),
	}
	for _, services := range m.Services {
		// No load balancer took the packet: it must not leave by the uplink.
		flows = append(flows, flow(0, 105, in+to(services), "drop"))
	}
	return flows
}

// uplinkAndServices lead what asks for a service at the node to the router. The connection is
// committed here, because its answers are as they leave: a NIC takes none of which conntrack saw
// one direction.
func uplinkAndServices(b Bridge, r Router) []string {
	var flows []string
	var own, others []netip.Addr
	if len(b.Services.NodePorts) > 0 {
		for _, shared := range b.Addresses {
			own = append(own, shared.Addr())
		}
	}
	for _, e := range b.Services.External {
		if b.isOwn(e.Addr) {
			own = append(own, e.Addr)
			flows = append(flows, atOwn(b, r, e)...)
		} else {
			others = append(others, e.Addr)
			if !e.Remote { // else the router would send it back, too
				flows = append(flows, atOther(b, r, e)...)
			}
		}
	}
	for _, addr := range sortedAddrs(others) {
		// The host would send it back to the uplink, and so in a circle.
		flows = append(flows, flow(TableAnswer, 40, to(Single(addr)), "drop"))
	}
	for _, p := range b.Services.NodePorts {
		flows = append(flows, nodePort(b, r, p.Port, "")...)
		flows = append(flows, nodePort(b, r, p.Port, "6")...)
	}
	return append(flows, ownOrService(b, sortedAddrs(own))...)
}

// sortedAddrs has each address once.
func sortedAddrs(addrs []netip.Addr) []netip.Addr {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

// atOther is a service at an address that the host has not. Fragments show their port after
// conntrack only.
func atOther(b Bridge, r Router, e Endpoint) []string {
	var flows []string
	in := fmt.Sprintf("in_port=%d,dl_dst=%s,", b.Uplink, b.MAC)
	for _, match := range e.allowed() {
		flows = append(flows,
			flow(0, 87, in+match+",nw_frag=no", remember(r.Mark)+output(r.Port)),
			flow(TableAnswer, 60, match, remember(r.Mark)+output(r.Port)),
		)
	}
	if e.Limited {
		flows = append(flows, flow(0, 86, in+e.match()+",nw_frag=no", "drop"), flow(TableAnswer, 55, e.match(), "drop"))
	}
	return flows
}

// atOwn is a service at an address of the host, which may have connections of its own from the
// port of the service.
func atOwn(b Bridge, r Router, e Endpoint) []string {
	var flows []string
	commit := remember(r.Mark)
	if b.isShared(e.Addr) {
		commit += rememberOwn()
		flows = append(flows, ownAnswers(b, r, e.matchAs("src")))
	}
	for _, match := range e.allowed() {
		flows = append(flows, flow(tableOwn, 10, match, commit+output(r.Port)))
	}
	if e.Limited {
		flows = append(flows, flow(tableOwn, 5, e.match(), "drop"))
	}
	return flows
}

// ownOrService tells answers to the host from requests to services at the same port: those to
// connections that are remembered, and of TCP all that begins no connection and has no mark.
func ownOrService(b Bridge, own []netip.Addr) []string {
	if len(own) == 0 {
		return nil
	}
	var flows []string
	in := fmt.Sprintf("in_port=%d,dl_dst=%s,", b.Uplink, b.MAC)
	for _, addr := range own {
		flows = append(flows, flow(TableAnswer, 50, to(Single(addr)), next(tableOwn)))
		for _, match := range requests(addr) {
			flows = append(flows, flow(0, 85, in+match+",nw_frag=no", next(tableOwn)))
		}
	}
	for _, ip := range []string{"ip", "ipv6"} { // a request that is none of a service's
		flows = append(flows, flow(tableOwn, 3, "ct_state=-trk,"+ip, track(TableAnswer)))
	}
	flows = append(flows, flow(tableOwn, 20, fmt.Sprintf("ct_mark=%d", markOwnPort), b.toHost()))
	for _, tcp := range []string{"tcp", "tcp6"} {
		for _, set := range []string{"-syn", "+syn+ack"} {
			flows = append(flows, flow(tableOwn, 20, fmt.Sprintf("%s,ct_mark=%d,tcp_flags=%s", tcp, markHost, set), b.toHost()))
		}
	}
	return append(flows, flow(tableOwn, 0, "", b.toHost()))
}

// requests match what is a client's packet without a look at conntrack, which would be one more pass: of TCP the first
// packet of a connection, of UDP what comes from a port where clients are and hardly a server that the host asks.
func requests(addr netip.Addr) []string {
	suffix, dst := "", "nw_dst"
	if addr.Is6() {
		suffix, dst = "6", "ipv6_dst"
	}
	at := fmt.Sprintf("%s,%s=%s,", suffix, dst, addr)
	return []string{"tcp" + at + "tcp_flags=+syn-ack", "udp" + at + "tp_src=0x8000/0x8000"}
}

// nodePort gives the way there and back.
func nodePort(b Bridge, r Router, p Port, suffix string) []string {
	protocol := string(p.Protocol) + suffix
	return []string{
		flow(tableOwn, 10, fmt.Sprintf("%s,tp_dst=%d", protocol, p.Port), remember(r.Mark)+rememberOwn()+output(r.Port)),
		ownAnswers(b, r, fmt.Sprintf("%s,tp_src=%d", protocol, p.Port)),
	}
}

// rememberOwn is the action, with a comma behind it, for connections to the node's
// address. The router looks for them in its own zone, which has its SNAT for pods:
// one that is not there stays new, and no NIC takes it. So the bridge puts it there.
func rememberOwn() string { return fmt.Sprintf("ct(commit,zone=%d),", zoneRouter) }

// ownAnswers has both zones see the answers of such connections.
func ownAnswers(b Bridge, r Router, match string) string {
	return flow(0, 82, fmt.Sprintf("in_port=%d,dl_src=%s,%s", r.Port, b.MAC, match), fmt.Sprintf("ct(zone=%d),", zoneRouter)+remember(r.Mark)+output(b.Uplink))
}

func (e Endpoint) match() string { return e.matchAs("dst") }

// matchAs is of packets to the endpoint, "dst", or of its answers, "src".
func (e Endpoint) matchAs(end string) string {
	if e.Addr.Is4() {
		return fmt.Sprintf("%s,nw_%s=%s,tp_%s=%d", e.Protocol, end, e.Addr, end, e.Port.Port)
	}
	return fmt.Sprintf("%s6,ipv6_%s=%s,tp_%s=%d", e.Protocol, end, e.Addr, end, e.Port.Port)
}

// allowed matches the clients that the service answers.
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
func from(addr netip.Addr) string { return fromAny(Single(addr)) }

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

// Single is the prefix of one address.
func Single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }
