package answer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/lint"
	"github.com/ovn-offload/ovn-offload/pkg/nodecheck"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/perf"
	"github.com/ovn-offload/ovn-offload/pkg/perf/load"
)

// TestNewTested_OneFailureIsNo, and a test of skipped cases alone has shown nothing.
func TestNewTested_OneFailureIsNo(t *testing.T) {
	ok, fail, skip := conncheck.Result{ID: "a", Verdict: conncheck.OK}, conncheck.Result{ID: "b", Verdict: conncheck.Fail, Text: "timeout"}, conncheck.Result{ID: "c", Verdict: conncheck.Skip, Text: "pods have no IPv6"}
	for _, c := range []struct {
		results []conncheck.Result
		want    Code
		text    string
	}{
		{[]conncheck.Result{ok, skip}, Good, "1 skipped: pods have no IPv6\n1 of 2 good, 0 failed, 1 skipped; nodes n1 and n2\n"},
		{[]conncheck.Result{ok, fail}, Degraded, "failed: b: timeout\n1 of 2 good, 1 failed, 0 skipped; nodes n1 and n2\n"},
		{[]conncheck.Result{skip}, Uncertain, "1 skipped: pods have no IPv6\n0 of 1 good, 0 failed, 1 skipped; nodes n1 and n2\n"},
	} {
		got := NewTested(conncheck.Place{NodeA: "n1", NodeB: "n2"}, conncheck.Outcome{Results: c.results}, time.Unix(0, 0))
		if text := textOf(t, got); got.Code != c.want || !strings.HasPrefix(text, c.text) || strings.HasSuffix(text, "\nnext: kubectl offload perf\n") != (c.want == Good) {
			t.Errorf("exit code %d, want %d: %s", got.Code, c.want, text)
		}
	}
}

// TestNewTested_CountsWays: as expected by kind, unseen ones, and none of those in another place; nodes that did not answer
// leave the answer open, and do not make a failure less.
func TestNewTested_CountsWays(t *testing.T) {
	seen := []string{"ovs (port)"}
	results := []conncheck.Result{
		{ID: "a", Verdict: conncheck.OK, Places: []conncheck.Placed{{Expected: "software (port)", Seen: seen}, {Expected: "software (output)", Seen: seen}, {Expected: "hardware"}}},
		{ID: "b", Verdict: conncheck.OK, Places: []conncheck.Placed{{Expected: "software (port)", Seen: seen}}},
		{ID: "c", Verdict: conncheck.Fail, Text: "reached; in ovs", Places: []conncheck.Placed{{Expected: "hardware", Seen: seen, Wrong: true}}},
	}
	for _, c := range []struct {
		results []conncheck.Result
		missing []string
		want    Code
		text    string
	}{
		{results[:2], nil, Good, "places as expected: 1 in software (output), 2 in software (port); 1 without a flow\n2 of 2 good"},
		{results[:2], []string{"node/n1: no answer"}, Uncertain, "not known: node/n1: no answer"},
		{results, []string{"node/n1: no answer"}, Degraded, "failed: c: reached; in ovs\nplaces as expected: 1 in software (output), 2 in software (port); 1 without a flow\n2 of 3 good"},
	} {
		got := NewTested(conncheck.Place{NodeA: "n1", NodeB: "n2"}, conncheck.Outcome{Results: c.results, Missing: c.missing}, time.Unix(0, 0))
		if text := textOf(t, got); got.Code != c.want || !strings.Contains(text, c.text) {
			t.Errorf("exit code %d, want %d: %s", got.Code, c.want, text)
		}
	}
}

// TestNewTested_RestartsFail, and drops and errors in logs are only said.
func TestNewTested_RestartsFail(t *testing.T) {
	good := []conncheck.Result{{ID: "a", Verdict: conncheck.OK}}
	for _, c := range []struct {
		conncheck.Final
		want Code
		text string
	}{
		{conncheck.Final{}, Good, "meanwhile: 0 restarts, 0 unexpected drops, 0 errors in logs\n"},
		{conncheck.Final{Drops: []string{"a to b"}, Errors: []string{"agent: no"}}, Good, "dropped, and no case expects it: a to b\nerror in a log: agent: no\nmeanwhile: 0 restarts, 1 unexpected drops, 1 errors in logs\n"},
		{conncheck.Final{Restarts: []string{"agent restarted"}}, Degraded, "failed: agent restarted\nmeanwhile: 1 restarts"},
	} {
		got := NewTested(conncheck.Place{}, conncheck.Outcome{Results: good, Final: c.Final}, time.Unix(0, 0))
		if text := textOf(t, got); got.Code != c.want || !strings.Contains(text, c.text) {
			t.Errorf("%+v: exit code %d, want %d: %s", c.Final, got.Code, c.want, text)
		}
	}
}

