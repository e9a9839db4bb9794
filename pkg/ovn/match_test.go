package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
)

// packet is what a match looks at.
type packet struct {
	src, dst        netip.Addr
	protocol        string // tcp, udp, sctp
	port            int
	inport, outport string
}

// rules is the part of a Northbound database that decides about packets.
type rules struct {
	groups map[string][]string // ports by group
	sets   map[string][]string // addresses by set
	on     map[string]string   // switches by port
	acls   []rule
}

// rule is an ACL of one switch, or with "" of all.
type rule struct {
	*nb.ACL
	on string
}

// allows evaluates both directions tier by tier, as ovn-nb(5) says.
func (r *rules) allows(p packet) bool {
	return r.direction(nb.ACLDirectionFromLport, r.on[p.inport], p) && r.direction(nb.ACLDirectionToLport, r.on[p.outport], p)
}

func (r *rules) direction(direction, on string, p packet) bool {
	for tier := 0; tier <= 3; tier++ {
		var best *rule
		for i := range r.acls {
			acl := &r.acls[i]
			if acl.on != "" && acl.on != on {
				continue
			}
			if acl.Direction != direction || acl.Tier != tier || best != nil && best.Priority >= acl.Priority {
				continue
			}
			if r.match(acl.Match, p) {
				best = acl
			}
		}
		if best != nil && best.Action != nb.ACLActionPass {
			return best.Action != nb.ACLActionDrop
		}
	}
	return true
}

// matcher evaluates an expression of OVN, as far as rules use the language.
type matcher struct {
	*rules
	packet
	tokens []string
}

func (r *rules) match(expression string, p packet) bool {
	spaced := expression
	for _, c := range []string{"(", ")", "{", "}", ","} {
		spaced = strings.ReplaceAll(spaced, c, " "+c+" ")
	}
	m := &matcher{rules: r, packet: p, tokens: strings.Fields(spaced)}
	result := m.or()
	if len(m.tokens) > 0 {
		panic(fmt.Sprintf("match %q: %q is left over", expression, m.tokens))
	}
	return result
}

func (m *matcher) next() string {
	token := m.tokens[0]
	m.tokens = m.tokens[1:]
	return token
}

func (m *matcher) peek() string {
	if len(m.tokens) == 0 {
		return ""
	}
	return m.tokens[0]
}

// or reads terms joined by one operator: OVN refuses a mixture.
func (m *matcher) or() bool {
	result, operator := m.term(), m.peek()
	for m.peek() == "&&" || m.peek() == "||" {
		if m.next() != operator {
			panic("&& and || without parentheses")
		}
		term := m.term()
		if operator == "&&" {
			result = result && term
		} else {
			result = result || term
		}
	}
	return result
}

func (m *matcher) term() bool {
	token := m.next()
	switch {
	case token == "(":
		result := m.or()
		if m.next() != ")" {
			panic("no closing parenthesis")
		}
		return result
	case token == "0" || token == "1":
		return token == "1"
	case token == "ip":
		return true
	case token == "arp" || strings.HasPrefix(token, "nd"):
		return false
	case token == "tcp" || token == "udp" || token == "sctp":
		return m.protocol == token
	case token[0] >= '0' && token[0] <= '9':
		return m.between(token)
	}
	if m.next() != "==" {
		panic("no == after " + token)
	}
	return slices.ContainsFunc(m.values(), func(value string) bool { return m.equals(token, value) })
}

// between reads "N <= FIELD <= N".
func (m *matcher) between(first string) bool {
	m.next()
	field := m.next()
	m.next()
	low, _ := strconv.Atoi(first)
	high, _ := strconv.Atoi(m.next())
	return m.protocol+".dst" == field && low <= m.port && m.port <= high
}

func (m *matcher) values() []string {
	value := m.next()
	if value != "{" {
		return []string{value}
	}
	var all []string
	for token := m.next(); token != "}"; token = m.next() {
		if token != "," {
			all = append(all, token)
		}
	}
	return all
}

func (m *matcher) equals(field, value string) bool {
	switch field {
	case "inport", "outport":
		ports, ok := m.groups[strings.TrimPrefix(value, "@")]
		if !ok {
			panic("no port group " + value)
		}
		return slices.Contains(ports, map[string]string{"inport": m.inport, "outport": m.outport}[field])
	case "ip4.src", "ip6.src":
		return m.contains(value, field, m.src)
	case "ip4.dst", "ip6.dst":
		return m.contains(value, field, m.dst)
	}
	return m.protocol+".dst" == field && value == strconv.Itoa(m.port)
}

func (m *matcher) contains(value, field string, addr netip.Addr) bool {
	if addr.Is4() != strings.HasPrefix(field, "ip4") {
		return false
	}
	if name, isSet := strings.CutPrefix(value, "$"); isSet {
		addresses, ok := m.sets[name]
		if !ok {
			panic("no address set " + name)
		}
		return slices.Contains(addresses, addr.String())
	}
	if prefix, err := netip.ParsePrefix(value); err == nil {
		return prefix.Contains(addr)
	}
	if first, mask, masked := strings.Cut(value, "/"); masked {
		a, b, m := addr.AsSlice(), netip.MustParseAddr(first).AsSlice(), netip.MustParseAddr(mask).AsSlice()
		return equalUnder(a, b, m)
	}
	return netip.MustParseAddr(value) == addr
}

func equalUnder(a, b, mask []byte) bool {
	for i := range mask {
		if a[i]&mask[i] != b[i]&mask[i] {
			return false
		}
	}
	return true
}
