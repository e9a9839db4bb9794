package answer

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// TestTop_ByServiceAndPolicy: a stream counts for the service that it asks, and for each policy that decides about it.
func TestTop_ByServiceAndPolicy(t *testing.T) {
	flows := shopFlows()
	flows[2].Drops = true
	a, err := NewStreams(shop(t), flows, nil, Filter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for by, want := range map[string]TopRow{"svc": {Name: "svc/shop/db", Because: "action (hash)"}, "policy": {Name: "netpol/shop/db-ingress", Drops: 69}} {
		top := NewTopStreams(a, by, false)
		if len(top.Rows) != 1 || top.Nodes != 2 {
			t.Fatalf("%s: %+v", by, top)
		}
		if got := top.Rows[0]; got.Name != want.Name || got.Because != want.Because || got.Drops != want.Drops || got.Node != "" {
			t.Errorf("%s: %+v, want %+v", by, got, want)
		}
	}
	for by, want := range map[string]string{"svc": "explain svc/shop/db", "policy": "explain netpol/shop/db-ingress", "stream": "explain pod/shop/web-0"} {
		if top := NewTopStreams(a, by, false); top.Next != "kubectl offload "+want {
			t.Errorf("after %s: %s", by, top.Next)
		}
	}
	for by, want := range map[string]string{"node": "explain node/x", "pod": "explain pod/x", "reason": "flows --reason x"} {
		if got := next(by, TopRow{Name: "x"}); got != "kubectl offload "+want {
			t.Errorf("after %s: %s", by, got)
		}
	}
	for namespace, want := range map[string]string{"": "top --by node", "shop": "top --by node -n shop"} {
		none, err := NewStreams(shop(t), nil, nil, Filter{Namespace: namespace}, 0)
		if top := NewTopStreams(none, "svc", false); err != nil || none.Next != "kubectl offload "+want || top.Next != none.Next {
			t.Errorf("without streams of %q: %v, %s and %s", namespace, err, none.Next, top.Next)
		}
	}
	if top := NewTopStreams(a, "stream", false); top.In("shop").Next != "kubectl offload explain pod/shop/web-0" {
		t.Errorf("in a namespace: %s", top.Next)
	}
	if got := next("policy", TopRow{Name: "anp/deny"}); got != "kubectl offload explain anp/deny" {
		t.Errorf("explain does not know it: %s", got)
	}
	if top := NewTopStreams(a, "svc", false); top.Rows[0].Rate == nil || *top.Rows[0].Rate != 50 || top.Rows[0].Traffic.OVS.Packets != 70 {
		t.Errorf("%+v", top.Rows)
	}
	if top := NewTopStreams(a, "stream", false); len(top.Rows) != 3 {
		t.Errorf("%d streams", len(top.Rows))
	}
}

// TestTop_SaysMegabitsASecond of pods, nodes and reasons: the bytes between two dumps, of all nodes that were read twice. Streams have no bytes
// between two dumps.
func TestTop_SaysMegabitsASecond(t *testing.T) {
	count := func(packets, bytes uint64) offload.Count { return offload.Count{Packets: packets, Bytes: bytes} }
	of := func(node string, seconds float64, hardware, ovs offload.Count) *flowapi.Summary {
		share := offload.Share{Hardware: hardware, OVS: ovs}
		return &flowapi.Summary{
			Node: node, Seconds: seconds, Total: share, Outside: []offload.Cause{{Reason: "action", Count: ovs}},
			Pods: []flowapi.PodSummary{{Namespace: "shop", Name: "on-" + node, Traffic: share}},
		}
	}
	summaries := []*flowapi.Summary{
		of("w1", 10, count(1000, 1_500_000), count(500, 500_000)), of("w2", 2, count(100, 100_000), count(50, 25_000)),
		of("w3", 0, count(7, 700), count(1, 100)),
	}
	for by, want := range map[string]map[string]string{
		"pod":    {"shop/on-w1": "150 1.6", "shop/on-w2": "75 0.5", "shop/on-w3": "- -"},
		"node":   {"w1": "150 1.6", "w2": "75 0.5", "w3": "- -"},
		"reason": {"action": "75 0.5"},
	} {
		top := NewTop(snapshot.New(taken, "ovn-kubernetes"), by, summaries, nil, false)
		got := map[string]string{}
		for _, row := range top.Rows {
			got[row.Name] = number(row.Rate) + " " + megabits(row.Bits)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: packets and megabits a second %v, want %v", by, got, want)
		}
		if out := text(t, top); !strings.Contains(out, "225 packets/s, 2.1 Mb/s\n") || !strings.Contains(out, "PACKETS/S  Mb/s  HARDWARE") {
			t.Errorf("%s:\n%s", by, out)
		}
	}
	before, after := of("w1", 0, count(10, 1000), count(5, 500)), of("w1", 0, count(20, 251_000), count(5, 500))
	before.Taken, after.Taken = taken, taken.Add(2*time.Second)
	if top := NewTop(snapshot.New(taken, "ovn-kubernetes"), "pod", []*flowapi.Summary{flowapi.Since(before, after)}, nil, false); *top.Total.Bits != 1e6 || *top.Rows[0].Bits != 1e6 {
		t.Errorf("between two dumps: %+v", top)
	}
	a, err := NewStreams(shop(t), shopFlows(), nil, Filter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if top := NewTopStreams(a, "svc", false); top.Rows[0].Rate == nil || top.Rows[0].Bits != nil || megabits(top.Rows[0].Bits) != "-" {
		t.Errorf("of streams: %+v", top.Rows)
	}
}