// TestNewLinted_OnlyLostHardwareIsNo, unless first packets count, too.
func TestNewLinted_OnlyLostHardwareIsNo(t *testing.T) {
	first := lint.Finding{Workload: "pod/shop/web", Object: "svc/shop/web", Reason: offload.ReasonAction, Detail: "hash"}
	lost := first
	lost.Loses = true
	for _, c := range []struct {
		findings []lint.Finding
		strict   bool
		want     Code
	}{{nil, true, Good}, {[]lint.Finding{first}, false, Good}, {[]lint.Finding{first}, true, Degraded}, {[]lint.Finding{first, lost}, false, Degraded}} {
		if got := NewLinted(c.findings, c.strict, time.Unix(0, 0)); got.Code != c.want {
			t.Errorf("%v, strict %t: exit code %d, want %d", c.findings, c.strict, got.Code, c.want)
		}
	}
}

// TestNewPreflighted_WorstNodeIsTheExitCode: a node that has not answered is no node that is fit.
func TestNewPreflighted_WorstNodeIsTheExitCode(t *testing.T) {
	fit, warned := nodecheck.Report{Node: "n1", Verdict: "pass", Pods: "offload"}, nodecheck.Report{Node: "n2", Verdict: "warn"}
	unfit := nodecheck.Report{Node: "n3", Verdict: "fail", Findings: []nodecheck.Finding{{Check: "kernel", Verdict: "fail", Message: "Linux 4.9 is older than 5.2.", Do: "Install Linux 5.2."}}}
	silent := nodecheck.Report{Node: "n4", Error: "no image"}
	for _, c := range []struct {
		reports []nodecheck.Report
		want    Code
		text    string
	}{
		{[]nodecheck.Report{fit}, Good, "n1    fit      offload"},
		{[]nodecheck.Report{fit, warned}, Degraded, "n2    fit, with warnings  -"},
		{[]nodecheck.Report{fit, warned, silent}, Uncertain, "not known: node/n4: no image"},
		{[]nodecheck.Report{unfit, silent}, Broken, "n3: fail: kernel: Linux 4.9 is older than 5.2.\n    Install Linux 5.2.\n"},
	} {
		got := NewPreflighted(c.reports, time.Unix(0, 0))
		if text := textOf(t, got); got.Code != c.want || !strings.Contains(text, c.text) {
			t.Errorf("exit code %d, want %d: %s", got.Code, c.want, text)
		}
	}
}

// TestPreflighted_CountsWhatIsNotServed: objects without effect are a warning with their number and an example. Kinds that could
// not be read leave the answer uncertain.
func TestPreflighted_CountsWhatIsNotServed(t *testing.T) {
	fit := []nodecheck.Report{{Node: "n1", Verdict: "pass", Pods: "offload"}}
	some := []nodecheck.Unserved{{Kind: "EgressFirewall", Count: 2, Example: "shop/default", Message: "Nothing is denied."}}
	for _, c := range []struct {
		unserved []nodecheck.Unserved
		err      error
		want     Code
		text     string
	}{
		{nil, nil, Good, "n1    fit"},
		{some, nil, Degraded, "EgressFirewall: warn: 2 objects would have no effect, such as shop/default\n    Nothing is denied.\n"},
		{nil, errors.New("reading egressips: forbidden"), Uncertain, "not known: kinds that are not served: reading egressips: forbidden"},
	} {
		got := NewPreflighted(fit, time.Unix(0, 0)).WithUnserved(c.unserved, c.err)
		if text := textOf(t, got); got.Code != c.want || !strings.Contains(text, c.text) {
			t.Errorf("exit code %d, want %d: %s", got.Code, c.want, text)
		}
	}
}

