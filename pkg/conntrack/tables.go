package conntrack

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// tables is what the flows and groups of br-int say of some connections.
type tables struct {
	// frontends are the addresses that are balanced, each with its groups.
	frontends map[frontend][]uint64
	// servers are those of each group that has not changed meanwhile.
	servers map[uint64]map[netip.AddrPort]bool
	// keys are the logical ports behind OpenFlow ports.
	keys map[int]key
	// ruled are the logical ports with a rule that forbids; the zero key is there
	// when some rule is not of one port.
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

// reader takes from flows and groups, as ovs-ofctl prints them, what concerns some
// connections.
type reader struct {
	tables
	grammar grammar
	// asked are the addresses by which the connections came to their servers,
	// groups are those of them.
	asked  map[frontend]bool
	groups map[uint64]bool
}

func newReader(connections []connection) *reader {
	r := &reader{grammar: newGrammar(), asked: map[frontend]bool{}, groups: map[uint64]bool{}, tables: tables{
		frontends: map[frontend][]uint64{}, servers: map[uint64]map[netip.AddrPort]bool{},
		keys: map[int]key{}, ruled: map[key]bool{},
	}}
	for _, c := range connections {
		if c.balanced() {
			r.asked[frontend{c.protocol, c.orig.dst}] = true
		}
	}
	return r
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
	if id == nil || !r.groups[number(id[1])] {
		return
	}
	servers := map[netip.AddrPort]bool{}
	for _, to := range r.grammar.nat.FindAllStringSubmatch(line, -1) {
		if server, err := netip.ParseAddrPort(to[1]); err == nil {
			servers[server] = true
		}
	}
	r.servers[number(id[1])] = servers
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

// balance takes a flow that is about one address and port. Some of a balanced
// address have a group; an address without servers has none.
func (r *reader) balance(match, actions string) {
	fields := fieldsOf(match)
	address, err := addrPort(fields["nw_dst"]+fields["ipv6_dst"], fields["tp_dst"])
	f := frontend{fields["protocol"], address}
	if err != nil || !r.asked[f] {
		return
	}
	groups := r.frontends[f]
	if id := r.grammar.group.FindStringSubmatch(actions); id != nil {
		groups = append(groups, number(id[1]))
		r.groups[number(id[1])] = true
	}
	r.frontends[f] = groups
}

func (r *reader) port(flow string) {
	g := r.grammar
	in, datapath, port := g.inPort.FindStringSubmatch(flow), g.datapath.FindStringSubmatch(flow), g.logical.FindStringSubmatch(flow)
	if in != nil && datapath != nil && port != nil {
		r.keys[int(number(in[1]))] = key{number(datapath[1]), number(port[1])}
	}
}

// left says that the server of a connection is none any more. Of addresses that
// nobody balances nothing is known, and nothing of groups that are not there: the
// tables may not be complete yet.
func (t tables) left(c connection) bool {
	groups, known := t.frontends[frontend{c.protocol, c.orig.dst}]
	if !known || !c.balanced() {
		return false
	}
	for _, group := range groups {
		if servers, known := t.servers[group]; !known || servers[c.server()] {
			return false
		}
	}
	return true
}

// underRules says that a policy may forbid connections of a port.
func (t tables) underRules(ofPort int) bool {
	k, known := t.keys[ofPort]
	return known && (t.ruled[k] || t.ruled[key{}])
}
