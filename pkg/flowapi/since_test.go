package flowapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

var start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func at(after time.Duration, hardware, ovs uint64) *Summary {
	share := offload.Share{Hardware: offload.Count{Packets: hardware}, OVS: offload.Count{Packets: ovs}}
	return &Summary{
		Taken: start.Add(after), Total: share, Pods: []PodSummary{{Namespace: "shop", Name: "web-0", Traffic: share}},
		Outside: []offload.Cause{{Reason: "action", Count: offload.Count{Packets: ovs}}},
	}
}

func TestSince_OfFormerAgents(t *testing.T) {
	got := Since(at(0, 100, 50), at(4*time.Second, 300, 20)) // flows in software have ended
	if got.Seconds != 4 || got.Total.Hardware.Packets != 200 || got.Total.OVS.Packets != 0 || got.Pods[0].Traffic != got.Total || got.Outside[0].Packets != 0 {
		t.Errorf("%+v", got)
	}
	if same := Since(at(0, 1, 1), at(0, 1, 1)); same.Seconds != 0 || same.Total.Hardware.Packets != 1 {
		t.Errorf("of one dump: %+v", same)
	}
}

// counted is a summary of an agent that counts since a moment.
func counted(after, since time.Duration, hardware, ovs uint64) *Summary {
	s := at(after, 1, 2) // what lives now is something else
	s.CountedSince = start.Add(since)
	s.Counted = at(0, hardware, ovs).Total
	s.Pods[0].Counted, s.Pods[0].CountedDrops = s.Counted, offload.Count{Packets: ovs / 10}
	s.CountedOutside = []offload.Cause{{Reason: "port", Count: offload.Count{Packets: 1}}, {Reason: "action", Count: offload.Count{Packets: ovs}}}
	return s
}

// TestSince_IsWhatAnAgentCounted between two summaries, whatever lives then. Of an agent that has begun anew it is what it has counted
// since then, and after its first dump nothing.
func TestSince_IsWhatAnAgentCounted(t *testing.T) {
	for name, c := range map[string]struct {
		before, after *Summary
		seconds       float64
		hardware, ovs uint64
	}{
		"two dumps":                    {counted(0, -time.Hour, 100, 50), counted(4*time.Second, -time.Hour, 300, 90), 4, 200, 40},
		"nothing":                      {counted(0, -time.Hour, 100, 50), counted(4*time.Second, -time.Hour, 100, 50), 4, 0, 0},
		"begun anew":                   {counted(0, -time.Hour, 100, 50), counted(9*time.Second, 4*time.Second, 30, 20), 5, 30, 20},
		"begun with this dump":         {counted(0, -time.Hour, 100, 50), counted(4*time.Second, 4*time.Second, 0, 0), 0, 1, 2},
		"the former one did not count": {at(0, 100, 50), counted(9*time.Second, 4*time.Second, 30, 20), 5, 30, 20},
	} {
		got := Since(c.before, c.after)
		want := at(0, c.hardware, c.ovs).Total
		if got.Seconds != c.seconds || got.Total != want || got.Pods[0].Traffic != want {
			t.Errorf("%s: %v s, %+v, %+v", name, got.Seconds, got.Total, got.Pods[0].Traffic)
		}
		if c.seconds > 0 && c.ovs > 1 && (len(got.Outside) != 2 || got.Outside[0].Reason != "action" || got.Outside[0].Packets != c.ovs || got.Pods[0].Drops.Packets != c.ovs/10) {
			t.Errorf("%s: %+v, %+v", name, got.Outside, got.Pods[0].Drops)
		}
	}
	before, after := counted(0, -time.Hour, 100, 50), counted(4*time.Second, -time.Hour, 300, 90)
	after.Pods[0].Counted = at(0, 7, 3).Total // another pod of that name
	if got := Since(before, after); got.Pods[0].Traffic.Hardware.Packets != 7 || got.Pods[0].Traffic.OVS.Packets != 3 {
		t.Errorf("a new pod: %+v", got.Pods[0])
	}
	kept := counted(4*time.Second, -time.Hour, 300, 90)
	kept.Pods[0].Counted = after.Pods[0].Counted
	if diff := cmp.Diff(kept, after); diff != "" {
		t.Errorf("the summary was changed: %s", diff)
	}
}
