package streams

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

func whose(_, address string) string {
	known := map[string]string{"10.96.0.44": "svc/shop/db", "10.244.2.9": "pod/shop/db-0", "10.244.1.7": "pod/shop/web"}
	if name, ok := known[address]; ok {
		return name
	}
	return address
}

func by(row, object string) *flowapi.Why {
	return &flowapi.Why{Rules: []flowapi.Rule{{Cookie: 1, Name: &flowapi.Name{Row: row, Objects: []string{object}}}}}
}

// service is a way of three flows through conntrack to an endpoint of a service on another node.
func service() []flowapi.Flow {
	rate := 10.0
	web := flowapi.End{Port: "rep1", Namespace: "shop", Pod: "web"}
	hardware, tcp := flowapi.Placed{Place: offload.Hardware}, "tcp"
	return []flowapi.Flow{
		{ID: "a", Node: "w1", From: web, Packet: flowapi.Packet{Protocol: tcp, Target: "10.96.0.44", TargetPort: "5432"}, Way: flowapi.Way{Next: []uint32{1}}, Placed: hardware, Actions: "ct(zone=1,nat),recirc(0x1)", Why: by("Load_Balancer", "Service/shop/db")},
		{ID: "b", Node: "w1", From: web, Packet: flowapi.Packet{Protocol: tcp, Target: "10.244.2.9"}, Way: flowapi.Way{Recirculation: 1, Next: []uint32{2}}, Placed: hardware, Actions: "ct(zone=2),recirc(0x2)", Why: by("ACL", "NetworkPolicy/shop/egress")},
		{ID: "c", Node: "w1", From: web, To: []flowapi.End{{Port: "genev_sys_6081"}}, Packet: flowapi.Packet{Target: "10.244.2.9", Tunnel: "192.0.2.2"}, Way: flowapi.Way{Recirculation: 2},
			Placed: hardware, Traffic: flowapi.Traffic{Packets: 7, Bytes: 700, PacketsPerSecond: &rate}, Actions: "set(tunnel(dst=192.0.2.2)),genev_sys_6081", Why: by("Logical_Switch_Port", "Pod/shop/db-0")},
		{ID: "other", Node: "w1", From: web, Packet: flowapi.Packet{Protocol: "udp"}, Way: flowapi.Way{Next: []uint32{1}}, Actions: "ct(zone=1,nat),recirc(0x1)"},
		{ID: "drop", Node: "w1", From: web, Packet: flowapi.Packet{Protocol: tcp, Target: "192.0.2.9", TargetPort: "22"}, Way: flowapi.Way{Drops: true},
			Placed: flowapi.Placed{Place: offload.OVS, Reason: offload.ReasonNew}, Traffic: flowapi.Traffic{Packets: 1}, Actions: "drop", Why: &flowapi.Why{Problem: "gone"}},
	}
}

// TestJoin_KeepsDirectionsApart: answers that come by the same number are not on the way of requests to a node port, which has the pod
// behind it. The requests may be of flows without a direction.
func TestJoin_KeepsDirectionsApart(t *testing.T) {
	names := func(network, address string) string {
		if address == "192.0.2.1" {
			return "node/w1"
		}
		return whose(network, address)
	}
	uplink := flowapi.End{Port: "eth0"}
	flow := func(id, source, target, direction string, at uint32, next ...uint32) flowapi.Flow {
		return flowapi.Flow{ID: id, Node: "w1", From: uplink, Packet: flowapi.Packet{Protocol: "tcp", Source: source, Target: target, Direction: direction},
			Way: flowapi.Way{Recirculation: at, Next: next}, Actions: "ct(nat),recirc"}
	}
	answers, asks := flow("answers", "198.51.100.9", "192.0.2.1", flowapi.Reply, 0, 1), flow("asks", "203.0.113.7", "192.0.2.1", flowapi.Original, 0, 1)
	asks.TargetPort = "30080"
	either := flow("either", "203.0.113.8", "192.0.2.1", "", 0, 1)
	last := flow("last", "", "10.244.2.9", flowapi.Original, 1)
	for from, flows := range map[string][]flowapi.Flow{"203.0.113.7": {answers, asks, last}, "203.0.113.8": {answers, either, last}, "198.51.100.9": {answers, last}} {
		got := Join(flows, names)
		if len(got) != 1 || got[0].From != from || got[0].To != "node/w1" || got[0].Via != "pod/shop/db-0" {
			t.Errorf("from %s: %+v", from, got)
		}
	}
	web := last // an answer to the node's address that is for a pod
	web.To, web.Direction = []flowapi.End{{Port: "rep1", Namespace: "shop", Pod: "web"}}, flowapi.Reply
	if got := Join([]flowapi.Flow{answers, web}, names); len(got) != 1 || got[0].To != "pod/shop/web" || got[0].Via != "" {
		t.Errorf("%+v", got)
	}
}

