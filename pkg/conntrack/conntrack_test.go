package conntrack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// What a node of the lab said: a service on 10.96.72.227 with one server, one on
// fd00:10:96::a with two, one without any, ports of pods and a rule of a policy.
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
	// the services in OVN 26.03, which has protocol and port in a register
	laterFlows = `
 cookie=0x88f, table=15, priority=120,udp,reg0=0x4/0x4,metadata=0x4,nw_dst=10.96.72.227,tp_dst=80 actions=load:0xa6048e3->NXM_NX_XXREG1[96..127],load:0x50->NXM_NX_XXREG0[32..47],ct(table=16,zone=NXM_NX_REG13[0..15],nat)
 cookie=0x908, table=18, priority=120,ct_state=+new-rel+trk,ip,reg1=0x110050/0xffffff,metadata=0xa,nw_dst=10.96.72.227 actions=load:0x1->NXM_NX_REG10[3],group:3
 cookie=0x3d3, table=23, priority=120,ct_state=+new+trk,ip,reg1=0x110050/0xffffff,metadata=0x4,nw_dst=10.96.72.227 actions=load:0xa6048e3->NXM_NX_XXREG1[96..127],load:0x50->NXM_NX_XXREG0[32..47],group:4
 cookie=0x3d4, table=23, priority=120,ct_state=+new+trk,ipv6,reg1=0x60035/0xffffff,metadata=0x4,ipv6_dst=fd00:10:96::a actions=group:5
 cookie=0x3d5, table=23, priority=120,ct_state=+new+trk,ip,reg1=0x60050/0xffffff,metadata=0x4,nw_dst=10.96.0.9 actions=load:0->NXM_NX_XXREG0[96..127],controller(userdata=00.00.00.16)
 cookie=0x3d6, table=23, priority=120,ct_state=+new+trk,ip,reg1=0x840050/0xffffff,metadata=0x4,nw_dst=10.96.0.1 actions=load:0x1->NXM_NX_REG10[2]
 cookie=0x3d7, table=23, priority=110,ct_state=+new+trk,ip,metadata=0x4,nw_dst=10.96.0.1 actions=load:0x1->NXM_NX_REG10[2]`
	someGroups = `OFPST_GROUP_DESC reply (OF1.4) (xid=0x2):
 group_id=3,type=select,bucket=weight:100,actions=ct(commit,table=18,zone=NXM_NX_REG11[0..15],nat(dst=10.244.1.6:8080),exec(load:0x1->NXM_NX_CT_MARK[1]))
 group_id=4,type=select,bucket=weight:100,actions=ct(commit,table=22,zone=NXM_NX_REG13[0..15],nat(dst=10.244.1.6:8080),exec(load:0x1->NXM_NX_CT_MARK[1]))
 group_id=5,type=select,bucket=weight:100,actions=ct(commit,nat(dst=[fd00:10:244:1::6]:53)),bucket=weight:100,actions=ct(commit,nat(dst=[fd00:10:244:2::6]:53))`
)

