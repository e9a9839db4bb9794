package answer

import (
	"testing"
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
