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
	if top := NewTopStreams(a, "svc", false); top.Rows[0].Rate == nil || *top.Rows[0].Rate != 50 || top.Rows[0].Traffic.OVS.Packets != 70 {
		t.Errorf("%+v", top.Rows)
	}
	if top := NewTopStreams(a, "stream", false); len(top.Rows) != 3 {
		t.Errorf("%d streams", len(top.Rows))
	}
}