// Connections: of each only what the test is about differs.
const (
	stays      = "udp,orig=(src=10.244.1.7,dst=10.96.72.227,sport=5,dport=80),reply=(src=10.244.1.6,dst=10.244.1.7,sport=8080,dport=5),zone=19,mark=2"
	leaves     = "udp,orig=(src=10.244.1.7,dst=10.96.72.227,sport=6,dport=80),reply=(src=10.244.1.5,dst=10.244.1.7,sport=8080,dport=6),zone=19,mark=2"
	stays6     = "tcp,orig=(src=fd00::7,dst=fd00:10:96::a,sport=7,dport=53),reply=(src=fd00:10:244:2::6,dst=fd00::7,sport=53,dport=7),zone=19,mark=2,protoinfo=(state=ESTABLISHED)"
	leaves6    = "tcp,orig=(src=fd00::7,dst=fd00:10:96::a,sport=8,dport=53),reply=(src=fd00:10:244:2::9,dst=fd00::7,sport=53,dport=8),zone=19,mark=2,protoinfo=(state=ESTABLISHED)"
	lastLeft   = "tcp,orig=(src=10.244.1.7,dst=10.96.0.9,sport=9,dport=80),reply=(src=10.244.1.5,dst=10.244.1.7,sport=8080,dport=9),zone=19"
	missed     = "udp,orig=(src=10.244.1.7,dst=10.96.72.227,sport=4,dport=80),reply=(src=10.96.72.227,dst=10.244.1.7,sport=80,dport=4),zone=19"
	missed6    = "tcp,orig=(src=fd00::7,dst=fd00:10:96::a,sport=4,dport=53),reply=(src=fd00:10:96::a,dst=fd00::7,sport=53,dport=4),zone=19,protoinfo=(state=SYN_SENT)"
	answered6  = "tcp,orig=(src=fd00::7,dst=fd00:10:96::a,sport=5,dport=53),reply=(src=fd00:10:96::a,dst=fd00::7,sport=53,dport=5),zone=19,protoinfo=(state=ESTABLISHED)"
	missedNone = "udp,orig=(src=10.244.1.7,dst=10.96.0.1,sport=4,dport=80),reply=(src=10.96.0.1,dst=10.244.1.7,sport=80,dport=4),zone=19"
	unknown    = "udp,orig=(src=10.244.1.7,dst=10.96.0.1,sport=9,dport=80),reply=(src=10.244.1.5,dst=10.244.1.7,sport=8080,dport=9),zone=19"
	ofHost     = "udp,orig=(src=10.244.1.7,dst=10.96.72.227,sport=6,dport=80),reply=(src=10.244.1.5,dst=10.244.1.7,sport=8080,dport=6)"
	direct     = "udp,orig=(src=10.244.1.7,dst=10.244.1.6,sport=50000,dport=9000),reply=(src=10.244.1.6,dst=10.244.1.7,sport=9000,dport=50000),zone=7"
	ping       = "icmp,orig=(src=10.244.1.7,dst=10.244.1.6,id=1,type=8,code=0),reply=(src=10.244.1.6,dst=10.244.1.7,id=1,type=0,code=0),zone=7"
	unreadable = "udp,orig=(src=10.244.1.7,dst=nowhere),zone=7"
)

// fake is a node: its connections, and what was done to it.
type fake struct {
	connections []string
	flows       string
	after       string   // flows from the second time on
	groups      []string // one after the other; none: someGroups
	flushed     []string
	dumped      []string // what flows were asked for
	watched     []string // flows that change
	waits       func()   // called while the datapath follows
	away        bool     // of the database
	empty       bool     // the bridge has no flows yet
	err         error
}

