package conntrack

import (
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
)

// servers are those of addresses that are balanced. An address of which a group was
// not there, or has changed meanwhile, is left out. One that no flow has is there with nil.
type servers map[frontend]map[netip.AddrPort]bool

// frontend is a balanced address.
type frontend struct {
	protocol string
	address  netip.AddrPort
}

// reader takes from flows and groups, as ovs-ofctl prints them, what concerns the
// addresses that were asked for.
type reader struct {
	asked map[frontend]bool
	// frontends are those of asked that are balanced, each with its groups; one
	// without servers has none.
	frontends map[frontend]map[uint64]bool
	// groups are theirs, each with its servers, nil before it was read.
	groups map[uint64]map[netip.AddrPort]bool
}

func newReader(asked map[frontend]bool) *reader {
	return &reader{asked: asked, frontends: map[frontend]map[uint64]bool{}, groups: map[uint64]map[netip.AddrPort]bool{}}
}

// flow takes one that is about one address and port. Some of a balanced address have
// a group; an address without servers has none.
func (r *reader) flow(flow string) {
	match, actions, _ := strings.Cut(flow, " actions=")
	f, ok := frontendOf(match)
	if !ok || !r.asked[f] {
		return
	}
	if r.frontends[f] == nil {
		r.frontends[f] = map[uint64]bool{}
	}
	if id, ok := numberAfter("group:", actions); ok {
		r.frontends[f][id] = true
		r.groups[id] = nil
	}
}

// group is to be called after all flows.
func (r *reader) group(line string) {
	group, ok := numberAfter("group_id=", line)
	if _, ours := r.groups[group]; !ok || !ours {
		return
	}
	servers := map[netip.AddrPort]bool{}
	for _, bucket := range strings.Split(line, "nat(dst=")[1:] {
		to, _, _ := strings.Cut(bucket, ")")
		if server, err := netip.ParseAddrPort(to); err == nil {
			servers[server] = true
		}
	}
	r.groups[group] = servers
}

func (r *reader) servers() servers {
	servers := servers{}
	for f, groups := range r.frontends {
		all, known := map[netip.AddrPort]bool{}, true
		for group := range groups {
			maps.Copy(all, r.groups[group])
			known = known && r.groups[group] != nil
		}
		if known {
			servers[f] = all
		}
	}
	for f := range r.asked {
		if r.frontends[f] == nil {
			servers[f] = nil
		}
	}
	return servers
}

func numberAfter(prefix, text string) (uint64, bool) {
	_, rest, _ := strings.Cut(text, prefix)
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// fieldsOf are those of a match; a protocol is its own value.
func fieldsOf(match string) map[string]string {
	all := map[string]string{}
	for field := range strings.FieldsFuncSeq(match, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, value, is := strings.Cut(field, "=")
		if !is {
			name, value = "protocol", strings.TrimSuffix(field, "6")
		}
		all[name] = value
	}
	return all
}

// frontendOf reports false for a match that is not about one address and port.
func frontendOf(match string) (frontend, bool) {
	if !strings.Contains(match, "tp_dst=") && !strings.Contains(match, registerMask) {
		return frontend{}, false
	}
	fields := fieldsOf(match)
	protocol, port := strings.Clone(fields["protocol"]), fields["tp_dst"] // without the line
	if port == "" {
		protocol, port = inRegister(fields["reg1"])
	}
	address, err := addrPort(fields["nw_dst"]+fields["ipv6_dst"], port)
	return frontend{protocol, address}, err == nil
}

// registerMask ends the match of register 1 in which OVN has protocol and port of a load balancer, from OVN 25.09 on.
const registerMask = "/0xffffff,"

// inRegister gives protocol and port, empty if the register has neither.
func inRegister(value string) (protocol, port string) {
	digits, masked := strings.CutSuffix(value, strings.TrimSuffix(registerMask, ","))
	n, err := strconv.ParseUint(digits, 0, 24)
	if !masked || err != nil {
		return "", ""
	}
	for _, name := range []string{"tcp", "udp", "sctp"} {
		if uint64(numberOf(name)) == n>>16 {
			return name, strconv.FormatUint(n&0xffff, 10)
		}
	}
	return "", ""
}

// match is the address in ovs-ofctl's notation. Versions of OVN match its ports in different ways.
func (f frontend) match() string {
	if f.address.Addr().Is6() {
		return fmt.Sprintf("ipv6,ipv6_dst=%s", f.address.Addr())
	}
	return fmt.Sprintf("ip,nw_dst=%s", f.address.Addr())
}
