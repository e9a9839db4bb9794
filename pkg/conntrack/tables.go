package conntrack

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// tables is what the flows and groups of br-int say of some connections.
type tables struct {
	// servers are those of addresses that are balanced. Those of which a group was
	// not there, or has changed meanwhile, are left out.
	servers map[frontend]map[netip.AddrPort]bool
	// keys are the logical ports behind OpenFlow ports.
	keys map[int]key
	// ruled are the logical ports that connections are asked about: those with a rule
	// that forbids, or those whose rules have changed. The zero key is there when some
	// rule is not of one port.
	ruled map[key]bool
}

// frontend is a balanced address.
type frontend struct {
	protocol string
	address  netip.AddrPort
}

// key is a logical port: its datapath's number and its own there.
type key struct{ datapath, port uint64 }

// forbids is the action by which OVN marks what a policy forbids.
const forbids = "load:0x1->NXM_NX_CT_MARK[0]"

// verdict begins the bits in which OVN keeps what a rule has decided.
const verdict = "->OXM_OF_PKT_REG4[4"

// portsTable is where a packet from a port becomes one of a logical port.
const portsTable = "table=0"

// The regular expressions are of ovs-ofctl's notation, which the OVS beside us prints.
type grammar struct{ inPort, datapath, logical, group, nat *regexp.Regexp }

func newGrammar() grammar {
	return grammar{
		inPort:   regexp.MustCompile(`\bin_port=(\d+) actions=`),
		datapath: regexp.MustCompile(`set_field:(0x[0-9a-f]+)->metadata`),
		logical:  regexp.MustCompile(`set_field:(0x[0-9a-f]+)->reg14`),
		group:    regexp.MustCompile(`\bgroup(?:_id=|:)(\d+)`),
		nat:      regexp.MustCompile(`nat\(dst=([^)]+)\)`),
	}
}

// reader takes from flows and groups, as ovs-ofctl prints them, what concerns the
// addresses that were asked for, and all ports.
type reader struct {
	grammar grammar
	asked   map[frontend]bool
	// frontends are those of asked that are balanced, each with its groups; one
	// without servers has none.
	frontends map[frontend]map[uint64]bool
	// groups are theirs, each with its servers, nil before it was read.
	groups map[uint64]map[netip.AddrPort]bool
	keys   map[int]key
	ruled  map[key]bool
}

func (g grammar) reader(asked map[frontend]bool) *reader {
	return &reader{
		grammar: g, asked: asked, frontends: map[frontend]map[uint64]bool{},
		groups: map[uint64]map[netip.AddrPort]bool{}, keys: map[int]key{}, ruled: map[key]bool{},
	}
}

func (r *reader) flow(flow string) {
	match, actions, _ := strings.Cut(flow, " actions=")
	switch {
	case strings.Contains(actions, forbids):
		r.ruled[ruleOf(match)] = true
	case strings.Contains(match, "tp_dst="):
		r.balance(match, actions)
	case strings.Contains(actions, "->reg14"):
		r.port(flow)
	}
}

// group is to be called after all flows.
func (r *reader) group(line string) {
	id := r.grammar.group.FindStringSubmatch(line)
	if id == nil {
		return
	}
	group := number(id[1])
	if _, ours := r.groups[group]; !ours {
		return
	}
	servers := map[netip.AddrPort]bool{}
	for _, to := range r.grammar.nat.FindAllStringSubmatch(line, -1) {
		if server, err := netip.ParseAddrPort(to[1]); err == nil {
			servers[server] = true
		}
	}
	r.groups[group] = servers
}

func (r *reader) tables() tables {
	t := tables{servers: map[frontend]map[netip.AddrPort]bool{}, keys: r.keys, ruled: r.ruled}
	for f, groups := range r.frontends {
		all, known := map[netip.AddrPort]bool{}, true
		for group := range groups {
			maps.Copy(all, r.groups[group])
			known = known && r.groups[group] != nil
		}
		if known {
			t.servers[f] = all
		}
	}
	return t
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

// ruleOf gives the port that a rule is of; the zero key if it is of several.
func ruleOf(match string) key {
	fields := fieldsOf(match)
	datapath, port := fields["metadata"], fields["reg14"]+fields["reg15"] // one of them
	if datapath == "" || port == "" {
		return key{}
	}
	return key{number(datapath), number(port)}
}

func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 0, 64) // 0 is nobody's
	return n
}

// frontendOf reports false for a match that is not about one address and port.
func frontendOf(match string) (frontend, bool) {
	if !strings.Contains(match, "tp_dst=") {
		return frontend{}, false
	}
	fields := fieldsOf(match)
	address, err := addrPort(fields["nw_dst"]+fields["ipv6_dst"], fields["tp_dst"])
	return frontend{strings.Clone(fields["protocol"]), address}, err == nil // without the line
}

// match is the address and port in ovs-ofctl's notation.
func (f frontend) match() string {
	if f.address.Addr().Is6() {
		return fmt.Sprintf("%s6,ipv6_dst=%s,tp_dst=%d", f.protocol, f.address.Addr(), f.address.Port())
	}
	return fmt.Sprintf("%s,nw_dst=%s,tp_dst=%d", f.protocol, f.address.Addr(), f.address.Port())
}

// balance takes a flow that is about one address and port. Some of a balanced
// address have a group; an address without servers has none.
func (r *reader) balance(match, actions string) {
	f, ok := frontendOf(match)
	if !ok || !r.asked[f] {
		return
	}
	if r.frontends[f] == nil {
		r.frontends[f] = map[uint64]bool{}
	}
	if id := r.grammar.group.FindStringSubmatch(actions); id != nil {
		r.frontends[f][number(id[1])] = true
		r.groups[number(id[1])] = nil
	}
}

func (r *reader) port(flow string) {
	g := r.grammar
	in, datapath, port := g.inPort.FindStringSubmatch(flow), g.datapath.FindStringSubmatch(flow), g.logical.FindStringSubmatch(flow)
	if in != nil && datapath != nil && port != nil {
		r.keys[int(number(in[1]))] = key{number(datapath[1]), number(port[1])}
	}
}

// left says that the server of a connection is none any more, or that it has none
// because its address was not balanced when it began. Of addresses that no load balancer has
// nothing is known, nor while the tables are not complete.
func (t tables) left(c connection) bool {
	servers, known := t.servers[c.frontend()]
	return known && (c.balanced() || c.missed()) && !servers[c.server()]
}

// underRules says that a policy may forbid connections of a port.
func (t tables) underRules(ofPort int) bool {
	k, known := t.keys[ofPort]
	return known && (t.ruled[k] || t.ruled[key{}])
}