func (f *fake) Call(_ context.Context, method string, args ...string) (string, error) {
	switch method {
	case "revalidator/wait":
		if f.waits != nil {
			f.waits()
		}
	case "dpctl/flush-conntrack":
		f.flushed = append(f.flushed, strings.Join(args, " "))
		return "", f.err
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
	if match == "table=0" {
		if !f.empty {
			flow("priority=0 actions=drop")
		}
		return nil
	}
	f.dumped = append(f.dumped, match)
	_, address, _ := strings.Cut(match, ",")
	for line := range strings.SplitSeq(f.flows, "\n") {
		if strings.Contains(line, address) {
			flow(line)
		}
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

func (f *fake) Watch(_ context.Context, _ string, changed func(string)) {
	for _, flow := range f.watched {
		changed(flow)
	}
}

func (f *fake) Table(name string) (rows []any) {
	if f.away {
		return nil
	}
	if name == vswitch.BridgeTable {
		return []any{&vswitch.Bridge{Name: "br-int", ExternalIDs: map[string]string{
			"ct-zone-x_server": "7", "ct-zone-x_client": "19", "ct-zone-GR_n_snat": "0",
		}}}
	}
	return nil
}

func (f *fake) pass(t *testing.T) {
	t.Helper()
	f.passTo(t, io.Discard)
}

func (f *fake) passTo(t *testing.T, log io.Writer) {
	t.Helper()
	r := f.reconciler(log)
	for line := range strings.SplitSeq(f.flows, "\n") { // all are new
		r.note(line)
	}
	if err := r.pass(t.Context()); !errors.Is(err, f.err) {
		t.Fatal(err)
	}
}

func (f *fake) reconciler(log io.Writer) *Reconciler {
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
		{"an address without a load balancer", unknown, []string{"zone=19 ct_nw_src=10.244.1.7,ct_nw_dst=10.96.0.1,ct_nw_proto=17,ct_tp_src=9,ct_tp_dst=80"}},
		{"a zone of the host", ofHost, nil},
		{"not through a service", direct, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for version, flows := range map[string]string{"25.03": someFlows, "26.03": laterFlows} {
				f := &fake{connections: []string{tt.connection}, flows: flows}
				f.pass(t)
				if diff := cmp.Diff(tt.flushed, f.flushed); diff != "" {
					t.Errorf("OVN %s: %s", version, diff)
				}
			}
		})
	}
}

// TestForget_ConnectionsOfRemovedLoadBalancers: those that a load balancer made which is gone end, of UDP and TCP,
// when its flows go and when the agent starts; what has no NAT stays, and so does everything while the bridge is empty.
func TestForget_ConnectionsOfRemovedLoadBalancers(t *testing.T) {
	const goneFlow = " event=DELETED reason=delete table=17 cookie=0x5ad6e1b1 ct_state=+new-rel+trk,udp,metadata=0x8,nw_dst=10.96.0.1,tp_dst=80 actions=load:0x1->NXM_NX_REG10[3],group:7"
	others := []string{stays, unknown, missedNone, direct, ofHost}
	const flushed = "zone=19 ct_nw_src=10.244.1.7,ct_nw_dst=10.96.0.1,ct_nw_proto=17,ct_tp_src=9,ct_tp_dst=80"
	for name, c := range map[string]struct {
		connections []string
		flow        string
		looked      bool
		want        []string
	}{
		"its flow has gone":                    {others, goneFlow, true, []string{flushed}},
		"one of TCP":                           {[]string{tcpOf(unknown)}, strings.ReplaceAll(goneFlow, "udp", "tcp"), true, []string{strings.ReplaceAll(flushed, "proto=17", "proto=6")}},
		"another one's flow has gone":          {others, strings.ReplaceAll(goneFlow, "10.96.0.1", "10.96.0.2"), true, nil},
		"it went before the agent started":     {others, balancedFlow, false, []string{flushed}},
		"it went, and the agent does not know": {others, balancedFlow, true, nil},
	} {
		f := &fake{connections: c.connections, flows: someFlows, empty: true}
		r := f.reconciler(io.Discard)
		r.looked = c.looked
		r.note(c.flow)
		if err := r.pass(t.Context()); len(f.flushed) > 0 || (err == nil) != (c.flow != balancedFlow && c.want == nil) {
			t.Errorf("%s, no flows yet: %v, flushed %q", name, err, f.flushed)
		}
		f.empty = false
		for range 2 {
			if err := r.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(c.want, f.flushed); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// tcpOf is the same connection of TCP.
func tcpOf(udp string) string {
	return strings.Replace(udp, "udp,", "tcp,", 1) + ",protoinfo=(state=ESTABLISHED)"
}

// TestForget_ManyRemovedLoadBalancers: what is gone ends also when all tables are read.
func TestForget_ManyRemovedLoadBalancers(t *testing.T) {
	f := &fake{}
	f.connections, f.flows = many()
	f.connections = append(f.connections, unknown)
	f.pass(t)
	if len(f.flushed) != 2 || !strings.Contains(strings.Join(f.flushed, " "), "ct_nw_dst=10.96.0.1,") {
		t.Errorf("flushed %q", f.flushed)
	}
}

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

// TestServers_AreThoseOfConnectionsOnly: a node has the flows and groups of all services, and what is kept of
// them are those of the connections.
func TestServers_AreThoseOfConnectionsOnly(t *testing.T) {
	c, ok := parseConnection(stays)
	if !ok {
		t.Fatal("not read")
	}
	f := &fake{flows: someFlows}
	got, err := f.reconciler(io.Discard).servers(t.Context(), []connection{c})
	if err != nil {
		t.Fatal(err)
	}
	want := servers{c.frontend(): {netip.MustParseAddrPort("10.244.1.6:8080"): true}}
	if diff := cmp.Diff(want, got, compare...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	const match = "ip,nw_dst=10.96.72.227"
	if diff := cmp.Diff([]string{match, match}, f.dumped); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

var compare = []cmp.Option{cmp.AllowUnexported(frontend{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })}

// TestReconciler_ChangeWhileWaitingNeedsAnotherPass: the datapath has not followed a change that comes while it
// follows others, and may begin what is ended now again.
func TestReconciler_ChangeWhileWaitingNeedsAnotherPass(t *testing.T) {
	f := &fake{connections: []string{leaves}, flows: someFlows}
	r := f.reconciler(io.Discard)
	r.looked = true
	f.waits = func() { r.note(balancedFlow); f.waits = nil }
	r.note(balancedFlow)
	for want := range 3 {
		want = min(want+1, 2)
		if err := r.pass(t.Context()); err != nil || len(f.flushed) != want {
			t.Errorf("%v, flushed %q, want %d", err, f.flushed, want)
		}
	}
}

// TestReconciler_RunLooksWhenServicesChange, and not when a pod does.
func TestReconciler_RunLooksWhenServicesChange(t *testing.T) {
	for flow, want := range map[string]int{podFlow: 0, balancedFlow: 1} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{connections: []string{leaves}, flows: someFlows, watched: []string{flow, flow}}
			waits := 0
			f.waits = func() { waits++ }
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _ = f.reconciler(io.Discard).Run(ctx) }()
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(f.flushed) != want || waits != want {
				t.Errorf("%s: flushed %q in %d passes, want %d", flow, f.flushed, waits, want)
			}
		})
	}
}

// TestReconciler_ForgetsNothingWithoutDatabase: it says whose the connections are.
func TestReconciler_ForgetsNothingWithoutDatabase(t *testing.T) {
	f := &fake{connections: []string{leaves}, flows: someFlows, away: true}
	r := f.reconciler(io.Discard)
	r.note(balancedFlow)
	if err := r.pass(t.Context()); err == nil || len(f.flushed) > 0 {
		t.Errorf("%v, flushed %q", err, f.flushed)
	}
	f.away = false
	if err := r.pass(t.Context()); err != nil || len(f.flushed) != 1 {
		t.Errorf("the database is back: %v, flushed %q", err, f.flushed)
	}
}

// TestReconciler_LooksAtChangesOnlyAndRetries: what no change concerns is left alone, and what could not be
// looked at is looked at again.
func TestReconciler_LooksAtChangesOnlyAndRetries(t *testing.T) {
	f := &fake{connections: []string{leaves, direct}, flows: someFlows, err: errors.New("the switch is disconnected")}
	r := f.reconciler(io.Discard)
	r.looked = true
	r.note(strings.ReplaceAll(balancedFlow, "10.96.72.227", "10.96.72.228"))
	if err := r.pass(t.Context()); err != nil || len(f.flushed) > 0 {
		t.Errorf("another service changed: %v, flushed %q", err, f.flushed)
	}
	r.note(balancedFlow)
	for range 2 {
		if err := r.pass(t.Context()); err == nil {
			t.Error("no error")
		}
	}
	f.err, f.flushed = nil, nil
	if err := r.pass(t.Context()); err != nil || len(f.flushed) != 1 {
		t.Errorf("after errors: %v, flushed %q", err, f.flushed)
	}
	f.flushed = nil
	if err := r.pass(t.Context()); err != nil || len(f.flushed) > 0 {
		t.Errorf("nothing changed: %v, flushed %q", err, f.flushed)
	}
}

// TestReconciler_LogsOneLinePerServer: a server of DNS that leaves takes thousands of connections along.
func TestReconciler_LogsOneLinePerServer(t *testing.T) {
	f := &fake{flows: someFlows, connections: []string{leaves, strings.ReplaceAll(leaves, "port=6", "port=7")}}
	var log strings.Builder
	f.passTo(t, &log)
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "ops=2") {
		t.Errorf("two connections to one server are %d lines:\n%s", n, log.String())
	}
}

// Lines of a monitor, from a node of the lab.
const (
	podFlow           = " event=ADDED table=80 cookie=0x1df82cfa reg14=0x5,metadata=0x6 actions=load:0x1->NXM_NX_REG11[],load:0x5->NXM_NX_REG12[],resubmit(,8)"
	dhcpFlow          = " event=ADDED table=73 cookie=0x1df82cfa udp,reg14=0x5,metadata=0x6,dl_src=0a:58:0a:f4:01:06,nw_src=0.0.0.0,nw_dst=255.255.255.255,tp_src=68,tp_dst=67 actions=load:0->NXM_NX_REG10[12]"
	balancedFlow      = " event=DELETED reason=delete table=17 cookie=0x5ad6e1b1 ct_state=+new-rel+trk,udp,metadata=0x8,nw_dst=10.96.72.227,tp_dst=80 actions=load:0x1->NXM_NX_REG10[3],group:3"
	refusedFlow       = " event=ADDED table=21 cookie=0x3d5 ct_state=+new+trk,tcp,metadata=0x4,nw_dst=10.96.0.9,tp_dst=80 actions=load:0x1->NXM_NX_REG10[2]"
	laterBalancedFlow = " event=ADDED table=18 cookie=0x17faa7d0 ct_state=+new-rel+trk,ip,reg1=0x110050/0xffffff,metadata=0xa,nw_dst=10.96.72.227 actions=load:0x1->NXM_NX_REG10[3],group:6"
	laterRefusedFlow  = " event=ADDED table=23 cookie=0x5898a995 ct_state=+new+trk,ipv6,reg1=0x840050/0xffffff,metadata=0x4,ipv6_dst=fd00:10:96::a actions=load:0->NXM_NX_XXREG0[96..127]"
	laterPingFlow     = " event=ADDED table=23 cookie=0x5898a996 ct_state=+new+trk,ip,reg1=0x10000/0xffffff,metadata=0x4,nw_dst=10.96.72.227 actions=group:6"
	routedFlow        = " event=ADDED table=23 cookie=0x5898a997 ct_state=+new+trk,ip,reg1=0x110050,reg2=0x1/0xffffff,metadata=0x4,nw_dst=10.96.72.227 actions=group:6"
	hairpinFlow       = " event=ADDED table=68 cookie=0x146 ct_mark=0x2/0x2,udp,reg2=0x50/0xffff,reg4=0xa6048e3,nw_src=10.244.1.6,nw_dst=10.244.1.6,tp_dst=8080 actions=load:0x1->NXM_NX_REG10[7]"
	ruledFlow         = " event=ADDED table=51 cookie=0x5dde4992 reg0=0x200/0x200,reg8=0x80000000/0xc0000000,reg15=0x5,metadata=0x4 actions=load:0x1->OXM_OF_PKT_REG4[49],resubmit(,52)"
)

func TestNote_RecordsChangedServices(t *testing.T) {
	of := func(protocol, address string) map[frontend]bool {
		return map[frontend]bool{{protocol, netip.MustParseAddrPort(address)}: true}
	}
	for name, tt := range map[string]struct {
		flow string
		want map[frontend]bool
	}{
		"a pod":                         {podFlow, nil},
		"DHCP of a pod":                 {dhcpFlow, nil},
		"a service":                     {balancedFlow, of("udp", "10.96.72.227:80")},
		"a service without endpoints":   {refusedFlow, of("tcp", "10.96.0.9:80")},
		"a service of OVN 26.03":        {laterBalancedFlow, of("udp", "10.96.72.227:80")},
		"SCTP over IPv6, of OVN 26.03":  {laterRefusedFlow, of("sctp", "[fd00:10:96::a]:80")},
		"a register of another use":     {routedFlow, nil},
		"a protocol without ports":      {laterPingFlow, nil},
		"endpoints that ask themselves": {hairpinFlow, nil},
		"a policy":                      {ruledFlow, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := (&fake{}).reconciler(io.Discard)
			r.note(tt.flow)
			if diff := cmp.Diff(tt.want, r.noted, append(compare, cmpopts.EquateEmpty())...); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseConnection(f *testing.F) {
	for _, line := range []string{stays, leaves6, ofHost, ping, unreadable} {
		f.Add(line)
	}
	f.Fuzz(func(_ *testing.T, line string) {
		if c, ok := parseConnection(line); ok {
			_ = c.pattern()
		}
	})
}