func TestJoin_FollowsAWayThroughConntrack(t *testing.T) {
	flows := service()
	flows[1].Why.Rules[0].Name.Rule = "egress[2]"
	flows[1].Why.Rules = append(flows[1].Why.Rules, flowapi.Rule{Name: &flowapi.Name{Row: "Logical_Switch_Port", Rule: "egress[3]", Objects: []string{"NetworkPolicy/shop/other"}}})
	got := Join(flows, whose)
	rate := 10.0
	want := []Stream{
		{
			Node: "w1", Ends: Ends{From: "pod/shop/web", To: "svc/shop/db", Via: "pod/shop/db-0", Protocol: "tcp", Port: "5432"},
			Placed: flowapi.Placed{Place: offload.Hardware}, Packets: 7, Bytes: 700, PacketsPerSecond: &rate, Tunnel: "192.0.2.2",
			Decision: Decision{DecidedBy: []string{"Service/shop/db", "NetworkPolicy/shop/egress"}, Rules: map[string][]string{"NetworkPolicy/shop/egress": {"egress[2]"}}}, Flows: []string{"a", "b", "c"},
		},
		{
			Node: "w1", Ends: Ends{From: "pod/shop/web", To: "192.0.2.9", Protocol: "tcp", Port: "22"},
			Placed: flowapi.Placed{Place: offload.OVS, Reason: offload.ReasonNew}, Packets: 1, Drops: true, Decision: Decision{Unnamed: "gone"}, Flows: []string{"drop"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !got[0].Of("pod/shop/db-0") || got[0].Of("pod/shop/other") {
		t.Error("ends")
	}
	share := Share(got)
	if share.Hardware.Packets != 7 || share.OVS.Packets != 1 {
		t.Errorf("%+v", share)
	}
}

// TestJoin_NamesTheNarrowestAddress: one flow of a way matches a network, another one the address.
func TestJoin_NamesTheNarrowestAddress(t *testing.T) {
	flows := service()
	flows[0].Target, flows[0].Source = "10.96.0.0/12", "10.244.1.0/24"
	flows[1].Source = "10.244.1.7"
	flows[0].From = flowapi.End{Port: "rep1"}
	flows[1].From, flows[2].From = flows[0].From, flows[0].From
	if got := Join(flows, whose); got[0].From != "pod/shop/web" || got[0].To != "pod/shop/db-0" {
		t.Errorf("%+v", got[0])
	}
}

// TestJoin_LeavesOutWhatIsStale: its packets were handled otherwise than its actions say now.
func TestJoin_LeavesOutWhatIsStale(t *testing.T) {
	flows := service()
	flows[4].Stale = true
	if got := Join(flows, whose); len(got) != 1 || got[0].Drops {
		t.Errorf("%+v", got)
	}
}

// TestInherit_NamesByTheFlowsBefore: a translation of the network itself is of no object, and comes after a Service.
func TestInherit_NamesByTheFlowsBefore(t *testing.T) {
	ofNone := &flowapi.Why{Rules: []flowapi.Rule{{Cookie: 1, Name: &flowapi.Name{Stage: "lr_out_snat"}}}}
	for name, c := range map[string]struct {
		why  *flowapi.Why
		want []string
	}{
		"rules of no object":      {ofNone, []string{"Service/shop/db", "NetworkPolicy/shop/egress"}},
		"rules are not known":     {&flowapi.Why{Problem: "gone"}, nil},
		"no rules":                {&flowapi.Why{}, nil},
		"not asked for":           {nil, nil},
		"a row is not there":      {&flowapi.Why{Rules: []flowapi.Rule{{Cookie: 1, Name: &flowapi.Name{Problem: "no row"}}}}, nil},
		"a rule without its name": {&flowapi.Why{Rules: []flowapi.Rule{{Cookie: 1}}}, nil},
	} {
		flows := service()
		flows[2].Why = c.why
		if Inherit(flows); !slices.Equal(flows[2].DecidedBy, c.want) || flows[4].DecidedBy != nil {
			t.Errorf("%s: decided by %v, want %v; the drop by %v", name, flows[2].DecidedBy, c.want, flows[4].DecidedBy)
		}
	}
	first := []flowapi.Flow{{ID: "a", Node: "w1", Why: ofNone}}
	if Inherit(first); first[0].DecidedBy != nil {
		t.Errorf("without flows before: %v", first[0].DecidedBy)
	}
}

// TestJoin_NodesAndPortsAreApart: numbers of recirculation are a node's own.
func TestJoin_NodesAndPortsAreApart(t *testing.T) {
	flows := service()
	for i := range flows[:2] {
		flows[i].Node = "w2"
	}
	got := Join(flows, whose)
	if !slices.Equal(got[0].Flows, []string{"c"}) || got[0].To != "pod/shop/db-0" {
		t.Errorf("%+v", got[0])
	}
}
