package perf

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/perf/load"
)

// TestCases_OfVFsNeedAResource, and each id is there once.
func TestCases_OfVFsNeedAResource(t *testing.T) {
	for _, c := range []struct {
		vf         bool
		expression string
		want       int
	}{{false, "", 12}, {true, "", 20}, {true, "^stream/vf-", 4}, {false, "/vf-", 0}} {
		cases, err := Cases(c.vf, c.expression)
		seen := map[string]bool{}
		for _, of := range cases {
			seen[of.ID] = true
		}
		if err != nil || len(cases) != c.want || len(seen) != c.want {
			t.Errorf("%+v: %d cases, %d ids, %v", c, len(cases), len(seen), err)
		}
	}
	if _, err := Cases(false, "("); err == nil {
		t.Error("( is taken")
	}
}

func TestOptions_AreBounded(t *testing.T) {
	good := Options{Streams: 4, Time: time.Second}
	udp, _ := Cases(false, "udp")
	tcp, _ := Cases(false, "tcp")
	for _, c := range []struct {
		change func(*Options)
		of     []Case
		want   string
	}{
		{func(*Options) {}, udp, ""},
		{func(o *Options) { o.Size = load.MaxSize }, tcp, ""},
		{func(o *Options) { o.Size = load.MaxSize }, udp, "a datagram has"},
		{func(o *Options) { o.Size = 1 }, udp, "at least 9"},
		{func(o *Options) { o.Size = load.MaxSize + 1 }, tcp, "at most"},
		{func(o *Options) { o.Size = -1 }, tcp, "at most"},
		{func(o *Options) { o.Streams = 0 }, tcp, "--streams=0"},
		{func(o *Options) { o.Time = time.Millisecond }, tcp, "--time=1ms"},
	} {
		o := good
		c.change(&o)
		if err := o.Validate(c.of); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
}

// TestObjects_AreThoseOfTheCases: only pods that a case needs are made, and only those on VFs ask for one.
func TestObjects_AreThoseOfTheCases(t *testing.T) {
	cases, _ := Cases(true, "^stream/(vf|host)-.*/tcp")
	at := conncheck.Place{NodeA: "a", NodeB: "b", Image: "image", Resource: "example.com/vf"}
	var got []string
	for _, object := range Objects(at, cases) {
		p := object.(*corev1.Pod)
		limit := p.Spec.Containers[0].Resources.Limits["example.com/vf"]
		if (limit.Value() == 1) != strings.HasPrefix(p.Name, "vf-") || p.Spec.HostNetwork != strings.HasPrefix(p.Name, "host-") || p.Namespace != Name {
			t.Errorf("%+v", p)
		}
		got = append(got, p.Name+"@"+p.Spec.NodeName)
	}
	if want := "host-a@a host-b@b vf-a@a vf-a2@a vf-b@b"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	nodes := func(a, b string) []corev1.Node {
		of := func(name, has string) corev1.Node {
			return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"example.com/vf": resource.MustParse(has)}}}
		}
		return []corev1.Node{of("a", a), of("b", b), {ObjectMeta: metav1.ObjectMeta{Name: "c"}}}
	}
	if err := Fits(at, cases, nodes("2", "1")); err != nil {
		t.Error(err)
	}
	for want, of := range map[string][]corev1.Node{"node a has 1 of example.com/vf, the measurement asks for 2": nodes("1", "1"), "node b has 0": nodes("2", "0")} {
		if err := Fits(at, cases, of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// flow is one of a pod of the measurement at the end of its way.
func flow(id, pod string, place offload.Place, packets uint64) flowapi.Flow {
	f := flowapi.Flow{ID: id, From: flowapi.End{Port: pod, Namespace: Name, Pod: pod}, Placed: flowapi.Placed{Place: place}, Traffic: flowapi.Traffic{Packets: packets, Bytes: 100 * packets}}
	if place != offload.Hardware {
		f.Reason = offload.ReasonNew
	}
	return f
}

// TestMeter_CountsBetweenMoments: what was before the load, what other pods have and the part of a way before its end do not
// count. A flow that goes to hardware counts in both places, and one that was made again from its beginning.
func TestMeter_CountsBetweenMoments(t *testing.T) {
	at := time.Unix(1000, 0)
	m := NewMeter("vf-a", "vf-b")
	if m.Share() != (offload.Share{}) {
		t.Error("something without flows")
	}
	m.Add("a", at, []flowapi.Flow{flow("1", "vf-a", offload.OVS, 50), flow("9", "veth-a", offload.OVS, 5)})
	part := flow("2", "vf-a", offload.Hardware, 1000)
	part.Next = []uint32{7}
	foreign := flow("3", "vf-a", offload.Hardware, 1000)
	foreign.From.Namespace = "shop"
	to := flow("4", "other", offload.TC, 3)
	to.To = []flowapi.End{{Namespace: Name, Pod: "vf-b"}}
	m.Add("a", at.Add(2*time.Second), []flowapi.Flow{flow("1", "vf-a", offload.OVS, 60), flow("9", "veth-a", offload.OVS, 500), part, foreign, to})
	if m.ToHardware("a", at) != 0 {
		t.Error("in hardware by the first part of a way")
	}
	m.Add("a", at.Add(4*time.Second), []flowapi.Flow{flow("1", "vf-a", offload.Hardware, 160)})
	if m.ToHardware("a", at) != 0 {
		t.Error("the flow was there before the load")
	}
	m.Add("a", at.Add(6*time.Second), []flowapi.Flow{flow("1", "vf-a", offload.Hardware, 40)})
	m.Add("b", at.Add(6*time.Second), []flowapi.Flow{flow("1", "vf-b", offload.OVS, 9999)})
	got := m.Share()
	if got.Hardware.Packets != 140 || got.OVS.Packets != 10 || got.TC.Packets != 3 || got.Hardware.Bytes != 14000 {
		t.Errorf("%+v", got)
	}
	if m.ToHardware("b", at) != 0 || m.Reason() != offload.ReasonNew {
		t.Errorf("%s, %q", m.ToHardware("b", at), m.Reason())
	}
	fresh := NewMeter("vf-a", "vf-b")
	fresh.Add("a", at, []flowapi.Flow{flow("old", "vf-a", offload.Hardware, 50)})
	fresh.Add("a", at.Add(2*time.Second), []flowapi.Flow{flow("old", "vf-a", offload.Hardware, 50), flow("new", "vf-a", offload.OVS, 3)})
	fresh.Add("a", at.Add(4*time.Second), []flowapi.Flow{flow("new", "vf-a", offload.Hardware, 9)})
	if got := fresh.ToHardware("a", at.Add(time.Second)); got != 3*time.Second {
		t.Errorf("on a fresh path: %s", got)
	}
}

// TestNewResult_CountsEachMachineOnce.
func TestNewResult_CountsEachMachineOnce(t *testing.T) {
	r := load.Report{
		Seconds: 2, Bytes: 1e9,
		Client: load.CPU{Boot: "x", Count: 8, Idle: 0.25, Busy: 1.25, Softirq: 0.5}, Server: load.CPU{Boot: "y", Count: 8, Idle: 0.5, Busy: 1, Softirq: 0.25},
	}
	same, other := Case{ID: "stream/veth-same-node/tcp", Kind: load.Stream, Protocol: "tcp", From: "veth-a", To: "veth-a2"}, Case{ID: "stream/veth-other-node/tcp", To: "veth-b"}
	one := r
	one.Server.Boot = "x"
	for _, c := range []struct {
		of             Case
		r              load.Report
		cores, softirq float64
		shared         bool
	}{{same, one, 1, 0.5, false}, {other, one, 1, 0.5, true}, {other, r, 1.5, 0.75, false}} {
		got := NewResult(c.of, Options{Streams: 3}, "a", c.r, nil)
		if got.HostCores != c.cores || got.SoftirqCores != c.softirq || got.OneMachine != c.shared || got.BitsPerSecond != 4e9 || got.BitsPerCore() != 4e9/c.cores || got.Share != nil {
			t.Errorf("%s: %+v", c.of.ID, got)
		}
	}
	r.Client.Busy = 0
	if got := NewResult(same, Options{}, "a", r, nil); got.HostCores != 0 || got.BitsPerCore() != 0 {
		t.Errorf("a node with less to do than before: %+v", got)
	}
}

// TestResult_DisplacedNeedsBoth: other work before the load, and no core left during it.
func TestResult_DisplacedNeedsBoth(t *testing.T) {
	for _, c := range []struct {
		idle, busy float64
		want       bool
	}{{0.1, 4, false}, {2, 3, false}, {2, 3.9, true}} {
		r := Result{HostCores: 1, BitsPerSecond: 5, Report: load.Report{Server: load.CPU{Count: 4, Idle: c.idle, Busy: c.busy}}}
		if r.Displaced() != c.want || (r.BitsPerCore() == 0) != c.want {
			t.Errorf("%+v: %v, %v", c, r.Displaced(), r.BitsPerCore())
		}
	}
}

func TestResult_Wrong(t *testing.T) {
	for want, r := range map[string]load.Report{
		"":                                {Requests: 5},
		"nothing has arrived":             {},
		"timeout":                         {Error: "timeout"},
		"2 of 7 were not answered: reset": {Requests: 5, Failed: 2, Error: "reset"},
	} {
		if got := (Result{Report: r}).Wrong(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
