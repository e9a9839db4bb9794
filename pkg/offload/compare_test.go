package offload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

var (
	web   = Port{Name: "rep0", Pod: contract.PodOwner("shop", "web"), Device: Device{Representor: true, HWTC: true, Function: true}}
	veth  = Port{Name: "veth0", Pod: contract.PodOwner("shop", "old")}
	start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
)

func sample(after time.Duration, ends ...End) Sample {
	return Sample{
		At: start.Add(after), Took: time.Millisecond, Switch: unixctl.Instance{PID: 1},
		Report: Report{Ports: []PortReport{{Port: web}, {Port: veth}}, Ends: ends},
	}
}

func end(ufid string, place Place, reason Reason, packets uint64) End {
	return End{UFID: ufid, From: "rep0", To: []string{"veth0", "uplink"}, Place: place, Reason: reason, Packets: packets, Bytes: packets * 100}
}

func TestCompare_TrafficBetweenTwoSamples(t *testing.T) {
	before := sample(0,
		end("grows", Hardware, "", 1000), end("slow", OVS, ReasonAction, 50), end("gone", OVS, ReasonUnknown, 9),
		end("moved", OVS, ReasonUnknown, 700), end("still", TC, ReasonRefused, 5))
	after := sample(time.Minute,
		end("grows", Hardware, "", 1600), end("slow", OVS, ReasonAction, 80), end("new", TC, ReasonNew, 4),
		end("moved", Hardware, "", 20), end("still", TC, ReasonRefused, 5), end("", OVS, ReasonUnknown, 1e6))
	share := Share{
		Hardware: Count{Packets: 620, Bytes: 62000}, TC: Count{Packets: 4, Bytes: 400}, OVS: Count{Packets: 30, Bytes: 3000},
	}
	lasting := []Cause{{Reason: ReasonAction, Count: Count{Packets: 30, Bytes: 3000}}}
	want := Delta{
		Took: time.Minute, Ports: []PortDelta{
			{Port: web, From: share, Lasting: lasting}, {Port: veth, To: share, Lasting: lasting},
		},
		Total: share, Causes: []Cause{
			{Reason: ReasonAction, Count: Count{Packets: 30, Bytes: 3000}}, {Reason: ReasonNew, Count: Count{Packets: 4, Bytes: 400}}, {Reason: ReasonRefused},
		},
	}
	if diff := cmp.Diff(want, Compare(before, after)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	after.Switch.PID = 2 // all counters began again: nothing is lasting
	for _, p := range Compare(before, after).Ports {
		if sum := p.From.Sum().Packets + p.To.Sum().Packets; len(p.Lasting) > 0 || sum != 1709 {
			t.Errorf("%s: %d packets, lasting %+v", p.Name, sum, p.Lasting)
		}
	}
}

func TestFindings_LastingTrafficInSoftware(t *testing.T) {
	const minute = time.Minute
	cases := map[string]struct {
		took          time.Duration
		before, after []End
		want          Reason
	}{
		"long-lived in OVS": {minute, []End{end("a", OVS, ReasonAction, 1)}, []End{end("a", OVS, ReasonAction, 60001)}, ReasonAction},
		"the larger of two": {minute,
			[]End{end("a", OVS, ReasonAction, 1), end("b", TC, ReasonRefused, 1)},
			[]End{end("a", OVS, ReasonAction, 60001), end("b", TC, ReasonRefused, 90001)}, ReasonRefused},
		"new connections mask nothing": {minute,
			[]End{end("a", OVS, ReasonAction, 1), end("b", TC, ReasonNew, 1)},
			[]End{end("a", OVS, ReasonAction, 60001), end("b", TC, ReasonNew, 90001)}, ReasonAction},
		"new connections":      {minute, []End{end("a", TC, ReasonNew, 1)}, []End{end("a", TC, ReasonNew, 60001)}, ""},
		"in hardware":          {minute, []End{end("a", Hardware, "", 1)}, []End{end("a", Hardware, "", 60001)}, ""},
		"short-lived":          {minute, nil, []End{end("a", OVS, ReasonAction, 60001)}, ""},
		"too near":             {time.Second, []End{end("a", OVS, ReasonAction, 1)}, []End{end("a", OVS, ReasonAction, 60001)}, ""},
		"slow":                 {minute, []End{end("a", OVS, ReasonSlowPath, 1)}, []End{end("a", OVS, ReasonSlowPath, 61)}, ""},
		"small part of much":   {minute, []End{end("a", OVS, ReasonAction, 0), end("b", Hardware, "", 0)}, []End{end("a", OVS, ReasonAction, 9000), end("b", Hardware, "", 1e6)}, ""},
		"moved into the NIC":   {minute, []End{end("a", OVS, ReasonUnknown, 5)}, []End{end("a", Hardware, "", 60001)}, ""},
		"dropped out of it":    {minute, []End{end("a", Hardware, "", 5)}, []End{end("a", TC, ReasonRefused, 60005)}, ReasonRefused},
		"the switch restarted": {0, []End{end("a", OVS, ReasonAction, 1)}, []End{end("a", OVS, ReasonAction, 60001)}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Findings(Compare(sample(0, c.before...), sample(c.took, c.after...)), DefaultLimits())
			if c.want == "" {
				if len(got) > 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			// Only the pod with a device: the one behind the veth saw the same packets.
			if len(got) != 1 || got[0].Pod != web.Pod || got[0].Reason != c.want {
				t.Fatalf("%+v", got)
			}
			if got[0].Rate < 1000 || got[0].Share < .3 || got[0].Share > 1 {
				t.Errorf("%+v", got[0])
			}
		})
	}
}

func TestExplain_EachReasonHasItsText(t *testing.T) {
	seen := map[string]Reason{}
	for _, r := range Reasons() {
		if other, ok := seen[r.Explain()]; ok {
			t.Errorf("%s and %s have one text", r, other)
		}
		seen[r.Explain()] = r
	}
	f := Finding{Port: "rep0", Cause: Cause{Reason: ReasonAction, Detail: "hash"}, Rate: 1500.4, Share: .25}
	want := "1500 packets/s of rep0, 25% of its traffic, stay out of hardware: the flow has an action that the kernel's TC does not have (hash)"
	if got := f.Message(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestCompare_FlowsThatMoveBringNoPast: a flow whose counters go on at another place has carried there what it has more, and one
// that a datapath has in several threads, or at two places at once, what each has more.
func TestCompare_FlowsThatMoveBringNoPast(t *testing.T) {
	before := sample(0,
		end("kept", TC, ReasonUnknown, 1000), end("anew", OVS, ReasonUnknown, 900), end("threads", OVS, ReasonAction, 40), end("threads", OVS, ReasonAction, 60),
		end("both", OVS, ReasonNew, 500), end("ends", Hardware, "", 7000))
	after := sample(time.Minute,
		end("kept", Hardware, "", 1010), end("anew", Hardware, "", 20), end("threads", OVS, ReasonAction, 45), end("threads", OVS, ReasonAction, 68),
		end("both", OVS, ReasonNew, 501), end("both", Hardware, "", 3))
	d := Compare(before, after)
	if got := [2]uint64{d.Total.Hardware.Packets, d.Total.OVS.Packets}; got != [2]uint64{10 + 20 + 3, 13 + 1} || d.Total.TC.Packets > 0 {
		t.Errorf("%+v", d.Total)
	}
	if d.Ports[0].From != d.Total || d.Ports[1].To != d.Total {
		t.Errorf("ports: %+v", d.Ports)
	}
}

// TestCounted_OnlyGrows: flows that end leave their packets in the sum. A sample that nothing can be compared with begins anew, and a
// pod that is gone has no sum any more.
func TestCounted_OnlyGrows(t *testing.T) {
	drops := End{UFID: "drops", From: "rep0", Place: OVS, Reason: ReasonAction, Packets: 5}
	samples := []Sample{
		sample(0, end("a", Hardware, "", 100)), sample(time.Minute, end("a", Hardware, "", 150), end("b", OVS, ReasonAction, 8), drops),
		sample(2*time.Minute, end("c", OVS, ReasonPort, 3)),
	}
	counted := (*Counted)(nil).Add(samples[0], nil)
	first := counted
	for i, s := range samples[1:] {
		d := Compare(samples[i], s)
		counted = counted.Add(s, &d)
	}
	web, old := counted.Pods[types.NamespacedName{Namespace: "shop", Name: "web"}], counted.Pods[types.NamespacedName{Namespace: "shop", Name: "old"}]
	if !counted.Since.Equal(start) || counted.Total.Hardware.Packets != 50 || counted.Total.OVS.Packets != 8+5+3 || web.Traffic != counted.Total || web.Drops.Packets != 5 || old.Traffic.OVS.Packets != 11 {
		t.Errorf("%+v", counted)
	}
	want := []Cause{{Reason: ReasonAction, Count: Count{Packets: 13, Bytes: 800}}, {Reason: ReasonPort, Count: Count{Packets: 3, Bytes: 300}}}
	if diff := cmp.Diff(want, counted.Outside()); diff != "" {
		t.Error(diff)
	}
	if first.Total != (Share{}) || len(first.Outside()) > 0 {
		t.Errorf("the first one was changed: %+v", first)
	}
	if anew := counted.Add(samples[2], nil); anew.Total != (Share{}) || !anew.Since.Equal(samples[2].At) {
		t.Errorf("%+v", anew)
	}
	gone := sample(3 * time.Minute)
	gone.Report.Ports = gone.Report.Ports[1:]
	d := Compare(samples[2], gone)
	if left := counted.Add(gone, &d); len(left.Pods) != 1 || left.Total != counted.Total {
		t.Errorf("%+v", left)
	}
}
