package nodeflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// lines has a connection from a tunnel to pod shop/web in two flows, its answer, a flow of the node and a drop. The form is
// that of ovs-vswitchd 3.5.
const lines = `ufid:aaaaaaaa-0000-0000-0000-000000000001, recirc_id(0),dp_hash(0/0),tunnel(tun_id=0x2,src=172.18.0.4,dst=172.18.0.3,flags(-df+csum+key)),in_port(genev_sys_6081),ct_state(0/0),eth_type(0x0800),ipv4(src=10.244.2.5/0.0.0.0,dst=10.244.1.6/255.255.255.255,proto=6/0,frag=no), packets:%[1]d, bytes:800, used:0.5s, dp:ovs, actions:ct(zone=3),recirc(0x7)
ufid:aaaaaaaa-0000-0000-0000-000000000002, recirc_id(0x7),in_port(genev_sys_6081),ct_state(0x22/0x3f),eth_type(0x0800),ipv4(src=10.244.2.0/255.255.255.0,dst=10.244.1.6,proto=6,frag=no),tcp(src=40000/0,dst=8080), packets:%[1]d, bytes:800, used:0.5s, offloaded:yes, dp:tc, actions:rep1
ufid:aaaaaaaa-0000-0000-0000-000000000003, recirc_id(0),in_port(rep1),eth_type(0x0800),ipv4(src=10.244.1.6,dst=10.244.2.5,proto=6,frag=no),tcp(src=8080,dst=40000), packets:5, bytes:500, used:0.1s, dp:tc, actions:set(tunnel(tun_id=0x3,src=172.18.0.3,dst=172.18.0.4,ttl=64,tp_dst=6081,flags(df|csum|key))),genev_sys_6081
ufid:aaaaaaaa-0000-0000-0000-000000000004, recirc_id(0),in_port(eth0),eth_type(0x0806),arp(sip=172.18.0.1,tip=172.18.0.3,op=1/0xff), packets:1, bytes:60, used:never, dp:ovs, actions:br-ex
ufid:aaaaaaaa-0000-0000-0000-000000000005, recirc_id(0),in_port(rep1),eth_type(0x86dd),ipv6(src=fe80::1,dst=ff02::2,label=0/0,proto=58,hlimit=255/0,frag=no),icmpv6(type=133), packets:2, bytes:140, used:9s, dp:ovs, actions:drop
`

// vswitchd answers as ovs-vswitchd does. It counts its dumps, and each carries more packets than the one before.
type vswitchd struct {
	dumps    int
	detrace  func(args []string) (string, error)
	detraces [][]string
	// trace is the answer to ofproto/trace; tracing is what was asked.
	trace   string
	tracing []string
	// ports is the answer to dpif/show.
	ports string
	// takes is how long a dump lasts, and busy its processor time; 0: the process cannot be read.
	takes, busy, used time.Duration
}

func (v *vswitchd) Instance() (unixctl.Instance, error) { return unixctl.Instance{}, nil }

func (v *vswitchd) ProcessorTime() (time.Duration, error) {
	if v.busy == 0 {
		return 0, errors.New("no such process")
	}
	return v.used, nil
}

func (v *vswitchd) Call(_ context.Context, method string, args ...string) (string, error) {
	switch method {
	case "dpctl/dump-dps":
		return "system@ovs-system\n", nil
	case "ofproto/detrace":
		v.detraces = append(v.detraces, args)
		return v.detrace(args)
	case "dpif/show":
		return v.ports, nil
	case "ofproto/trace":
		v.tracing = args
		if v.trace == "" {
			return "", &unixctl.Refused{Text: "no recirculation data for recirc_id 0x7"}
		}
		return v.trace, nil
	}
	return "", errors.New(method)
}

