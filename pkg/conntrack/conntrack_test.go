package conntrack

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// What a node of the lab said: a service on 10.96.72.227 with one server, one on
// fd00:10:96::a with two, one without any, and a policy on the port 0x5 of switch 0x4.
const (
	someFlows = `
 cookie=0x6ec, priority=100,in_port=7 actions=load:0x7->NXM_NX_REG13[0..15],set_field:0x1->reg11,set_field:0x6->reg12,set_field:0x4->metadata,set_field:0x5->reg14,load:0->NXM_NX_REG13[16..31],resubmit(,8)
 cookie=0x4b5, priority=100,in_port=8 actions=load:0x13->NXM_NX_REG13[0..15],set_field:0x1->reg11,set_field:0x6->reg12,set_field:0x4->metadata,set_field:0x6->reg14,load:0->NXM_NX_REG13[16..31],resubmit(,8)
 priority=100,in_port=2 actions=move:NXM_NX_TUN_ID[0..23]->OXM_OF_METADATA[0..23],move:NXM_NX_TUN_METADATA0[16..30]->NXM_NX_REG14[0..14],move:NXM_NX_TUN_METADATA0[0..15]->NXM_NX_REG15[0..15],resubmit(,43)
 cookie=0x88f, table=14, priority=120,udp,reg0=0x4/0x4,metadata=0x4,nw_dst=10.96.72.227,tp_dst=80 actions=load:0xa6048e3->NXM_NX_XXREG1[96..127],load:0x50->NXM_NX_XXREG0[32..47],ct(table=15,zone=NXM_NX_REG13[0..15],nat)
 cookie=0x908, table=17, priority=120,ct_state=+new-rel+trk,udp,metadata=0x6,nw_dst=10.96.72.227,tp_dst=80 actions=load:0x1->NXM_NX_REG10[3],group:3
 cookie=0x3d3, table=21, priority=120,ct_state=+new+trk,udp,metadata=0x4,nw_dst=10.96.72.227,tp_dst=80 actions=load:0xa6048e3->NXM_NX_XXREG1[96..127],group:4
 cookie=0x3d4, table=21, priority=120,ct_state=+new+trk,tcp6,metadata=0x4,ipv6_dst=fd00:10:96::a,tp_dst=53 actions=group:5
 cookie=0x3d5, table=21, priority=110,ct_state=+new+trk,tcp,metadata=0x4,nw_dst=10.96.0.9,tp_dst=80 actions=load:0x1->NXM_NX_REG10[2]
 cookie=0x146, table=68, priority=100,ct_mark=0x2/0x2,udp,reg2=0x50/0xffff,reg4=0xa6048e3,nw_src=10.244.1.6,nw_dst=10.244.1.6,tp_dst=8080 actions=load:0x1->NXM_NX_REG10[7]
 cookie=0xe77, table=51, priority=2000,ip,reg0=0x400/0x400,reg8=0x80000000/0xc0000000,reg15=0x5,metadata=0x4 actions=load:0x1->OXM_OF_PKT_REG4[49],ct(commit,zone=NXM_NX_REG13[0..15],nat(src),exec(load:0x1->NXM_NX_CT_MARK[0],load:0->NXM_NX_CT_LABEL[96..127])),resubmit(,52)`
	someGroups = `OFPST_GROUP_DESC reply (OF1.4) (xid=0x2):
 group_id=3,type=select,bucket=weight:100,actions=ct(commit,table=18,zone=NXM_NX_REG11[0..15],nat(dst=10.244.1.6:8080),exec(load:0x1->NXM_NX_CT_MARK[1]))
 group_id=4,type=select,bucket=weight:100,actions=ct(commit,table=22,zone=NXM_NX_REG13[0..15],nat(dst=10.244.1.6:8080),exec(load:0x1->NXM_NX_CT_MARK[1]))
 group_id=5,type=select,bucket=weight:100,actions=ct(commit,nat(dst=[fd00:10:244:1::6]:53)),bucket=weight:100,actions=ct(commit,nat(dst=[fd00:10:244:2::6]:53))`
)

