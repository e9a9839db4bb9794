//go:build e2e

package e2e

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/perf"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPlugin_PerfMeasures: each case has numbers, and no packet is in hardware here. With a policy that isolates a pod, the
// cases fail that go there, and no other. What a killed measurement has left, --cleanup deletes.
func TestPlugin_PerfMeasures(t *testing.T) {
	world.Test(t, world.Tools, world.Alone)
	tier.Full(t, "it loads both nodes for half a minute")
	short := []string{"perf", "--time=2s", "--idle=1s", "--streams=2"}
	which, cases := tier.Pick("-other-node/tcp", ""), tier.Pick(6, 12)
	out, code := kubectlOffload(t, append(short, "--run="+which, "-o", "json")...)
	t.Log(out)
	var measured says.Measured
	decodeAnswer(t, out, &measured)
	if code != 0 || len(measured.Results) != cases || len(measured.Missing) > 0 {
		t.Errorf("exit code %d, %d results", code, len(measured.Results))
	}
	cost := 0 // the machine may be busy with other tests before a load
	for _, r := range measured.Results {
		if r.HostCores > 0 || r.Displaced() {
			cost++
		}
		onOVN := !strings.Contains(r.ID, "/host-")
		if r.BitsPerSecond+r.PerSecond <= 0 || r.Client.Busy <= 0 || r.Server.Busy <= 0 || (r.Share != nil) != onOVN {
			t.Errorf("%+v", r)
		}
		if ratio, known := measuredShare(r); known && ratio != 0 {
			t.Errorf("%s: %v of the packets in hardware, which is not here", r.ID, ratio)
		}
	}
	if cost == 0 {
		t.Error("no case has cost anything")
	}
	isGone(t, perf.Name)
	t.Run("a path that is denied", perfFails)
	t.Run("what is left, and absent nodes", perfRefuses)
}

func measuredShare(r perf.Result) (float64, bool) {
	if r.Share == nil {
		return 0, false
	}
	return r.Share.Ratio()
}

func perfFails(t *testing.T) {
	wait, _ := startIn(t, perf.Name, "perf", "--time=2s", "--idle=1s", "--run=/veth-.*/tcp")
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "not-of-the-measurement"}}
	policy.Spec.PodSelector.MatchLabels = map[string]string{perf.Label: "veth-b"}
	if _, err := cluster.client.NetworkingV1().NetworkPolicies(perf.Name).Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	out, code := wait()
	t.Log(out)
	for _, kind := range []string{"stream", "rr", "crr"} {
		if !strings.Contains(out, "failed: "+kind+"/veth-other-node/tcp: ") || strings.Contains(out, "failed: "+kind+"/veth-same-node/tcp") {
			t.Errorf("%s: the wrong case fails, or none", kind)
		}
	}
	if code != 1 || !strings.Contains(out, "3 of 6 measured") {
		t.Errorf("exit code %d", code)
	}
	isGone(t, perf.Name)
}

func perfRefuses(t *testing.T) {
	wait, process := startIn(t, perf.Name, "perf")
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	wait()
	if out, code := kubectlOffload(t, "perf"); code != 3 || !strings.Contains(out, "perf --cleanup") {
		t.Errorf("beside what a killed measurement has left: exit code %d: %s", code, out)
	}
	if out, code := kubectlOffload(t, "perf", "--cleanup"); code != 0 || !strings.Contains(out, "deleted namespace "+perf.Name) {
		t.Errorf("exit code %d: %s", code, out)
	}
	isGone(t, perf.Name)
	for _, c := range []struct {
		args []string
		why  string
	}{
		{[]string{"--from", nodes[0], "--to", "no-such-node"}, "node no-such-node runs no pods"},
		{[]string{"--resource", "example.com/none"}, "has 0 of example.com/none, the measurement asks for 2"},
		{[]string{"--system-namespace", "default"}, "give one"},
	} {
		verbRefuses(t, says.Uncertain, c.why, append([]string{"perf"}, c.args...)...)
	}
	isGone(t, perf.Name)
}