func (v *vswitchd) Lines(_ context.Context, line func(string) error, _ string, _ ...string) error {
	v.dumps++
	time.Sleep(v.takes)
	v.used += v.busy
	heading := "flow-dump from pmd on cpu core: 3\n"
	for text := range strings.Lines(heading + fmt.Sprintf(lines, 10*v.dumps)) {
		if err := line(strings.TrimSuffix(text, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func testSource(v *vswitchd) *Source {
	return New(Config{
		Node: "w1", Switch: v, Logger: slog.New(slog.DiscardHandler),
		Newest: func() (offload.Report, time.Time, bool) { return offload.Report{}, time.Time{}, false },
		State: func() offload.State {
			return offload.State{
				Settings: offload.Settings{HWOffload: true, Policy: offload.PolicyNone},
				Ports: []offload.Port{
					{Name: "rep1", Pod: contract.PodOwner("shop", "web"), Device: offload.Device{Representor: true, Function: true, HWTC: true}},
					{Name: "genev_sys_6081", Type: "geneve"},
				},
			}
		},
	})
}

func ids(flows *flowapi.Flows) (out []string) {
	for _, f := range flows.Flows {
		out = append(out, f.ID[len(f.ID)-1:])
	}
	return out
}

func TestSource_DumpsOnceForAllCallersAndNeverWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vswitchd{}
		s := testSource(v)
		if summary, err := s.Summary(t.Context(), false); err != nil || v.dumps != 0 || !summary.Taken.IsZero() {
			t.Errorf("%d dumps for a summary that need not be fresh, %+v, %v", v.dumps, summary, err)
		}
		for range 20 {
			go s.Flows(t.Context(), flowapi.Query{})
		}
		synctest.Wait()
		if v.dumps != 1 {
			t.Errorf("%d dumps for 20 callers", v.dumps)
		}
		time.Sleep(flowapi.MinPeriod)
		flows, err := s.Flows(t.Context(), flowapi.Query{Namespace: "shop", Pod: "web"})
		if err != nil || v.dumps != 2 {
			t.Fatalf("%d dumps, %v", v.dumps, err)
		}
		if rate := flows.Flows[0].PacketsPerSecond; rate == nil || *rate != 5 {
			t.Errorf("10 packets in 2 s: %v", rate)
		}
		time.Sleep(time.Hour)
		if v.dumps != 2 || s.newest != nil {
			t.Errorf("%d dumps, and the last is kept: %v", v.dumps, s.newest != nil)
		}
	})
}

// TestSource_RestsByProcessorTime: viewers of a busy node get flows as new as those of an idle one, unless a dump is much
// work. Without processor time, the duration of the dump decides.
func TestSource_RestsByProcessorTime(t *testing.T) {
	for name, c := range map[string]struct{ takes, busy, want time.Duration }{
		"fast":              {50 * time.Millisecond, 50 * time.Millisecond, flowapi.MinPeriod},
		"slow, little work": {time.Second, 50 * time.Millisecond, flowapi.MinPeriod},
		"slow, much work":   {time.Second, 800 * time.Millisecond, 16 * time.Second},
		"slow, not read":    {time.Second, 0, 20 * time.Second},
		"very slow, unread": {10 * time.Second, 0, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			v := &vswitchd{takes: c.takes, busy: c.busy}
			s := testSource(v)
			const step = 100 * time.Millisecond
			begun := time.Now()
			for v.dumps < 2 {
				if _, err := s.Flows(t.Context(), flowapi.Query{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(step)
			}
			if second := time.Since(begun) - c.takes - step; second.Round(time.Second) != c.want {
				t.Errorf("%s: the second dump after %s, want %s", name, second, c.want)
			}
		})
	}
}

func TestSource_ChoosesFlowsOfPodsWithTheirWay(t *testing.T) {
	s := testSource(&vswitchd{})
	for _, tc := range []struct {
		q       flowapi.Query
		want    string
		matched int
	}{
		{flowapi.Query{}, "1 2 3 5", 4},
		{flowapi.Query{All: true}, "1 2 3 5 4", 5},
		{flowapi.Query{Namespace: "shop", Pod: "web"}, "1 2 3 5", 4},
		{flowapi.Query{Namespace: "shop", Limit: 1}, "1", 4},
		{flowapi.Query{Namespace: "shop", Pod: "other"}, "", 0},
		{flowapi.Query{Namespace: "other", All: true}, "", 0},
	} {
		flows, err := s.Flows(t.Context(), tc.q)
		if err != nil || strings.Join(ids(flows), " ") != tc.want || flows.Matched != tc.matched {
			t.Errorf("%+v: %v of %d, %v; want %s of %d", tc.q, ids(flows), flows.Matched, err, tc.want, tc.matched)
		}
	}
}

// TestSource_ReadsCountersOfRepresentors: of the pods that are asked for, and only if they are asked for. Without flows nothing
// is dumped for them.
func TestSource_ReadsCountersOfRepresentors(t *testing.T) {
	v := &vswitchd{}
	s := testSource(v)
	var fails error
	read := 0
	s.cfg.Counters = func(port string) (netdev.Counters, error) {
		read++
		return netdev.Counters{Hardware: 7, Software: 3, CPUHit: port == "rep1"}, fails
	}
	if _, err := s.Flows(t.Context(), flowapi.Query{Namespace: "shop"}); err != nil || read != 0 {
		t.Errorf("read %d times: %v", read, err)
	}
	end := flowapi.End{Port: "rep1", Namespace: "shop", Pod: "web", Network: "default"}
	for name, c := range map[string]struct {
		q     flowapi.Query
		fails error
		want  []flowapi.Port
	}{
		"all":           {want: []flowapi.Port{{End: end, Hardware: 7, Software: 3, CPUHit: true}}},
		"its namespace": {q: flowapi.Query{Namespace: "shop"}, want: []flowapi.Port{{End: end, Hardware: 7, Software: 3, CPUHit: true}}},
		"another one":   {q: flowapi.Query{Namespace: "other"}},
		"gone":          {fails: errors.New("no such link"), want: []flowapi.Port{{End: end, Hardware: 7, Software: 3, CPUHit: true, Problem: "no such link"}}},
	} {
		c.q.Counters, fails = true, c.fails
		got, err := s.Flows(t.Context(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got.Ports); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	before := v.dumps
	alone := testSource(v)
	alone.cfg.Counters = s.cfg.Counters
	for noFlows, want := range map[bool]int{true: 0, false: 1} {
		got, err := alone.Flows(t.Context(), flowapi.Query{Counters: true, NoFlows: noFlows})
		if err != nil || len(got.Ports) != 1 || (len(got.Flows) > 0) == noFlows || v.dumps-before != want {
			t.Errorf("without flows %v: %+v, %v, %d dumps", noFlows, got, err, v.dumps-before)
		}
		before = v.dumps
	}
}

func TestFlow_SaysWhatTheDatapathHas(t *testing.T) {
	flows, err := testSource(&vswitchd{}).Flows(t.Context(), flowapi.Query{All: true})
	if err != nil {
		t.Fatal(err)
	}
	web := flowapi.End{Port: "rep1", Namespace: "shop", Pod: "web", Network: "default"}
	seconds := func(s float64) *float64 { return &s }
	want := map[string]flowapi.Flow{
		"1": {
			From: flowapi.End{Port: "genev_sys_6081"}, Packet: flowapi.Packet{Target: "10.244.1.6", Tunnel: "172.18.0.4"},
			Way: flowapi.Way{Next: []uint32{7}}, Placed: flowapi.Placed{Place: offload.OVS, Reason: offload.ReasonUnknown},
			Traffic: flowapi.Traffic{Packets: 10, Bytes: 800, IdleSeconds: seconds(.5)},
			Match:   "in_port(genev_sys_6081),tunnel(tun_id=0x2,src=172.18.0.4,dst=172.18.0.3,flags(-df+csum+key)),eth_type(0x0800),ipv4(src=10.244.2.5/0.0.0.0,dst=10.244.1.6/255.255.255.255,proto=6/0,frag=no)", Actions: "ct(zone=3),recirc(0x7)",
		},
		"2": { // in the NIC's table, but its packets come from a flow that is not
			From: flowapi.End{Port: "genev_sys_6081"}, To: []flowapi.End{web},
			Packet: flowapi.Packet{Protocol: "tcp", Source: "10.244.2.0/24", Target: "10.244.1.6", TargetPort: "8080", Direction: flowapi.Original},
			Way:    flowapi.Way{Recirculation: 7}, Placed: flowapi.Placed{Place: offload.TC, Reason: offload.ReasonEarlier},
			Traffic: flowapi.Traffic{Packets: 10, Bytes: 800, IdleSeconds: seconds(.5)},
			Match:   "in_port(genev_sys_6081),recirc_id(0x7),ct_state(0x22/0x3f),eth_type(0x0800),ipv4(src=10.244.2.0/255.255.255.0,dst=10.244.1.6,proto=6,frag=no),tcp(src=40000/0,dst=8080)", Actions: "rep1",
		},
		"3": {
			From: web, To: []flowapi.End{{Port: "genev_sys_6081"}},
			Packet: flowapi.Packet{Protocol: "tcp", Source: "10.244.1.6", SourcePort: "8080", Target: "10.244.2.5", TargetPort: "40000", Tunnel: "172.18.0.4"},
			Placed: flowapi.Placed{Place: offload.TC, Reason: offload.ReasonRefused}, Traffic: flowapi.Traffic{Packets: 5, Bytes: 500, IdleSeconds: seconds(.1)},
			Match:   "in_port(rep1),eth_type(0x0800),ipv4(src=10.244.1.6,dst=10.244.2.5,proto=6,frag=no),tcp(src=8080,dst=40000)",
			Actions: "set(tunnel(tun_id=0x3,src=172.18.0.3,dst=172.18.0.4,ttl=64,tp_dst=6081,flags(df|csum|key))),genev_sys_6081",
		},
		"4": {
			From: flowapi.End{Port: "eth0"}, To: []flowapi.End{{Port: "br-ex"}}, Packet: flowapi.Packet{Protocol: "arp", Source: "172.18.0.1", Target: "172.18.0.3"},
			Placed: flowapi.Placed{Place: offload.OVS, Reason: offload.ReasonUnknown}, Traffic: flowapi.Traffic{Packets: 1, Bytes: 60},
			Match: "in_port(eth0),eth_type(0x0806),arp(sip=172.18.0.1,tip=172.18.0.3,op=1/0xff)", Actions: "br-ex",
		},
		"5": {
			From: web, Packet: flowapi.Packet{Protocol: "icmp6", Source: "fe80::1", Target: "ff02::2"}, Way: flowapi.Way{Drops: true},
			Placed: flowapi.Placed{Place: offload.OVS, Reason: offload.ReasonUnknown}, Traffic: flowapi.Traffic{Packets: 2, Bytes: 140, IdleSeconds: seconds(9)},
			Match: "in_port(rep1),eth_type(0x86dd),ipv6(src=fe80::1,dst=ff02::2,label=0/0,proto=58,hlimit=255/0,frag=no),icmpv6(type=133)", Actions: "drop",
		},
	}
	for _, f := range flows.Flows {
		expected := want[f.ID[len(f.ID)-1:]]
		expected.ID, expected.Node = f.ID, "w1"
		if diff := cmp.Diff(expected, f); diff != "" {
			t.Error(f.ID, diff)
		}
	}
}

func TestPacket_FindsTunnelOfUserspaceDatapath(t *testing.T) {
	const push = `tnl_port(2),header(size=50,type=5,eth(dst=aa:55:aa:55:00:00,src=aa:55:aa:55:00:01,dl_type=0x0800),ipv4(src=172.18.0.3,dst=172.18.0.4,proto=17,tos=0,ttl=64,frag=0x4000),udp(src=0,dst=6081,csum=0x0)),out_port(3)`
	if got := pushed(push); got != "172.18.0.4" {
		t.Error(got)
	}
}

func TestSummary_AddsPortsOfPod(t *testing.T) {
	summary, err := testSource(&vswitchd{}).Summary(t.Context(), true)
	if err != nil || len(summary.Pods) != 1 {
		t.Fatalf("%+v, %v", summary, err)
	}
	pod := summary.Pods[0]
	want := flowapi.PodSummary{
		Namespace: "shop", Name: "web", Ports: []string{"rep1"}, VF: true, Reason: offload.ReasonEarlier,
		Traffic: offload.Share{TC: offload.Count{Flows: 2, Packets: 15, Bytes: 1300}, OVS: offload.Count{Flows: 1, Packets: 2, Bytes: 140}},
		Drops:   offload.Count{Flows: 1, Packets: 2, Bytes: 140},
	}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Error(diff)
	}
}

// rules is what ovs-vswitchd 3.5 prints. Rules of table 0 have no table_id.
const rules = `cookie=0x1234, duration=1s, n_packets=2, n_bytes=212, n_offload_packets=0, n_offload_bytes=0, ip,in_port=2,actions=ct(table=5)
cookie=0xdeadbeef, table_id=5, duration=1s, n_packets=2, n_bytes=212, n_offload_packets=0, n_offload_bytes=0, priority=7,ct_state=+trk,actions=resubmit(,6),output:1
cookie=0x77, table_id=6, duration=1s, n_packets=2, n_bytes=212, n_offload_packets=0, n_offload_bytes=0, ,actions=drop
group_id=7,bucket=0
`

func TestWhy_ReadsRules(t *testing.T) {
	v := &vswitchd{detrace: func([]string) (string, error) { return rules, nil }}
	s := testSource(v)
	why, err := s.Why(t.Context(), "aaaaaaaa-0000-0000-0000-000000000003")
	want := &flowapi.Why{ID: "aaaaaaaa-0000-0000-0000-000000000003", Rules: []flowapi.Rule{
		{Cookie: 0x1234, Rule: "ip,in_port=2,actions=ct(table=5)"},
		{Cookie: 0xdeadbeef, Table: 5, Rule: "priority=7,ct_state=+trk,actions=resubmit(,6),output:1"},
		{Cookie: 0x77, Table: 6, Rule: "actions=drop"},
	}}
	if diff := cmp.Diff(want, why); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if diff := cmp.Diff([][]string{{"ufid:aaaaaaaa-0000-0000-0000-000000000003", "pmd=3"}}, v.detraces); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Why(t.Context(), "aaaaaaaa-0000-0000-0000-000000000009"); !errors.Is(err, flowapi.ErrNoFlow) {
		t.Errorf("a flow that is not there: %v", err)
	}
}

func TestWhy_SaysWhereTheChainBreaks(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		err  error
		want string
	}{
		"not looked at yet": {text: notYet + "\n", want: "does not know the rules of the flow yet"},
		"ended":             {err: &unixctl.Refused{Text: "UFID was not found for DP\n"}, want: "it has ended"},
		"old release":       {err: &unixctl.Refused{Text: `"ofproto/detrace" is not a valid command`}, want: "before 3.4"},
	} {
		synctest.Test(t, func(t *testing.T) {
			v := &vswitchd{detrace: func([]string) (string, error) { return tc.text, tc.err }}
			flows, err := testSource(v).Flows(t.Context(), flowapi.Query{Why: true, Limit: 1})
			if err != nil || len(flows.Flows) != 1 || !strings.Contains(flows.Flows[0].Why.Problem, tc.want) {
				t.Errorf("%s: %v, %+v", name, err, flows)
			}
			if flows.Flows[0].Why.Rules != nil {
				t.Errorf("%s: rules %v", name, flows.Flows[0].Why.Rules)
			}
		})
	}
	v := &vswitchd{}
	v.detrace = func([]string) (string, error) {
		if len(v.detraces) < 3 {
			return notYet, nil
		}
		return rules, nil
	}
	synctest.Test(t, func(t *testing.T) {
		flows, err := testSource(v).Flows(t.Context(), flowapi.Query{Why: true, Limit: 1})
		if err != nil || len(flows.Flows[0].Why.Rules) != 3 {
			t.Errorf("known at the third question: %+v, %v", flows, err)
		}
	})
}

// TestMarkStale_FlowsThatNoOtherOneFeeds: after a change of rules a flow hands packets on to another number than before.
func TestMarkStale_FlowsThatNoOtherOneFeeds(t *testing.T) {
	flow := func(port string, number uint32, actions string, next ...uint32) numbered {
		return numbered{Flow: flowapi.Flow{From: flowapi.End{Port: port}, Way: flowapi.Way{Recirculation: number, Next: next}, Actions: actions}}
	}
	flows := []numbered{
		flow("rep1", 0, "ct,recirc(0x2)", 2), flow("rep1", 2, "ct,recirc(0x3)", 3), flow("rep1", 3, "rep2"),
		flow("rep1", 9, "drop"), flow("rep2", 2, "rep1"), flow("rep3", 9, "rep1"), flow("rep3", 0, "userspace(pid=1,slow_path(action))"),
	}
	markStale(flows)
	var stale []int
	for i, f := range flows {
		if f.Stale {
			stale = append(stale, i)
		}
	}
	if diff := cmp.Diff([]int{3, 4}, stale); diff != "" { // of rep3 ovs-vswitchd itself may hand packets on
		t.Error(diff)
	}
}