// Connections: of each only what the test is about differs.
const (
	stays       = "udp,orig=(src=10.244.1.7,dst=10.96.72.227,sport=5,dport=80),reply=(src=10.244.1.6,dst=10.244.1.7,sport=8080,dport=5),zone=19,mark=2"
	leaves      = "udp,orig=(src=10.244.1.7,dst=10.96.72.227,sport=6,dport=80),reply=(src=10.244.1.5,dst=10.244.1.7,sport=8080,dport=6),zone=19,mark=2"
	stays6      = "tcp,orig=(src=fd00::7,dst=fd00:10:96::a,sport=7,dport=53),reply=(src=fd00:10:244:2::6,dst=fd00::7,sport=53,dport=7),zone=19,mark=2,protoinfo=(state=ESTABLISHED)"
	leaves6     = "tcp,orig=(src=fd00::7,dst=fd00:10:96::a,sport=8,dport=53),reply=(src=fd00:10:244:2::9,dst=fd00::7,sport=53,dport=8),zone=19,mark=2,protoinfo=(state=ESTABLISHED)"
	lastLeft    = "tcp,orig=(src=10.244.1.7,dst=10.96.0.9,sport=9,dport=80),reply=(src=10.244.1.5,dst=10.244.1.7,sport=8080,dport=9),zone=19"
	missed      = "udp,orig=(src=10.244.1.7,dst=10.96.72.227,sport=4,dport=80),reply=(src=10.96.72.227,dst=10.244.1.7,sport=80,dport=4),zone=19"
	missed6     = "tcp,orig=(src=fd00::7,dst=fd00:10:96::a,sport=4,dport=53),reply=(src=fd00:10:96::a,dst=fd00::7,sport=53,dport=4),zone=19,protoinfo=(state=SYN_SENT)"
	answered6   = "tcp,orig=(src=fd00::7,dst=fd00:10:96::a,sport=5,dport=53),reply=(src=fd00:10:96::a,dst=fd00::7,sport=53,dport=5),zone=19,protoinfo=(state=ESTABLISHED)"
	missedNone  = "udp,orig=(src=10.244.1.7,dst=10.96.0.1,sport=4,dport=80),reply=(src=10.96.0.1,dst=10.244.1.7,sport=80,dport=4),zone=19"
	unknown     = "udp,orig=(src=10.244.1.7,dst=10.96.0.1,sport=9,dport=80),reply=(src=10.244.1.5,dst=10.244.1.7,sport=8080,dport=9),zone=19"
	ofHost      = "udp,orig=(src=10.244.1.7,dst=10.96.72.227,sport=6,dport=80),reply=(src=10.244.1.5,dst=10.244.1.7,sport=8080,dport=6)"
	direct      = "udp,orig=(src=10.244.1.7,dst=10.244.1.6,sport=50000,dport=9000),reply=(src=10.244.1.6,dst=10.244.1.7,sport=9000,dport=50000),zone=7"
	fromFar     = "udp,orig=(src=10.244.2.7,dst=10.244.1.6,sport=50000,dport=9000),reply=(src=10.244.1.6,dst=10.244.2.7,sport=9000,dport=50000),zone=7,mark=0x10"
	blockedOne  = "udp,orig=(src=10.244.2.7,dst=10.244.1.6,sport=50001,dport=9000),reply=(src=10.244.1.6,dst=10.244.2.7,sport=9000,dport=50001),zone=7,mark=1"
	ofClient    = "udp,orig=(src=10.244.1.7,dst=10.244.1.6,sport=50000,dport=9000),reply=(src=10.244.1.6,dst=10.244.1.7,sport=9000,dport=50000),zone=19"
	overTCP     = "tcp,orig=(src=10.244.1.7,dst=10.244.1.6,sport=50000,dport=9000),reply=(src=10.244.1.6,dst=10.244.1.7,sport=9000,dport=50000),zone=7"
	ping        = "icmp,orig=(src=10.244.1.7,dst=10.244.1.6,id=1,type=8,code=0),reply=(src=10.244.1.6,dst=10.244.1.7,id=1,type=0,code=0),zone=7"
	unreadable  = "udp,orig=(src=10.244.1.7,dst=nowhere),zone=7"
	forbiddenBy = "Datapath actions: ct(commit,zone=7,mark=0x1/0x1,label=0/0xffffffff000000000000000000000000,nat(src))"
)

