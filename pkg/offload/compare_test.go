package offload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

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
	want := Delta{Took: time.Minute, Ports: []PortDelta{
		{Port: web, From: share, Lasting: lasting}, {Port: veth, To: share, Lasting: lasting},
	}}
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

func TestMetrics_CountFlowsAndTraffic(t *testing.T) {
	m := NewMetrics()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Fatalf("%d series before the first sample, %v", n, err)
	}
	first := sample(0, end("a", Hardware, "", 1000))
	first.Report.Ports[0].From.Hardware.Flows = 1
	first.Report.Total.Hardware.Flows = 1
	first.Report.Outside = []Cause{{Reason: ReasonAction, Detail: "hash", Count: Count{Flows: 2}}, {Reason: ReasonAction, Detail: "trunc", Count: Count{Flows: 1}}}
	m.Update(first, nil)
	for n := range uint64(2) {
		before, after := sample(0, end("a", Hardware, "", 1000*n)), sample(time.Minute, end("a", Hardware, "", 1000*(n+1)))
		after.Report.Total, after.Report.Outside = first.Report.Total, first.Report.Outside
		d := Compare(before, after)
		m.Update(after, &d)
	}
	want := `
# HELP ovn_offload_datapath_flows Datapath flows by the place that handles them.
# TYPE ovn_offload_datapath_flows gauge
ovn_offload_datapath_flows{place="hardware"} 1
ovn_offload_datapath_flows{place="ovs"} 0
ovn_offload_datapath_flows{place="partial"} 0
ovn_offload_datapath_flows{place="tc"} 0
# HELP ovn_offload_port_packets_total Packets of a port, counted where their way ends.
# TYPE ovn_offload_port_packets_total counter
ovn_offload_port_packets_total{direction="from",namespace="shop",place="hardware",pod="old",port="veth0"} 0
ovn_offload_port_packets_total{direction="from",namespace="shop",place="hardware",pod="web",port="rep0"} 2000
ovn_offload_port_packets_total{direction="to",namespace="shop",place="hardware",pod="old",port="veth0"} 2000
ovn_offload_port_packets_total{direction="to",namespace="shop",place="hardware",pod="web",port="rep0"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "ovn_offload_datapath_flows", "ovn_offload_port_packets_total"); err != nil {
		t.Error(err)
	}
	outside := `
# HELP ovn_offload_datapath_flows_outside_hardware Datapath flows outside hardware by reason.
# TYPE ovn_offload_datapath_flows_outside_hardware gauge
ovn_offload_datapath_flows_outside_hardware{reason="action"} 3
`
	for _, r := range Reasons() {
		if r != ReasonAction {
			outside += `ovn_offload_datapath_flows_outside_hardware{reason="` + string(r) + `"} 0` + "\n"
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(outside), "ovn_offload_datapath_flows_outside_hardware"); err != nil {
		t.Error(err)
	}

	// Another pod took the port's name over: its counters are its own.
	next := sample(2 * time.Minute)
	next.Report.Ports[0].Pod = contract.PodOwner("shop", "web2")
	next.Report.Ports = next.Report.Ports[:1]
	m.Update(next, nil)
	if n, err := testutil.GatherAndCount(registry, "ovn_offload_port_packets_total"); err != nil || n != 2 {
		t.Errorf("%d series of one port in one place, %v", n, err)
	}
	if got := m.ports["rep0"].from.Hardware.Packets; got != 0 {
		t.Errorf("%d packets of the pod before", got)
	}
}

func TestMetrics_SeriesAreBounded(t *testing.T) {
	m := NewMetrics()
	s := sample(0)
	for range 3 * maxPorts {
		p := web
		p.Name = "rep" + string(rune(len(s.Report.Ports)+0x4e00))
		s.Report.Ports = append(s.Report.Ports, PortReport{Port: p})
	}
	m.Update(s, nil)
	if n := testutil.CollectAndCount(m, "ovn_offload_port_flows"); n != 2*maxPorts {
		t.Errorf("%d series", n)
	}
}
