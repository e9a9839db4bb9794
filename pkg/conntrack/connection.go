package conntrack

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// connection is an entry of connection tracking, as dpctl/dump-conntrack prints it.
type connection struct {
	protocol string
	zone     int
	// unanswered is said of TCP only.
	unanswered  bool
	orig, reply tuple
}

// tuple is one direction, from a source to a destination.
type tuple struct{ src, dst netip.AddrPort }

// numberOf is IP's of a protocol that has ports, and 0 of others.
func numberOf(protocol string) int {
	switch protocol {
	case "tcp":
		return 6
	case "udp":
		return 17
	case "sctp":
		return 132
	}
	return 0
}

// balanced says that a load balancer gave the connection its server.
func (c connection) balanced() bool { return c.reply.src != c.orig.dst }

// missed says that no load balancer gave the connection a server, and that no server may
// have answered yet: of UDP conntrack does not say. As long as it has such an entry, no
// load balancer can give it one.
func (c connection) missed() bool {
	return !c.balanced() && (c.protocol == "udp" || c.unanswered)
}

// frontend is the address and port that the client sent to.
func (c connection) frontend() frontend { return frontend{c.protocol, c.orig.dst} }

// server is who answers.
func (c connection) server() netip.AddrPort { return c.reply.src }

// parseConnection reports false for lines without ports.
func parseConnection(line string) (c connection, ok bool) {
	protocol, rest, _ := strings.Cut(strings.TrimSpace(line), ",")
	if numberOf(protocol) == 0 {
		return c, false
	}
	c.protocol = strings.Clone(protocol) // without the line, of which there may be many
	for rest != "" {
		var field string
		field, rest = cutField(rest)
		key, value, _ := strings.Cut(field, "=")
		var err error
		switch key {
		case "orig":
			c.orig, err = parseTuple(value)
		case "reply":
			c.reply, err = parseTuple(value)
		case "zone":
			c.zone, err = strconv.Atoi(value)
		case "protoinfo":
			c.unanswered = value == "(state=SYN_SENT)"
		}
		if err != nil {
			return c, false
		}
	}
	return c, c.orig.src.IsValid() && c.reply.src.IsValid()
}

// cutField cuts at the first comma outside parentheses.
func cutField(text string) (field, rest string) {
	depth := 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

func parseTuple(text string) (t tuple, err error) {
	values := map[string]string{}
	for field := range strings.SplitSeq(strings.Trim(text, "()"), ",") {
		key, value, _ := strings.Cut(field, "=")
		values[key] = value
	}
	if t.src, err = addrPort(values["src"], values["sport"]); err != nil {
		return t, err
	}
	t.dst, err = addrPort(values["dst"], values["dport"])
	return t, err
}

func addrPort(address, port string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return netip.AddrPortFrom(addr, uint16(number)), err
}

// pattern is the entry as dpctl/flush-conntrack takes it.
func (c connection) pattern() string {
	family := "ct_nw"
	if c.orig.src.Addr().Is6() {
		family = "ct_ipv6"
	}
	return fmt.Sprintf("%s_src=%s,%s_dst=%s,ct_nw_proto=%d,ct_tp_src=%d,ct_tp_dst=%d", family, c.orig.src.Addr(),
		family, c.orig.dst.Addr(), numberOf(c.protocol), c.orig.src.Port(), c.orig.dst.Port())
}