func textOf(t *testing.T, a Answer) string {
	t.Helper()
	var text strings.Builder
	if err := Write(&text, a, "text", time.Unix(5, 0)); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestNewMeasured_SaysWhatItCost: a row for what was measured, the rest as failures; of two nodes on one machine it says so.
func TestNewMeasured_SaysWhatItCost(t *testing.T) {
	at := conncheck.Place{NodeA: "n1", NodeB: "n2"}
	good := perf.Result{
		ID: "stream/vf-other-node/tcp", BitsPerSecond: 9.64e10, HostCores: 0.5, SoftirqCores: 0.125, ToHardware: 1.9,
		Report: load.Report{Bytes: 1}, Share: &offload.Share{Hardware: offload.Count{Packets: 999}, OVS: offload.Count{Packets: 1}}, Reason: offload.ReasonNew,
	}
	slow := perf.Result{
		ID: "stream/veth-other-node/udp", BitsPerSecond: 1e9, PerSecond: 104000, HostCores: 2, OneMachine: true,
		Report: load.Report{Bytes: 1, Datagrams: 90, Lost: 10}, Share: &offload.Share{OVS: offload.Count{Packets: 5}}, Reason: offload.ReasonOff,
	}
	rr := perf.Result{ID: "rr/host-other-node/tcp", PerSecond: 9000, HostCores: 2.9, Report: load.Report{Requests: 1, P50: 21.4, P99: 38, Server: load.CPU{Count: 4, Idle: 1.01, Busy: 3.9}}}
	failed := perf.Result{ID: "crr/veth-other-node/tcp", Report: load.Report{Requests: 5, Failed: 1, Error: "reset"}}
	if got, want := MeasuredLine(2, 12, rr), "[ 2/12] rr/host-other-node/tcp       9000 answers a second, 21/38 us"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	const head = "CASE                        Gb/s   PER SECOND        P50/P99 us  HARDWARE  HOST CORES  SOFTIRQ  Gb/s PER CORE\n"
	for _, c := range []struct {
		results []perf.Result
		missing []string
		want    Code
		text    string
	}{
		{
			[]perf.Result{good, slow, rr}, nil, Good, head +
				"stream/vf-other-node/tcp    96.40  -                 -           100 %     0.50        0.12     192.8\n" +
				"stream/veth-other-node/udp  1.00   104000 datagrams  -           0 %       2.00        0.00     0.5\n" +
				"rr/host-other-node/tcp      -      9000 answers      21/38       -         -           0.00     -\n" +
				"stream/vf-other-node/tcp: in hardware 1.9 s after the first packet, or sooner\n" +
				"stream/veth-other-node/udp: 10.0 % of the datagrams were lost\n1 case not in hardware because of offload-off\n" +
				"both nodes are on one machine: its CPU time is counted once\n" +
				"where host cores are not known, the load took cores from other work on the nodes\n3 of 3 measured; from node n1 to n2\n",
		},
		{[]perf.Result{good}, []string{"node/n2: no answer"}, Uncertain, "in hardware 1.9 s after the first packet, or sooner\n1 of 1 measured; from node n1 to n2\nnot known: node/n2: no answer\n"},
		{[]perf.Result{failed}, []string{"node/n2: no answer"}, Degraded, "failed: crr/veth-other-node/tcp: 1 of 6 were not answered: reset\n0 of 1 measured; from node n1 to n2\n"},
	} {
		got := NewMeasured(at, c.results, c.missing, time.Unix(0, 0))
		if text := textOf(t, got); got.Code != c.want || !strings.Contains(text, c.text) {
			t.Errorf("exit code %d, want %d:\n%s\nwant\n%s", got.Code, c.want, text, c.text)
		}
	}
}

// TestNewLasting_SaysWhatBecameOfConnections, one by one, with the longest silence of all, in place of what became of the network.
func TestNewLasting_SaysWhatBecameOfConnections(t *testing.T) {
	at := conncheck.Place{NodeA: "n1", NodeB: "n2"}
	lasted := func(silence float64) *probe.Lasted {
		return &probe.Lasted{Began: time.Unix(1, 0), Seconds: 60, Silence: silence}
	}
	ok := conncheck.Result{ID: "disrupt/a", Verdict: conncheck.OK, Text: "lives", Seconds: 60, Lasted: lasted(1.2)}
	bad := conncheck.Result{ID: "disrupt/b", Verdict: conncheck.Fail, Text: "broke", Seconds: 40, Lasted: lasted(7)}
	control := conncheck.Result{ID: "disrupt/c", Verdict: conncheck.OK, Text: "no answer", Lasted: &probe.Lasted{Sent: 3}}
	skip := conncheck.Result{ID: "disrupt/d", Verdict: conncheck.Skip, Text: "pod x was deleted"}
	const line = "[  1/3] disrupt/a                                            ok    lives  60.0 s\n"
	for _, c := range []struct {
		results []conncheck.Result
		maximum time.Duration
		want    Code
		text    string
		next    string
	}{
		{[]conncheck.Result{ok, control, skip}, 5 * time.Second, Good, "1 skipped: pod x was deleted\n2 of 3 good, 0 failed, 1 skipped; nodes n1 and n2\nthe connections last for 60 s; longest silence 1.2 s, of disrupt/a\nas of", "kubectl offload test"},
		{[]conncheck.Result{ok, control, skip}, 0, Good, "longest silence 1.2 s, of disrupt/a\n", "kubectl offload test --check-disrupt"},
		{[]conncheck.Result{ok, bad, skip}, 5 * time.Second, Degraded, "longest silence 7.0 s, of disrupt/b\n", "kubectl offload status"},
		{[]conncheck.Result{skip, skip, skip}, 5 * time.Second, Uncertain, "the connections last for 0 s\n", ""},
	} {
		got := NewLasting(at, conncheck.Outcome{Results: c.results}, c.maximum, time.Unix(0, 0))
		text := textOf(t, got)
		if got.Code != c.want || got.Next != c.next || !strings.Contains(text, c.text) || strings.Contains(text, "meanwhile") || strings.Contains(text, line) != (c.results[0].ID == ok.ID) {
			t.Errorf("exit code %d, want %d, next %q: %s\nwant %s", got.Code, c.want, got.Next, text, c.text)
		}
	}
}
