package offload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// series are the values of a metric by its labels.
func series(t *testing.T, c prometheus.Collector, name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// follow gives the metrics samples of each minute, each with its ends.
func follow(m *Metrics, samples ...[]End) {
	var last *Sample
	for minute, ends := range samples {
		s := sample(time.Duration(minute)*time.Minute, ends...)
		var d *Delta
		if last != nil {
			delta := Compare(*last, s)
			d = &delta
		}
		m.Update(s, d)
		last = &s
	}
}

func TestMetrics_CountFlows(t *testing.T) {
	m := NewMetrics(DetailAll)
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Fatalf("%d series before the first sample", n)
	}
	s := sample(0)
	s.Report.Total.Hardware.Flows = 1
	s.Report.Outside = []Cause{{Reason: ReasonAction, Detail: "hash", Count: Count{Flows: 2}}, {Reason: ReasonAction, Detail: "trunc", Count: Count{Flows: 1}}}
	m.Update(s, nil)
	want := map[string]float64{"hardware": 1, "partial": 0, "tc": 0, "ovs": 0}
	if diff := cmp.Diff(want, series(t, m, "ovn_offload_datapath_flows")); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	if got := series(t, m, "ovn_offload_datapath_flows_outside_hardware"); got["action"] != 3 || len(got) != len(Reasons()) {
		t.Errorf("flows outside hardware: %v", got)
	}
}

// TestMetrics_SumsNeverGoBack: flows end, and the counters keep their packets. A packet counts once for the node, and once
// for each pod that sent or received it.
func TestMetrics_SumsNeverGoBack(t *testing.T) {
	m := NewMetrics(DetailAll)
	follow(m,
		[]End{end("a", Hardware, "", 1000)},
		[]End{end("a", Hardware, "", 1600), end("b", OVS, ReasonAction, 7)},
		[]End{end("c", TC, ReasonRefused, 5)}, // a and b have ended
	)
	places := func(format string) map[string]float64 {
		out := map[string]float64{}
		for place, packets := range map[string]float64{"hardware": 600, "partial": 0, "tc": 5, "ovs": 7} {
			out[fmt.Sprintf(format, place)] = packets
		}
		return out
	}
	if diff := cmp.Diff(places("%s"), series(t, m, "ovn_offload_datapath_packets_total")); diff != "" {
		t.Errorf("of the node (-want +got):\n%s", diff)
	}
	if got := series(t, m, "ovn_offload_datapath_bytes_total"); got["hardware"] != 60000 {
		t.Errorf("bytes of the node: %v", got)
	}
	if got := series(t, m, "ovn_offload_outside_packets_total"); got["action"] != 7 || got["refused"] != 5 || got["port"] != 0 {
		t.Errorf("reasons: %v", got)
	}
	if got := series(t, m, "ovn_offload_namespace_packets_total"); got["shop hardware"] != 1200 || got["shop ovs"] != 14 || len(got) != 4 {
		t.Errorf("of the namespace, from one of its pods to another: %v", got)
	}
	want := places("shop %s web") // labels by their names: namespace, place, pod
	maps.Copy(want, places("shop %s old"))
	if diff := cmp.Diff(want, series(t, m, "ovn_offload_pod_packets_total")); diff != "" {
		t.Errorf("of pods (-want +got):\n%s", diff)
	}
}

func TestMetrics_DetailSaysWhoseTraffic(t *testing.T) {
	samples := [][]End{nil, {end("a", Hardware, "", 1000), end("b", TC, ReasonRefused, 200)}}
	for _, tc := range []struct {
		detail           Detail
		namespaces, pods int
	}{{DetailOff, 0, 0}, {DetailNamespace, 8, 0}, {DetailOutside, 8, 8}, {DetailAll, 8, 16}} {
		m := NewMetrics(tc.detail)
		follow(m, samples...)
		namespaces := testutil.CollectAndCount(m, "ovn_offload_namespace_packets_total", "ovn_offload_namespace_bytes_total")
		pods := testutil.CollectAndCount(m, "ovn_offload_pod_packets_total", "ovn_offload_pod_bytes_total")
		if namespaces != tc.namespaces || pods != tc.pods {
			t.Errorf("%s: %d series of a namespace and %d of pods, want %d and %d", tc.detail, namespaces, pods, tc.namespaces, tc.pods)
		}
	}
	m := NewMetrics(DetailOutside)
	follow(m, nil, []End{end("a", Hardware, "", 1000), end("b", TC, ReasonRefused, 50)})
	if got := series(t, m, "ovn_offload_pod_packets_total"); len(got) != 0 {
		t.Errorf("a pod with 5%% outside hardware, and one without a VF: %v", got)
	}
	if _, err := ParseDetail("some"); err == nil {
		t.Error("some: no error")
	}
	if detail, err := ParseDetail("outside"); detail != DetailOutside || err != nil {
		t.Error(detail, err)
	}
}