// fake is a node: its connections, and what was done to it.
type fake struct {
	connections []string
	flows       string
	after       string   // flows from the second time on
	groups      []string // one after the other; none: someGroups
	verdict     string
	asked, sent []string
	flushed     []string
	dumped      []string // what flows were asked for
	waits       func()   // called while the datapath follows
	away        bool     // of the database
	err         error
}

func (f *fake) Call(_ context.Context, method string, args ...string) (string, error) {
	switch method {
	case "revalidator/wait":
		if f.waits != nil {
			f.waits()
		}
	case "ofproto/trace":
		f.asked = append(f.asked, args[1])
		return f.verdict, f.err
	case "dpctl/flush-conntrack":
		f.flushed = append(f.flushed, strings.Join(args, " "))
	}
	return "", nil
}

func (f *fake) Lines(_ context.Context, line func(string) error, _ string, _ ...string) error {
	for _, c := range f.connections {
		if err := line(c); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Dump(_ context.Context, _, match string, flow func(string)) error {
	f.dumped = append(f.dumped, match)
	protocol, address, _ := strings.Cut(match, ",")
	for line := range strings.SplitSeq(f.flows, "\n") {
		if match == portsTable && strings.Contains(line, "table=") || address != "" && !strings.Contains(line, protocol+",") || !strings.Contains(line, address) {
			continue
		}
		flow(line)
	}
	if f.after != "" {
		f.flows = f.after
	}
	return nil
}

func (f *fake) Groups(_ context.Context, _, id string, group func(string)) error {
	now := someGroups
	if len(f.groups) > 0 {
		now, f.groups = f.groups[0], f.groups[1:]
	}
	for line := range strings.SplitSeq(now, "\n") {
		if id == "" || strings.Contains(line, "group_id="+id+",") {
			group(line)
		}
	}
	return nil
}

func (f *fake) Bundle(_ context.Context, _ string, messages []string) error {
	f.sent = append(f.sent, messages...)
	return nil
}

func (f *fake) Watch(context.Context, string, func(string) bool, chan<- struct{}) {}

func (f *fake) Table(name string) (rows []any) {
	if f.away {
		return nil
	}
	if name == vswitch.BridgeTable {
		return []any{&vswitch.Bridge{Name: "br-int", ExternalIDs: map[string]string{
			"ct-zone-x_server": "7", "ct-zone-x_client": "19", "ct-zone-GR_n_snat": "0",
		}}}
	}
	number := func(n int) *int { return &n }
	return []any{
		&vswitch.Interface{Name: "ovn-1", Type: "geneve", Ofport: number(2)},
		&vswitch.Interface{Name: "v1", Ofport: number(7), ExternalIDs: map[string]string{
			"iface-id": "x_server", "attached_mac": "0a:58:0a:f4:01:06", "ip_addresses": "10.244.1.6/24,fd00::6/64"}},
		&vswitch.Interface{Name: "v2", Ofport: number(8), ExternalIDs: map[string]string{
			"iface-id": "x_client", "attached_mac": "0a:58:0a:f4:01:07", "ip_addresses": "10.244.1.7/24,fd00::7/64"}},
		&vswitch.Interface{Name: "new", ExternalIDs: map[string]string{"iface-id": "x_new", "ip_addresses": "10.244.1.8/24"}},
	}
}

func (f *fake) pass(t *testing.T) {
	t.Helper()
	f.passTo(t, io.Discard)
}

func (f *fake) passTo(t *testing.T, log io.Writer) {
	t.Helper()
	k := f.keeper(log)
	for line := range strings.SplitSeq(f.flows, "\n") { // all are new
		k.note(line)
	}
	if _, err := k.pass(t.Context()); !errors.Is(err, f.err) {
		t.Fatal(err)
	}
}

func (f *fake) keeper(log io.Writer) *Keeper {
	cfg := Defaults()
	cfg.Logger, cfg.Registerer = slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry()
	return New(cfg, Deps{Switch: f, Flows: f, DB: f})
}

func TestForget_ConnectionsOfRemovedEndpoints(t *testing.T) {
	tests := []struct {
		name, connection string
		flushed          []string
	}{
		{"a server that is one", stays, nil},
		{"a server that is none", leaves, []string{"zone=19 ct_nw_src=10.244.1.7,ct_nw_dst=10.96.72.227,ct_nw_proto=17,ct_tp_src=6,ct_tp_dst=80"}},
		{"one of two servers", stays6, nil},
		{"none of two servers", leaves6, []string{"zone=19 ct_ipv6_src=fd00::7,ct_ipv6_dst=fd00:10:96::a,ct_nw_proto=6,ct_tp_src=8,ct_tp_dst=53"}},
		{"a service without servers", lastLeft, []string{"zone=19 ct_nw_src=10.244.1.7,ct_nw_dst=10.96.0.9,ct_nw_proto=6,ct_tp_src=9,ct_tp_dst=80"}},
		{"no server, from before the address was balanced", missed, []string{"zone=19 ct_nw_src=10.244.1.7,ct_nw_dst=10.96.72.227,ct_nw_proto=17,ct_tp_src=4,ct_tp_dst=80"}},
		{"no server, and its SYN is repeated", missed6, []string{"zone=19 ct_ipv6_src=fd00::7,ct_ipv6_dst=fd00:10:96::a,ct_nw_proto=6,ct_tp_src=4,ct_tp_dst=53"}},
		{"no server of a load balancer's, but it was answered", answered6, nil},
		{"no server, at an address that no load balancer has", missedNone, nil},
		{"an address that nobody balances", unknown, nil},
		{"a zone of the host", ofHost, nil},
		{"not through a service", direct, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{connections: []string{tt.connection}, flows: someFlows}
			f.pass(t)
			if diff := cmp.Diff(tt.flushed, f.flushed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// aboutAll is a rule that is not of one port.
const aboutAll = "\n table=51, priority=2000,conj_id=3,ip,metadata=0x4 actions=load:0x1->OXM_OF_PKT_REG4[49]," + forbids

// many are connections by as many addresses that all tables are read.
func many() (connections []string, flows string) {
	connections, flows = []string{stays, leaves}, someFlows
	for i := range few {
		address := fmt.Sprint("10.97.0.", i)
		connections = append(connections, strings.ReplaceAll(stays, "10.96.72.227", address))
		flows += "\n" + strings.ReplaceAll(balancedFlow, "10.96.72.227", address)
	}
	return connections, flows
}

// TestForget_ChangedGroupsForgetNothing: the groups that flows speak of are taken away, or become
// those of other services, while all tables are read. Nothing is known of their
// servers then.
func TestForget_ChangedGroupsForgetNothing(t *testing.T) {
	others := strings.ReplaceAll(someGroups, "10.244.1.6", "10.244.1.5")
	for name, groups := range map[string][]string{
		"gone before the flows": {"", someGroups},
		"gone after the flows":  {someGroups, ""},
		"others before":         {others, someGroups},
		"others after":          {someGroups, others},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{groups: groups}
			f.connections, f.flows = many()
			f.pass(t)
			if len(f.flushed) > 0 {
				t.Errorf("flushed %q", f.flushed)
			}
		})
	}
}

// TestForget_ChangedGroupsOfOneAddressForgetNothing: the same while one address is asked for.
func TestForget_ChangedGroupsOfOneAddressForgetNothing(t *testing.T) {
	others := strings.ReplaceAll(someGroups, "10.244.1.6", "10.244.1.5")
	for name, f := range map[string]*fake{
		"the groups of others": {groups: []string{others, others}, after: strings.NewReplacer("group:3", "group:8", "group:4", "group:9").Replace(someFlows)},
		"gone":                 {groups: []string{someGroups, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			f.connections, f.flows = []string{stays, leaves}, someFlows
			f.pass(t)
			if len(f.flushed) > 0 {
				t.Errorf("flushed %q", f.flushed)
			}
		})
	}
}

// TestForget_ManyConnectionsNeedOneDump: with nothing in between, all tables say the same as one address'.
func TestForget_ManyConnectionsNeedOneDump(t *testing.T) {
	f := &fake{}
	f.connections, f.flows = many()
	f.pass(t)
	if len(f.flushed) != 1 || !strings.Contains(f.flushed[0], "ct_tp_src=6,") || !slices.Contains(f.dumped, "") {
		t.Errorf("flushed %q, asked for %q", f.flushed, f.dumped)
	}
}

// TestTables_KeepFlowsOfConnectionsOnly: a node has the flows and groups of all services, and what is kept of
// them are those of the connections.
func TestTables_KeepFlowsOfConnectionsOnly(t *testing.T) {
	c, ok := parseConnection(stays)
	if !ok {
		t.Fatal("not read")
	}
	servers := map[frontend]map[netip.AddrPort]bool{c.frontend(): {netip.MustParseAddrPort("10.244.1.6:8080"): true}}
	none := map[frontend]map[netip.AddrPort]bool{}
	keys := map[int]key{7: {4, 5}, 8: {4, 6}}
	one := map[frontend]bool{c.frontend(): true}
	const match = "udp,nw_dst=10.96.72.227,tp_dst=80"
	for name, tt := range map[string]struct {
		what   changes
		want   tables
		dumped []string
	}{
		"an address":                     {changes{frontends: one}, tables{servers, map[int]key{}, map[key]bool{}}, []string{match, match}},
		"a port":                         {changes{ruled: map[key]bool{{4, 6}: true}}, tables{none, keys, map[key]bool{{4, 6}: true}}, []string{portsTable}},
		"a rule that is not of one port": {changes{ruled: map[key]bool{{}: true}}, tables{none, keys, map[key]bool{{4, 5}: true}}, []string{""}},
		"both":                           {changes{one, map[key]bool{{4, 6}: true}}, tables{servers, keys, map[key]bool{{4, 6}: true}}, []string{match, match, portsTable}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{flows: someFlows}
			got, err := f.keeper(io.Discard).tables(t.Context(), tt.what, []connection{c})
			if err != nil {
				t.Fatal(err)
			}
			compare := []cmp.Option{cmp.AllowUnexported(tables{}, frontend{}, key{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })}
			if diff := cmp.Diff(tt.want, got, compare...); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.dumped, f.dumped); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeeper_ChangeWhileWaitingNeedsAnotherPass: the datapath has not followed a change that comes while it
// follows others, and may begin what is ended now again.
func TestKeeper_ChangeWhileWaitingNeedsAnotherPass(t *testing.T) {
	f := &fake{connections: []string{leaves}, flows: someFlows}
	k := f.keeper(io.Discard)
	f.waits = func() { k.note(balancedFlow); f.waits = nil }
	k.note(balancedFlow)
	for want := range 3 {
		want = min(want+1, 2)
		if _, err := k.pass(t.Context()); err != nil || len(f.flushed) != want {
			t.Errorf("%v, flushed %q, want %d", err, f.flushed, want)
		}
	}
}

// TestKeeper_ForgetsNothingWithoutDatabase: it says whose the connections are.
func TestKeeper_ForgetsNothingWithoutDatabase(t *testing.T) {
	f := &fake{connections: []string{leaves}, flows: someFlows, away: true}
	k := f.keeper(io.Discard)
	k.note(balancedFlow)
	if _, err := k.pass(t.Context()); err == nil || len(f.flushed) > 0 {
		t.Errorf("%v, flushed %q", err, f.flushed)
	}
	f.away = false
	if _, err := k.pass(t.Context()); err != nil || len(f.flushed) != 1 {
		t.Errorf("the database is back: %v, flushed %q", err, f.flushed)
	}
}

// TestKeeper_LooksAtChangesOnlyAndRetries: what no change concerns is left alone, and what could not be
// looked at is looked at again.
func TestKeeper_LooksAtChangesOnlyAndRetries(t *testing.T) {
	f := &fake{connections: []string{leaves, direct}, flows: someFlows, verdict: forbiddenBy, err: errors.New("the switch is away")}
	k := f.keeper(io.Discard)
	k.note(strings.ReplaceAll(balancedFlow, "10.96.72.227", "10.96.72.228"))
	if _, err := k.pass(t.Context()); err != nil || len(f.flushed)+len(f.asked) > 0 {
		t.Errorf("another service changed: %v, flushed %q, asked %q", err, f.flushed, f.asked)
	}
	k.note(balancedFlow)
	k.note(ruledFlow)
	for range 2 {
		if _, err := k.pass(t.Context()); err == nil {
			t.Error("no error")
		}
	}
	f.err, f.asked = nil, nil
	if _, err := k.pass(t.Context()); err != nil || len(f.sent) != 2 || len(f.flushed) != 3 {
		t.Errorf("after errors: %v, sent %q, flushed %q", err, f.sent, f.flushed)
	}
	f.asked, f.flushed = nil, nil
	if _, err := k.pass(t.Context()); err != nil || len(f.flushed)+len(f.asked) > 0 {
		t.Errorf("nothing changed: %v, flushed %q, asked %q", err, f.flushed, f.asked)
	}
}

// TestKeeper_LogsOneLinePerServer: a server of DNS that leaves takes thousands of connections along.
func TestKeeper_LogsOneLinePerServer(t *testing.T) {
	for name, f := range map[string]*fake{
		"forgotten": {flows: someFlows, connections: []string{leaves, strings.ReplaceAll(leaves, "port=6", "port=7")}},
		"forbidden": {flows: someFlows, connections: []string{direct, strings.ReplaceAll(direct, "50000", "50009")}, verdict: forbiddenBy},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			f.passTo(t, &log)
			if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "ops=2") {
				t.Errorf("two connections to one server are %d lines:\n%s", n, log.String())
			}
		})
	}
}

func TestForbid_EndsConnectionsThatPolicyDenies(t *testing.T) {
	const near = "udp,in_port=8,dl_src=0a:58:0a:f4:01:07,dl_dst=0a:58:0a:f4:01:06,nw_src=10.244.1.7,nw_dst=10.244.1.6,nw_ttl=64,udp_src=50000,udp_dst=9000"
	const far = "udp,in_port=2,tun_id=0x4,tun_metadata0=0x5,dl_src=02:00:00:00:00:01,dl_dst=0a:58:0a:f4:01:06,nw_src=10.244.2.7,nw_dst=10.244.1.6,nw_ttl=64,udp_src=50000,udp_dst=9000"
	noPolicy := strings.Join(slices.DeleteFunc(strings.Split(someFlows, "\n"), func(flow string) bool { return strings.Contains(flow, forbids) }), "\n")
	tests := []struct {
		name, connection, flows, verdict string
		asked                            []string
		sent                             int
	}{
		{"of a pod on the node", direct, someFlows, forbiddenBy, []string{near}, 2},
		{"of a pod on another node", fromFar, someFlows, forbiddenBy, []string{far}, 2},
		{"allowed", direct, someFlows, "Datapath actions: 7", []string{near}, 0},
		{"forbidden in another zone", direct, someFlows, strings.Replace(forbiddenBy, "zone=7", "zone=77", 1), []string{near}, 0},
		{"forbidden already", blockedOne, someFlows, forbiddenBy, nil, 0},
		{"no policy about the pod", ofClient, someFlows, forbiddenBy, nil, 0},
		{"no policy", direct, noPolicy, forbiddenBy, nil, 0},
		{"a rule about several pods", direct, noPolicy + aboutAll, forbiddenBy, []string{near}, 2},
		{"TCP", overTCP, someFlows, forbiddenBy, nil, 0},
		{"ICMP", ping, someFlows, forbiddenBy, nil, 0},
		{"not to be read", unreadable, someFlows, forbiddenBy, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{connections: []string{tt.connection}, flows: tt.flows, verdict: tt.verdict}
			f.pass(t)
			if diff := cmp.Diff(tt.asked, f.asked); diff != "" {
				t.Error(diff)
			}
			if len(f.sent) != tt.sent || len(f.flushed) > 0 {
				t.Errorf("sent %q, want %d; flushed %q", f.sent, tt.sent, f.flushed)
			}
		})
	}
}

// Lines of a monitor, from a node of the lab.
const (
	podFlow      = " event=ADDED table=80 cookie=0x1df82cfa reg14=0x5,metadata=0x6 actions=load:0x1->NXM_NX_REG11[],load:0x5->NXM_NX_REG12[],resubmit(,8)"
	dhcpFlow     = " event=ADDED table=73 cookie=0x1df82cfa udp,reg14=0x5,metadata=0x6,dl_src=0a:58:0a:f4:01:06,nw_src=0.0.0.0,nw_dst=255.255.255.255,tp_src=68,tp_dst=67 actions=load:0->NXM_NX_REG10[12]"
	balancedFlow = " event=DELETED reason=delete table=17 cookie=0x5ad6e1b1 ct_state=+new-rel+trk,udp,metadata=0x8,nw_dst=10.96.72.227,tp_dst=80 actions=load:0x1->NXM_NX_REG10[3],group:3"
	refusedFlow  = " event=ADDED table=21 cookie=0x3d5 ct_state=+new+trk,tcp,metadata=0x4,nw_dst=10.96.0.9,tp_dst=80 actions=load:0x1->NXM_NX_REG10[2]"
	hairpinFlow  = " event=ADDED table=68 cookie=0x146 ct_mark=0x2/0x2,udp,reg2=0x50/0xffff,reg4=0xa6048e3,nw_src=10.244.1.6,nw_dst=10.244.1.6,tp_dst=8080 actions=load:0x1->NXM_NX_REG10[7]"
	ruledFlow    = " event=ADDED table=51 cookie=0x5dde4992 reg0=0x200/0x200,reg8=0x80000000/0xc0000000,reg15=0x5,metadata=0x4 actions=load:0x1->OXM_OF_PKT_REG4[49],resubmit(,52)"
	allowingFlow = " event=DELETED reason=delete table=51 cookie=0xf1ece947 udp,reg0=0x100/0x100,reg15=0x6,metadata=0x6,nw_src=10.1.0.0/16,tp_dst=80 actions=load:0x1->OXM_OF_PKT_REG4[48],resubmit(,52)"
	partFlow     = " event=DELETED reason=delete table=51 cookie=0 udp,reg0=0x100/0x100,reg8=0x80000000/0xc0000000,metadata=0x6,nw_src=10.2.0.0/16 actions=conjunction(863439918,1/2)"
)

func TestNote_RecordsChangedServicesAndPolicies(t *testing.T) {
	of := func(protocol, address string) map[frontend]bool {
		return map[frontend]bool{{protocol, netip.MustParseAddrPort(address)}: true}
	}
	for name, tt := range map[string]struct {
		flow  string
		wakes bool
		want  changes
	}{
		"a pod":                         {podFlow, false, changes{}},
		"DHCP of a pod":                 {dhcpFlow, false, changes{}},
		"a service":                     {balancedFlow, true, changes{frontends: of("udp", "10.96.72.227:80")}},
		"a service without endpoints":   {refusedFlow, true, changes{frontends: of("tcp", "10.96.0.9:80")}},
		"endpoints that ask themselves": {hairpinFlow, false, changes{}},
		"a policy":                      {ruledFlow, true, changes{ruled: map[key]bool{{4, 5}: true}}},
		"a policy's allowed traffic":    {allowingFlow, true, changes{ruled: map[key]bool{{6, 6}: true}}},
		"part of a rule of many ports":  {partFlow, true, changes{ruled: map[key]bool{{}: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			k := (&fake{}).keeper(io.Discard)
			if wakes := k.note(tt.flow); wakes != tt.wakes {
				t.Errorf("wakes: %t", wakes)
			}
			compare := []cmp.Option{cmp.AllowUnexported(changes{}, frontend{}, key{}), cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })}
			if diff := cmp.Diff(tt.want, k.take(), compare...); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestForbid_AsksOncePerClientAndServer: connections of a client to a server have one answer.
func TestForbid_AsksOncePerClientAndServer(t *testing.T) {
	other := strings.ReplaceAll(direct, "50000", "50009")
	f := &fake{connections: []string{direct, other}, flows: someFlows, verdict: forbiddenBy}
	f.pass(t)
	if len(f.asked) != 1 || len(f.sent) != 4 {
		t.Errorf("asked %q, sent %q", f.asked, f.sent)
	}
}

func TestForbid_SendsNothingAfterError(t *testing.T) {
	f := &fake{connections: []string{direct}, flows: someFlows, verdict: forbiddenBy, err: errors.New("bad flow")}
	f.pass(t)
	if len(f.sent) > 0 {
		t.Errorf("sent %q", f.sent)
	}
}

func TestForbidding_CommitsBlockedMarkInBothDirections(t *testing.T) {
	c, ok := parseConnection(strings.Replace(leaves, "mark=2", "mark=0x2", 1))
	if !ok {
		t.Fatal("not read")
	}
	got := forbidding(c)
	want := []string{
		",actions=ct(zone=19),ct(commit,force,zone=19,exec(set_field:0x3->ct_mark))",
		",actions=ct(zone=19),ct(commit,force,zone=19,nat(dst=10.244.1.5:8080),exec(set_field:0x3->ct_mark))",
	}
	for i := range want {
		if !strings.HasSuffix(got[i], want[i]) {
			t.Errorf("%s\nwants %s", got[i], want[i])
		}
	}
}

// TestFrame_HasValidChecksums: the checksums were computed by another program.
func TestFrame_HasValidChecksums(t *testing.T) {
	for _, tt := range []struct{ src, dst, want string }{
		{"10.244.1.7:50000", "10.244.1.6:8080", "0000000000000000000000000800" + "4500001c00000000401162dd0af401070af40106" + "c3501f9000080509"},
		{"[fd00::7]:50000", "[fd00::6]:8080", "00000000000000000000000086dd" + "6000000000081140" + "fd000000000000000000000000000007" + "fd000000000000000000000000000006" + "c3501f90000822ef"},
	} {
		got := hex.EncodeToString(frame(tuple{netip.MustParseAddrPort(tt.src), netip.MustParseAddrPort(tt.dst)}))
		if got != tt.want {
			t.Errorf("%s to %s:\n%s, want\n%s", tt.src, tt.dst, got, tt.want)
		}
	}
}

func FuzzParseConnection(f *testing.F) {
	for _, line := range []string{stays, leaves6, ofHost, ping, unreadable} {
		f.Add(line)
	}
	f.Fuzz(func(_ *testing.T, line string) {
		if c, ok := parseConnection(line); ok {
			_, _ = forbidding(c), c.pattern()
		}
	})
}
