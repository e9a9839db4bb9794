package answer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// shop is a pod that asks a service, whose endpoint is on another node.
func shop(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	pod := func(name, node, address string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: shop, labels: {app: " + name + "}, annotations: {k8s.ovn.org/pod-networks: '{\"default\":{\"ip_addresses\":[\"" +
			address + "/24\"],\"mac_address\":\"0a:58:0a:f4:01:05\",\"gateway_ips\":[\"10.244.1.1\"]}}'}}\nspec: {nodeName: " + node + "}\nstatus: {phase: Running}\n---\n"
	}
	s := cluster(t, []byte(pod("web-0", "w1", "10.244.1.7")+pod("db-0", "w2", "10.244.2.9")+
		"apiVersion: v1\nkind: Node\nmetadata: {name: w1}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.1}]}"))
	s.Add(snapshot.Services, map[string]any{
		"metadata": map[string]any{"name": "db", "namespace": "shop"}, "spec": map[string]any{"clusterIPs": []any{"10.96.0.44"}},
	})
	return s
}

func why(row, what, object string) *flowapi.Why {
	return &flowapi.Why{Rules: []flowapi.Rule{{Cookie: 1, Name: &flowapi.Name{Stage: "ls_in_lb", Row: row, What: what, Objects: []string{object}}}}}
}

// shopFlows are those of web-0 to svc/db and of the answers, on both nodes.
func shopFlows() []flowapi.Flow {
	web, db := flowapi.End{Port: "veth1", Namespace: "shop", Pod: "web-0"}, flowapi.End{Port: "veth9", Namespace: "shop", Pod: "db-0"}
	tunnel := flowapi.End{Port: "genev_sys_6081"}
	ovs, rate := flowapi.Placed{Place: offload.OVS, Reason: offload.ReasonAction, Detail: "hash"}, 50.0
	hardware, blocked := flowapi.Placed{Place: offload.Hardware}, why("Load_Balancer", "load balancer", "Service/shop/db")
	blocked.Obstacles = []offload.Obstacle{{Reason: offload.ReasonAction, Detail: "hash"}, {Reason: offload.ReasonPort, Detail: "not a representor"}}
	allowed := why("ACL", "ingress[1]: allow-related", "NetworkPolicy/shop/db-ingress")
	allowed.Rules[0].Name.Rule = "ingress[1]"
	return []flowapi.Flow{
		{ID: "a", Node: "w1", From: web, Packet: flowapi.Packet{Protocol: "tcp", Target: "10.96.0.44", TargetPort: "5432"}, Way: flowapi.Way{Next: []uint32{1}}, Placed: ovs,
			Actions: "ct(nat),recirc(0x1)",
			Why:     blocked, DecidedBy: []string{"Service/shop/db"}},
		{ID: "b", Node: "w1", From: web, To: []flowapi.End{tunnel}, Packet: flowapi.Packet{Protocol: "tcp", Target: "10.244.2.9", Tunnel: "192.0.2.2"}, Way: flowapi.Way{Recirculation: 1}, Placed: ovs,
			Traffic: flowapi.Traffic{Packets: 70, Bytes: 7000, PacketsPerSecond: &rate}, Why: why("Logical_Switch_Port", "", "Pod/shop/db-0"), DecidedBy: []string{"Pod/shop/db-0"}},
		{ID: "c", Node: "w2", From: tunnel, To: []flowapi.End{db}, Packet: flowapi.Packet{Protocol: "tcp", Source: "10.244.1.7", Target: "10.244.2.9", TargetPort: "5432", Tunnel: "192.0.2.1"}, Placed: hardware,
			Traffic: flowapi.Traffic{Packets: 69}, Why: allowed, DecidedBy: []string{"NetworkPolicy/shop/db-ingress"}},
		{ID: "d", Node: "w1", From: tunnel, To: []flowapi.End{web}, Packet: flowapi.Packet{Protocol: "tcp", Source: "10.244.2.9", Tunnel: "192.0.2.2"}, Placed: hardware, Traffic: flowapi.Traffic{Packets: 30}},
	}
}

func text(t *testing.T, a Answer) string {
	t.Helper()
	page := &Page{}
	a.Text(page)
	return page.text.String()
}

func TestLive_JoinsBothNodes(t *testing.T) {
	want := streams.Ends{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}
	flows := shopFlows()
	l, err := NewLive(shop(t), want, "", append(flows, flows...), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := text(t, l)
	if strings.Contains(got, "rule of TC") {
		t.Errorf("rules of TC that no agent gave in\n%s", got)
	}
	for _, part := range []string{
		"pod/shop/web-0 to svc/shop/db tcp:5432: ALLOWED", "node w1  ovs, 70 packets (50 a second) because of action (hash)", "load balancer: to pod/shop/db-0", "svc/shop/db",
		"tunnel with 192.0.2.2", "node w2  hardware, 69 packets", "ingress[1]: allow-related  netpol/shop/db-ingress", "back, node w1  hardware, 30 packets", "3 of 4 flows named",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	if len(l.Legs) != 3 || l.Legs[1].Node != "w2" || !l.Legs[2].Back || l.Code != Good {
		t.Errorf("exit code %d, legs %+v", l.Code, l.Legs)
	}
	flows[2].Drops, flows[2].To = true, nil
	if l, err = NewLive(shop(t), want, "", flows[2:3], nil); err != nil || l.Verdict != "idle" { // the drop is of the endpoint, not of the service
		t.Errorf("%v, %+v", err, l)
	}
	want.To = "pod/shop/db-0"
	if l, err = NewLive(shop(t), want, "", flows[2:3], nil); err != nil || l.Verdict != "dropped" || l.Code != Degraded || !strings.Contains(text(t, l), "DROPPED") {
		t.Errorf("%v, %+v", err, l)
	}
}

// TestLive_NextIsTheFirstFlowOutsideHardware, or the first of all, in the namespace of its pod.
func TestLive_NextIsTheFirstFlowOutsideHardware(t *testing.T) {
	for hardware, want := range map[int]string{0: "a@w1 -n shop", 1: "b@w1 -n shop", 2: "a@w1 -n shop"} {
		flows := shopFlows()
		for i := range hardware {
			flows[i].Placed = flowapi.Placed{Place: offload.Hardware}
		}
		l, err := NewLive(shop(t), streams.Ends{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}, "", flows, nil)
		if err != nil || l.Next != "kubectl offload explain flow "+want {
			t.Errorf("%d flows of the first node in hardware: %v, %s, want %s", hardware, err, l.Next, want)
		}
	}
}

// TestLive_SaysWhichRuleOfTCAFlowIs, with the packets that the driver has counted, in text and JSON; or why it is not known.
func TestLive_SaysWhichRuleOfTCAFlowIs(t *testing.T) {
	for want, rule := range map[string]flowapi.TCRule{
		"rep3 chain 5 pref 2 handle 0x1f in_hw  68 packets in hardware": {Device: "rep3", Chain: 5, Priority: 2, Handle: 31, InHardware: true, Packets: 68},
		"chain 0 pref 2 handle 0x1f not_in_hw  0 packets in hardware":   {Priority: 2, Handle: 31},
		"not known: TC has no rule of the flow on genev_sys_6081 now":   {Problem: "TC has no rule of the flow on genev_sys_6081 now"},
	} {
		flows := shopFlows()
		flows[2].Why.TC = &rule
		l, err := NewLive(shop(t), streams.Ends{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}, "", flows, nil)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(text(t, l))
		if got := strings.Join(words, " "); !strings.Contains(got, "rule of TC "+strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, text(t, l))
		}
		if len(l.Legs) != 3 || l.Legs[1].Parts[0].TC != &rule || l.Legs[0].Parts[0].TC != nil {
			t.Errorf("%+v", l.Legs)
		}
		e, err := ExplainFlow(shop(t), "w2", "c", flows[2:3], nil)
		if err != nil || !strings.Contains(strings.Join(strings.Fields(text(t, e)), " "), "rule of TC "+strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%v: no %q in\n%s", err, want, text(t, e))
		}
	}
}

// TestLive_FollowsPacketsAcrossNodes: a flow behind a tunnel often matches no source, and a route matches a network alone. Of the
// flows of answers those of other nodes' tunnels, and those in the other direction, are of others.
func TestLive_FollowsPacketsAcrossNodes(t *testing.T) {
	want := streams.Ends{From: "pod/shop/web-0", To: "pod/shop/db-0", Protocol: "tcp", Port: "5432"}
	web, db := flowapi.End{Port: "veth1", Namespace: "shop", Pod: "web-0"}, flowapi.End{Port: "veth9", Namespace: "shop", Pod: "db-0"}
	flow := func(id, node string, from flowapi.End, to *flowapi.End, p flowapi.Packet) flowapi.Flow {
		f := flowapi.Flow{ID: id, Node: node, From: from, Packet: p, Placed: flowapi.Placed{Place: offload.OVS}, Traffic: flowapi.Traffic{Packets: 9}}
		f.Protocol = "tcp"
		if to != nil {
			f.To = []flowapi.End{*to}
		}
		return f
	}
	tunnel := flowapi.End{Port: "genev_sys_6081"}
	sent := flow("sent", "w1", web, &tunnel, flowapi.Packet{Target: "10.244.2.9", TargetPort: "5432", Tunnel: "192.0.2.2"})
	received := flow("received", "w2", tunnel, &db, flowapi.Packet{Tunnel: "192.0.2.1"})
	foreign := flow("foreign", "w2", tunnel, &db, flowapi.Packet{Tunnel: "192.0.2.3"})
	another := flow("another", "w2", tunnel, &db, flowapi.Packet{Source: "10.244.9.9", Tunnel: "192.0.2.1"})
	answers := flow("answers", "w2", db, &tunnel, flowapi.Packet{Target: "10.244.0.0/17", Tunnel: "192.0.2.1", Direction: flowapi.Reply})
	asks := flow("asks", "w2", db, &tunnel, flowapi.Packet{Target: "10.244.1.7", Tunnel: "192.0.2.1", Direction: flowapi.Original})
	answered := flow("answered", "w1", tunnel, &web, flowapi.Packet{Tunnel: "192.0.2.2", Direction: flowapi.Reply})
	asked := flow("asked", "w1", tunnel, &web, flowapi.Packet{Source: "10.244.2.9", Tunnel: "192.0.2.2", Direction: flowapi.Original})
	inverted := received
	inverted.ID, inverted.Direction = "inverted", flowapi.Reply
	drops := flow("drops", "w2", tunnel, nil, flowapi.Packet{Source: "10.244.1.7", Tunnel: "192.0.2.1", Direction: flowapi.Original})
	drops.Drops, drops.For, drops.Why = true, &db, why("ACL", "ingress policy: drop", "NetworkPolicy/shop/db-ingress")
	dropsAll := drops
	dropsAll.ID, dropsAll.Source = "dropsAll", ""
	relayed := func(f flowapi.Flow, source, target string) flowapi.Flow { // what the relay gives a tenant
		f.Source, f.Target, f.Tunnel = source, target, flowapi.Withheld
		return f
	}
	withheld := relayed(another, flowapi.Withheld, "")
	withheld.ID = "withheld"
	for name, c := range map[string]struct {
		flows   []flowapi.Flow
		missing []string
		verdict string
		legs    string
	}{
		"through the relay": {[]flowapi.Flow{
			relayed(sent, "", "10.244.2.9"), relayed(received, "", ""), relayed(another, flowapi.Withheld, ""), relayed(answers, "", ""), relayed(answered, "", ""),
		}, nil, Allowed, "sent received+ answers+ answered+"},
		"there and back":               {[]flowapi.Flow{sent, received, foreign, another, answers, asks, answered, asked}, nil, Allowed, "sent received+ answers+ answered+"},
		"dropped where it is received": {[]flowapi.Flow{sent, drops}, nil, Dropped, "sent drops"},
		"dropped from any source":      {[]flowapi.Flow{sent, dropsAll}, nil, Dropped, "sent dropsAll+"},
		"one endpoint of two drops":    {[]flowapi.Flow{sent, received, drops}, nil, Partly, "sent received+ drops"},
		"not received":                 {[]flowapi.Flow{sent, foreign}, nil, Lost, "sent"},
		"not known whether received":   {[]flowapi.Flow{sent}, []string{"node/w2: no answer"}, Sent, "sent"},
		"after a restart":              {[]flowapi.Flow{sent, inverted, asks, asked}, nil, Allowed, "sent inverted+ asks+ asked+"},
		"nothing":                      {[]flowapi.Flow{foreign, another, asks, asked}, nil, Idle, ""},
	} {
		s := shop(t)
		s.Add(snapshot.Nodes, map[string]any{
			"metadata": map[string]any{"name": "w2"}, "status": map[string]any{"addresses": []any{map[string]any{"address": "192.0.2.2"}}},
		})
		l, err := NewLive(s, want, "", c.flows, c.missing)
		if err != nil {
			t.Fatal(err)
		}
		var legs []string
		for _, leg := range l.Legs {
			text := leg.Parts[0].ID
			if leg.Shared {
				text += "+"
			}
			legs = append(legs, text)
		}
		if got := strings.Join(legs, " "); l.Verdict != c.verdict || got != c.legs || (l.Code == Good) != (c.verdict == Allowed && c.missing == nil) {
			t.Errorf("%s: exit code %d, %s, %q; want %s, %q", name, l.Code, l.Verdict, got, c.verdict, c.legs)
		}
		if l, err := NewLive(s, want, "", append(slices.Clone(c.flows), withheld), c.missing); err != nil || (c.verdict == Lost || c.verdict == Idle) != strings.Contains(fmt.Sprint(l.Missing), "withholds") {
			t.Errorf("%s, with a flow of which an end is withheld: %v: %s", name, err, text(t, l))
		}
		if got := text(t, l); c.verdict == Dropped && !strings.Contains(got, "DROPPED by netpol/shop/db-ingress") {
			t.Error(got)
		}
	}
}

func withLabels(from, to string, not bool) Filter {
	return Filter{Bounds: Bounds{Labels: Labels{FromLabel: from, ToLabel: to}, Not: not}}
}

// TestCanonical_IsHowAnswersNameObjects: as kubectl takes kinds. What is of no such kind stays.
func TestCanonical_IsHowAnswersNameObjects(t *testing.T) {
	for in, want := range map[string]string{
		"po/web": "pod/web", "pods/shop/web/icmp": "pod/shop/web/icmp", "Service/shop/db:80/tcp": "svc/shop/db:80/tcp", "no/w1": "node/w1", "nof/w1": "node/w1",
		"networkpolicies/deny": "netpol/deny", "NetworkPolicy/shop/deny": "netpol/shop/deny", "192.0.2.7:80/tcp": "192.0.2.7:80/tcp", "outside/192.0.2.7": "outside/192.0.2.7", "flow/pod@n": "flow/pod@n", "web": "web", "": "",
	} {
		if got := Canonical(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestStreams_FilterAndNames(t *testing.T) {
	rate := Filter{Bounds: Bounds{MinRate: 49}}
	for name, c := range map[string]struct {
		filter Filter
		want   int
	}{
		"all": {Filter{}, 3}, "pod": {Filter{Pod: "shop/db-0"}, 3}, "from": {Filter{FromPod: "shop/web-0"}, 2}, "to": {Filter{ToPod: "shop/web-0"}, 1},
		"service": {Filter{ToService: "shop/db"}, 1}, "policy": {Filter{Policy: "netpol/shop/db-ingress"}, 1}, "not in hardware": {Filter{Place: "hardware", Bounds: Bounds{Not: true}}, 1}, "not of another namespace": {Filter{Namespace: "other", Place: "hardware", Bounds: Bounds{Not: true}}, 0}, "policy by its name": {Filter{Policy: "shop/db-ingress"}, 1}, "policy of another kind": {Filter{Policy: "anp/db-ingress"}, 0}, "place": {Filter{Place: "hardware"}, 2},
		"reason": {Filter{Reason: "action"}, 1}, "dropped": {Filter{Verdict: "dropped"}, 0}, "rate": {rate, 1}, "namespace": {Filter{Namespace: "other"}, 0},
		"from labels": {withLabels("app=web-0", "", false), 2}, "to labels": {withLabels("", "app in (db-0,other)", false), 2}, "between labels": {withLabels("app", "app=db-0", false), 2},
		"not from labels": {withLabels("app=web-0", "", true), 1}, "labels of no pod": {withLabels("app=none", "", false), 0}, "not from labels of no pod": {withLabels("app=none", "", true), 3},
		"port": {Filter{Port: "5432", Protocol: "tcp"}, 2}, "another protocol": {Filter{Protocol: "udp"}, 0},
	} {
		a, err := NewStreams(shop(t), shopFlows(), nil, c.filter, 0)
		if err != nil || len(a.Streams) != c.want {
			t.Errorf("%s: %v, %+v", name, err, a.Streams)
		}
	}
	if a, err := NewStreams(shop(t), shopFlows(), nil, Filter{}, 0); err != nil || !strings.Contains(text(t, a), "netpol/shop/db-ingress ingress[1]\n") {
		t.Errorf("%v, no rule of the policy in\n%s", err, text(t, a))
	}
	a, err := NewStreams(shop(t), shopFlows(), []string{"node/w3: no answer"}, Filter{}, 1)
	if err != nil || a.Named != 3 || a.Flows != 4 || len(a.Streams) != 1 || a.Code != Uncertain || len(a.Unnamed) != 1 {
		t.Errorf("%v, %+v", err, a)
	}
	if got := text(t, a); !strings.Contains(got, "svc/shop/db (pod/shop/db-0)") || !strings.Contains(got, "3 of 4 flows") {
		t.Error(got)
	}
	for _, wrong := range []Filter{{Place: "cloud"}, {Reason: "x"}, {Verdict: "lost"}, withLabels("app=(", "", false), withLabels("", "-a", false)} {
		if wrong.Validate() == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

// TestWatched_GivesWhatIsNewOrChanged: more packets of a stream are no change. A stream that comes again is new.
func TestWatched_GivesWhatIsNewOrChanged(t *testing.T) {
	one := streams.Stream{Node: "w1", Ends: streams.Ends{From: "pod/shop/web-0", To: "pod/shop/db-0"}, Placed: flowapi.Placed{Place: offload.OVS}, Packets: 1, Decision: streams.Decision{DecidedBy: []string{"Pod/shop/db-0"}}}
	more, hardware, dropped, answer := one, one, one, one
	more.Packets, hardware.Place, dropped.Drops, answer.Direction = 9, offload.Hardware, true, flowapi.Reply
	w := &Watched{}
	for i, c := range []struct {
		now  []streams.Stream
		want int
	}{
		{[]streams.Stream{one, one}, 1}, {[]streams.Stream{more}, 0}, {[]streams.Stream{hardware}, 1}, {[]streams.Stream{hardware, dropped, answer}, 2}, {nil, 0}, {[]streams.Stream{hardware}, 1},
	} {
		if got := w.Changed(&Streams{Streams: c.now}); len(got) != c.want {
			t.Errorf("%d: %d changed, want %d", i, len(got), c.want)
		}
	}
	first := w.Lines([]streams.Stream{one}, taken)
	if second := w.Lines([]streams.Stream{more}, taken); strings.Count(first, "\n") != 2 || strings.Count(second, "\n") != 1 || !strings.Contains(first, "TIME") || strings.Index(first, "DECIDED") != len("TIME      FROM            TO             PROTOCOL  PACKETS  PACKETS/S  PLACE  BECAUSE  ") {
		t.Errorf("%s%s", first, second)
	}
}

func TestExplainPod_StreamsWithAdvice(t *testing.T) {
	e, err := ExplainPod(shop(t), "shop/web-0")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.AddStreams(shop(t), shopFlows(), nil, To{}); err != nil || len(e.Streams) != 3 || len(e.Advice) != 1 {
		t.Fatalf("%v, %+v", err, e.PodStreams)
	}
	if e.Sum.Flows != 4 || e.Sum.PacketsPerSecond == nil || *e.Sum.PacketsPerSecond != 50 {
		t.Errorf("%+v", e.Sum)
	}
	if unmeasured := sumOf([]streams.Stream{{Node: "w1", Flows: []string{"a", "a"}}, {Node: "w2", Flows: []string{"a"}}}); unmeasured.Flows != 2 || unmeasured.PacketsPerSecond != nil {
		t.Errorf("without a rate: %+v", unmeasured)
	}
	got := text(t, e)
	for _, part := range []string{"3 streams, 4 flows of the datapath, 50 packets a second\nFROM", "WHY  pod/shop/web-0 to svc/shop/db tcp:5432", "1. action (hash), svc/shop/db", "1. where a Service chooses the endpoint, reach the endpoints without it, as by a headless Service: then 2 is left", "2. port (not a representor)", "then 2 is left", "then hardware, unless"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	e.PodStreams = PodStreams{}
	if err := e.AddStreams(shop(t), shopFlows(), nil, To{Object: "svc/shop/db"}); err != nil || len(e.Streams) != 1 {
		t.Errorf("%v, %+v", err, e.Streams)
	}
	e.PodStreams = PodStreams{}
	if err := e.AddStreams(shop(t), shopFlows(), nil, To{Port: "5433"}); err != nil || len(e.Streams) != 0 || e.Sum != nil {
		t.Errorf("to another port: %v, %+v", err, e.Streams)
	}
	withPolicy := shop(t)
	withPolicy.Add(snapshot.NetworkPolicies, map[string]any{"metadata": map[string]any{"name": "db-ingress", "namespace": "shop"}, "spec": map[string]any{"podSelector": map[string]any{}}})
	d, err := ExplainPolicy(withPolicy, selected.Kinds()[0], "shop/db-ingress", shopFlows(), nil)
	if err != nil || len(d.Streams) != 1 || d.Share.Hardware.Packets != 69 || len(d.Pods) != 2 || d.Selected == nil || *d.Selected != 2 || !strings.Contains(text(t, d), "selects 2 pods") {
		t.Errorf("%v, %+v", err, d)
	}
	if d, err = ExplainPolicy(shop(t), selected.Kinds()[0], "shop/other", shopFlows(), nil); err != nil || len(d.Streams) != 0 {
		t.Errorf("a policy that decides nothing: %v, %+v", err, d)
	}
	if d, err = ExplainService(shop(t), "shop/db", shopFlows(), nil); err != nil || len(d.Streams) != 1 {
		t.Errorf("%v, %+v", err, d)
	}
	if _, err = ExplainService(shop(t), "shop/none", shopFlows(), nil); !errors.As(err, new(ErrNotFound)) {
		t.Errorf("a service that does not exist: %v", err)
	}
}

// TestExplainFlow_HasTheStreamsOfTheFlow, of which it may be the first part.
func TestExplainFlow_HasTheStreamsOfTheFlow(t *testing.T) {
	flows := shopFlows()[:2]
	var way []string
	for _, f := range WayOf(flows, "a") {
		way = append(way, f.ID)
	}
	e, err := ExplainFlow(shop(t), "w1", "a", flows, nil)
	if err != nil || strings.Join(way, "") != "ab" || len(e.Streams) != 1 || len(e.Advice) != 1 || len(e.Steps) != 1 {
		t.Fatalf("%v, way %v, %+v", err, way, e)
	}
	got := text(t, e)
	for _, part := range []string{"flow a  node w1  ovs", "actions  ct(nat),recirc(0x1)", "ls_in_lb  load balancer  svc/shop/db", "svc/shop/db (pod/shop/db-0)", "1. action (hash)"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	if _, err = ExplainFlow(shop(t), "w1", "c", flows, nil); !errors.As(err, new(ErrNotFound)) {
		t.Errorf("a flow that has ended: %v", err)
	}
	if e, err = ExplainFlow(shop(t), "w1", "c", nil, []string{"node/w1: no answer"}); err != nil || e.Code != Uncertain || text(t, e) != "the flow is not known\n" {
		t.Errorf("of a node without an answer: %v, %+v", err, e)
	}
}

// TestExplainFlow_SaysWhatTheDriverSays about a flow that it refused, and before that the command that asks. What was not asked is
// a fact that is missing.
func TestExplainFlow_SaysWhatTheDriverSays(t *testing.T) {
	const next = "kubectl offload explain flow a@w1 --ask-driver"
	explain := func(at flowapi.Placed) *FlowExplained {
		t.Helper()
		flows := shopFlows()[:2]
		flows[0].Placed = at
		e, err := ExplainFlow(shop(t), "w1", "a", flows, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	refused := flowapi.Placed{Place: offload.TC, Reason: offload.ReasonRefused}
	for _, at := range []flowapi.Placed{{Place: offload.Hardware}, {Place: offload.TC, Reason: offload.ReasonSoftware}, {Place: offload.OVS, Reason: offload.ReasonRefused}} {
		if e := explain(at); e.Next == next {
			t.Errorf("%v: the driver is to be asked", at)
		}
	}
	const deleted = "offered once more at pref 16 of rep0, and deleted"
	for want, c := range map[string]struct {
		asked *flowapi.Asked
		err   error
		code  Code
	}{
		`driver "swsim: no" (operation not supported) ` + deleted:   {asked: &flowapi.Asked{Port: "rep0", Priority: 16, Text: "swsim: no", Error: "operation not supported"}},
		"driver refuses it without a text (no space) " + deleted:    {asked: &flowapi.Asked{Port: "rep0", Priority: 16, Error: "no space"}},
		`driver "swsim: no" ` + deleted:                             {asked: &flowapi.Asked{Port: "rep0", Priority: 16, Text: "swsim: no"}},
		"driver takes this rule now " + deleted:                     {asked: &flowapi.Asked{Port: "rep0", Priority: 16, Taken: true}},
		"what the driver says, which was not asked: TC has no rule": {asked: &flowapi.Asked{Problem: "TC has no rule"}, code: Uncertain},
		"what the driver says: no answer":                           {err: errors.New("no answer"), code: Uncertain},
	} {
		e := explain(refused)
		if e.Next != next {
			t.Errorf("next is %q", e.Next)
		}
		e.AddDriver(c.asked, c.err)
		got := strings.Join(strings.Fields(text(t, e)+strings.Join(e.Missing, "\n")), " ")
		if !strings.Contains(got, want) || e.Code != c.code || e.Next != "kubectl offload explain pod/shop/web-0" {
			t.Errorf("code %d, next %q, no %q in\n%s", e.Code, e.Next, want, got)
		}
	}
}

// TestDPUs_HostAndDPUAreOneMachine: the streams of a host's pods are of the host's name, live and from an archive, and each answer
// about them names the DPU.
func TestDPUs_HostAndDPUAreOneMachine(t *testing.T) {
	live := shop(t)
	live.SetDPU("w1", "bf3-1")
	var file bytes.Buffer
	archive, err := snapshot.NewArchive(&file, shop(t))
	if err != nil {
		t.Fatal(err)
	}
	of := snapshot.NodeFlows{Summary: &flowapi.Summary{Node: "w1"}, Flows: shopFlows()[:2], DPU: "bf3-1"}
	if err := errors.Join(archive.AddFlows("w1", of), archive.Close()); err != nil {
		t.Fatal(err)
	}
	read, err := snapshot.Open(&file)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*snapshot.Snapshot{"live": live, "archive": read} {
		e, err := ExplainPod(s, "shop/web-0")
		if err != nil {
			t.Fatal(err)
		}
		list, err1 := NewStreams(s, shopFlows()[:2], nil, Filter{}, 0)
		l, err2 := NewLive(s, streams.Ends{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}, "", shopFlows()[:2], nil)
		if err := errors.Join(err1, err2, e.AddStreams(s, shopFlows()[:2], nil, To{})); err != nil {
			t.Fatal(err)
		}
		for _, a := range []Answer{e, list, l} {
			var out bytes.Buffer
			if err := Write(&out, a, "text", taken); err != nil || !strings.Contains(out.String(), "the flows of node/w1 are those of its DPU, node/bf3-1\n") {
				t.Errorf("%s: %T: %v: %s", name, a, err, out.String())
			}
		}
		if len(e.Streams) != 1 || e.Streams[0].Node != "w1" || len(l.Legs) != 1 || l.Legs[0].Node != "w1" {
			t.Errorf("%s: %+v, %+v", name, e.Streams, l.Legs)
		}
	}
	if list, err := NewStreams(shop(t), nil, nil, Filter{}, 0); err != nil || list.DPUs != nil {
		t.Errorf("without a DPU: %v, %+v", err, list)
	}
}

func TestTop_SortsBySoftware(t *testing.T) {
	in := func(hardware, ovs uint64) offload.Share {
		return offload.Share{Hardware: offload.Count{Packets: hardware}, OVS: offload.Count{Packets: ovs}}
	}
	summaries := []*flowapi.Summary{
		{Node: "w1", Seconds: 10, Total: in(100, 50), Outside: []offload.Cause{{Reason: "action", Detail: "hash", Count: offload.Count{Packets: 50}}}, Pods: []flowapi.PodSummary{
			{Namespace: "shop", Name: "web-0", Traffic: in(90, 50), Reason: "action", Detail: "hash"}, {Namespace: "shop", Name: "fast", Traffic: in(10, 0)}, {Namespace: "shop", Name: "silent"},
		}},
		{Node: "w2", Seconds: 10, Total: in(5, 80), Outside: []offload.Cause{{Reason: "port", Count: offload.Count{Packets: 80}}}},
	}
	for by, want := range map[string]string{"pod": "shop/web-0 shop/fast", "node": "w2 w1", "reason": "port action"} {
		top := NewTop(snapshot.New(taken, "ovn-kubernetes"), by, summaries, nil, false)
		var names []string
		for _, row := range top.Rows {
			names = append(names, row.Name)
		}
		if got := strings.Join(names, " "); got != want || *top.Total.Rate != 23.5 || top.Nodes != 2 {
			t.Errorf("%s: %s, %+v", by, got, top.Total)
		}
	}
	summaries[1].Pods = []flowapi.PodSummary{{Namespace: "bank", Name: "db-0", Traffic: in(5, 80), Reason: "port"}}
	for by, want := range map[string]string{"pod": "bank/db-0", "node": "w2", "reason": "port"} {
		top := NewTop(snapshot.New(taken, "ovn-kubernetes"), by, InNamespace(summaries, "bank"), nil, false)
		if len(top.Rows) != 1 || top.Rows[0].Name != want || top.Rows[0].Traffic.OVS.Packets != 80 || *top.Total.Rate != 8.5 || top.Nodes != 2 {
			t.Errorf("%s of a namespace: %+v, %+v", by, top.Rows, top.Total)
		}
	}
	if all := InNamespace(summaries, ""); all[0] != summaries[0] {
		t.Error("without a namespace something is left out")
	}
	top := NewTop(snapshot.New(taken, "ovn-kubernetes"), "pod", summaries, []string{"node/w3: no answer"}, true)
	if got := text(t, top); strings.Contains(got, "shop/fast") || !strings.Contains(got, "64 %") || !strings.Contains(got, "action (hash)") || top.Code != Uncertain {
		t.Errorf("exit code %d: %s", top.Code, got)
	}
	a, err := NewStreams(shop(t), shopFlows(), nil, Filter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if top = NewTopStreams(a, "stream", true); len(top.Rows) != 1 || top.Rows[0].Name != "pod/shop/web-0 > svc/shop/db tcp:5432" {
		t.Errorf("%+v", top.Rows)
	}
}

// TestPodsAtEnds_AreThoseOfTheNodesOfTunnels, and all where a tunnel leads to no node that is known.
func TestPodsAtEnds_AreThoseOfTheNodesOfTunnels(t *testing.T) {
	s := snapshot.New(time.Unix(0, 0), "ovn-kubernetes")
	for name, address := range map[string]string{"w1": "192.0.2.1", "w2": "192.0.2.2"} {
		s.Add(snapshot.Nodes, map[string]any{
			"metadata": map[string]any{"name": name, "annotations": map[string]any{contract.NodeEncapIPsKey: `["198.51.100` + strings.TrimPrefix(address, "192.0.2") + `"]`}},
			"status":   map[string]any{"addresses": []any{map[string]any{"address": address}}},
		})
	}
	to := func(tunnels ...string) (flows []flowapi.Flow) {
		for _, tunnel := range tunnels {
			flows = append(flows, flowapi.Flow{Packet: flowapi.Packet{Tunnel: tunnel}})
		}
		return flows
	}
	one, two := &PodExplained{Node: "w1"}, &PodExplained{Node: "w1", PodNetwork: PodNetwork{Networks: make([]PodInterface, 2)}}
	on1, on2 := snapshot.Selected{Fields: "spec.nodeName=w1"}, snapshot.Selected{Fields: "spec.nodeName=w2"}
	for name, test := range map[string]struct {
		pod   *PodExplained
		flows []flowapi.Flow
		want  []snapshot.Selected
	}{
		"its own node":         {one, to(""), []snapshot.Selected{on1}},
		"the node of a tunnel": {one, to("192.0.2.2", ""), []snapshot.Selected{on2, on1}},
		"its tunnel address":   {one, to("198.51.100.2", "192.0.2.2"), []snapshot.Selected{on2}},
		"no such node":         {one, to("192.0.2.9"), []snapshot.Selected{{}}},
		"two networks":         {two, to(""), []snapshot.Selected{{}}},
	} {
		if got, err := PodsAtEnds(s, test.pod, test.flows); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestMeasured_IsThatOfTheOldestFlows: of all nodes that answered, in text and JSON. Without flows there is no such line.
func TestMeasured_IsThatOfTheOldestFlows(t *testing.T) {
	now := taken.Add(10 * time.Second)
	for name, c := range map[string]struct {
		answers []*flowapi.Flows
		want    string
	}{
		"no flows":  {nil, ""},
		"two nodes": {[]*flowapi.Flows{{Taken: taken.Add(7 * time.Second)}, {Taken: taken.Add(2 * time.Second)}, {Taken: taken.Add(9 * time.Second)}}, "flows as of " + taken.Add(2*time.Second).Format(time.RFC3339) + ", 8 s ago\n"},
	} {
		s := shop(t)
		s.Measure(c.answers)
		streamsOf, err := NewStreams(s, shopFlows(), nil, Filter{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		live, err := NewLive(s, streams.Ends{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}, "", shopFlows(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var summaries []*flowapi.Summary
		for _, got := range c.answers {
			summaries = append(summaries, &flowapi.Summary{Taken: got.Taken})
		}
		for _, a := range []Answer{streamsOf, live, NewTop(shop(t), "node", summaries, nil, false), NewTopStreams(streamsOf, "stream", false)} {
			var out, js strings.Builder
			if err := errors.Join(Write(&out, a, "text", now), Write(&js, a, "json", now)); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), "flows as of") != (c.want != "") || strings.Contains(js.String(), `"measured"`) != (c.want != "") {
				t.Errorf("%s: %s: no %q in\n%s", name, a.Head().Kind, c.want, out.String())
			}
		}
	}
}