// TestMetrics_SeriesEndWithPods: a pod's at once, a namespace's after an hour.
func TestMetrics_SeriesEndWithPods(t *testing.T) {
	m := NewMetrics(DetailAll)
	follow(m, nil, []End{end("a", Hardware, "", 1000)})
	empty := func(after time.Duration) Sample { return Sample{At: start.Add(after)} }
	m.Update(empty(2*time.Minute), nil)
	if got := series(t, m, "ovn_offload_pod_packets_total"); len(got) != 0 {
		t.Errorf("series of pods that are gone: %v", got)
	}
	m.Update(empty(time.Hour), nil)
	if got := series(t, m, "ovn_offload_namespace_packets_total"); got["shop hardware"] != 2000 {
		t.Errorf("a namespace whose pods ended a moment ago: %v", got)
	}
	m.Update(empty(2*time.Hour), nil)
	if got := series(t, m, "ovn_offload_namespace_packets_total"); len(got) != 0 {
		t.Errorf("a namespace without pods for an hour: %v", got)
	}
	if got := series(t, m, "ovn_offload_datapath_packets_total"); got["hardware"] != 1000 {
		t.Errorf("the node's: %v", got)
	}
}

// TestMetrics_SeriesOfNode: the test of monitoring in the lab, whose nodes have no NIC, adds these to what it counts.
func TestMetrics_SeriesOfNode(t *testing.T) {
	m := NewMetrics(DetailNamespace)
	m.Update(sample(0), nil)
	if n := testutil.CollectAndCount(m); n-8 > 36 {
		t.Errorf("%d series, 8 of them of the namespace", n)
	}
}

func TestMetrics_SeriesAreBounded(t *testing.T) {
	before, after := sample(0), sample(time.Minute)
	for i := range 3 * maxPods {
		p := web
		p.Name, p.Pod = fmt.Sprint("rep", i), contract.PodOwner(fmt.Sprint("n", i), "web")
		after.Report.Ports = append(after.Report.Ports, PortReport{Port: p})
		after.Report.Ends = append(after.Report.Ends, End{UFID: p.Name, From: p.Name, Place: TC, Reason: ReasonRefused, Packets: uint64(i)})
	}
	delta := Compare(before, after)
	for detail, want := range map[Detail]int{DetailAll: maxPods, DetailOutside: maxOutsidePods} {
		m := NewMetrics(detail)
		m.Update(after, &delta)
		if n := testutil.CollectAndCount(m, "ovn_offload_pod_packets_total"); n != 4*want {
			t.Errorf("%s: %d series of pods", detail, n)
		}
		if n := testutil.CollectAndCount(m, "ovn_offload_namespace_packets_total"); n != 4*maxNamespaces {
			t.Errorf("%s: %d series of namespaces", detail, n)
		}
	}
}

// answers are what a fake switch says to each method.
type answers map[string]string

func (answers) Instance() (unixctl.Instance, error) { return unixctl.Instance{PID: 1}, nil }

func (answers) ProcessorTime() (time.Duration, error) { return 0, errors.New("no process") }

func (a answers) Call(_ context.Context, method string, _ ...string) (string, error) {
	if text, ok := a[method]; ok {
		return text, nil
	}
	return "", errors.New(method + ": not supported")
}

func (answers) Lines(context.Context, func(string) error, string, ...string) error { return nil }

func TestTables_UsedPartOfLimit(t *testing.T) {
	proc := t.TempDir()
	for name, text := range map[string]string{"nf_conntrack_max": "1000\n", "nf_conntrack_count": "900\n"} {
		if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const show = "system@ovs-system:\n  flows         : (current 150) (avg 9) (max 200) (limit 200000)\n  offloaded flows : 12\n" +
		"netdev@ovs-netdev:\n  flows         : (current 50) (avg 1) (max 60) (limit 200000)\n"
	for name, tc := range map[string]struct {
		sw   answers
		proc string
		want map[string]float64
	}{
		"kernel":    {answers{"upcall/show": show}, proc, map[string]float64{"dp": .001, "ct": .9}},
		"userspace": {answers{"upcall/show": show, "dpctl/ct-get-maxconns": "3000000\n", "dpctl/ct-get-nconns": "3\n"}, proc, map[string]float64{"dp": .001, "ct": .000001}},
		"no OVS":    {answers{}, t.TempDir(), map[string]float64{}},
		"no bridge": {answers{"upcall/show": ""}, t.TempDir(), map[string]float64{}},
	} {
		if diff := cmp.Diff(tc.want, series(t, NewTables(tc.sw, tc.proc), "ovn_offload_flow_table_used_ratio")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTables_RealSwitch: ovs-vswitchd adapts its limit of flows, up to 200,000.
func TestTables_RealSwitch(t *testing.T) {
	dir := startSwitch(t)
	run(t, dir, "ovs-vsctl", "--db=unix:"+filepath.Join(dir, "db.sock"), "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy")
	got := series(t, NewTables(unixctl.Client{Dir: dir, Daemon: "ovs-vswitchd"}, t.TempDir()), "ovn_offload_flow_limit")
	if got["dp"] < 1000 || got["dp"] > 200000 || got["ct"] == 0 {
		t.Errorf("limits %v of %v", got, slices.Sorted(maps.Keys(got)))
	}
}
