//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	ways "github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// pluginSaysSoftware: with offload off, each verb of kubectl offload says so of the stream between two pods on VFs.
func (s *smart) pluginSaysSoftware(t *testing.T) {
	s.verbs(t, offload.Placement{Place: offload.OVS, Reason: offload.ReasonOff})
	if share, _ := perfOnVFs(t); share != 0 {
		t.Errorf("perf: %v of the packets in hardware", share)
	}
	short := "^pod-pod/client-to-pod-same/tcp4" // packets of a lasting connection are too many for this software
	tested, code := testOnVFs(t, "--run="+short)
	if places := tested.Results[0].Places; code != 0 || len(places) != 1 || places[0].Expected != "software (offload-off)" || places[0].Wrong {
		t.Errorf("test: exit code %d: %+v", code, places)
	}
	tested, code = testOnVFs(t, "--run="+short, "--expect=hardware")
	if text := tested.Results[0].Text; code != 1 || !strings.Contains(text, "in ovs (offload-off)") {
		t.Errorf("test --expect=hardware: exit code %d: %s", code, text)
	}
}

// pluginSaysHardware is pluginSaysSoftware with offload on.
func (s *smart) pluginSaysHardware(t *testing.T) {
	s.verbs(t, offload.Placement{Place: offload.Hardware})
	if share, _ := perfOnVFs(t); share < 0.9 {
		t.Errorf("perf: %v of the packets in hardware", share)
	}
	tested, code := testOnVFs(t, "--run=^size/client-to-pod-same/tcp4/lasting")
	places := tested.Results[0].Places
	if code != 0 || len(places) != 1 || places[0].Expected != "hardware" || places[0].Counters == nil {
		t.Fatalf("test: exit code %d: %+v", code, tested.Results)
	}
	if c := *places[0].Counters; c.Hardware == 0 || float64(c.Software) > float64(c.Hardware)/4 {
		t.Errorf("test: the counters %+v", c)
	}
}

// verbs asks those that read about the stream from a to b, which is at a place.
func (s *smart) verbs(t *testing.T, at offload.Placement) {
	stop := s.sends(t, "a", "b")
	defer stop()
	for _, verb := range []struct {
		name string
		asks func(*testing.T, offload.Placement) (bool, any)
		args []string
	}{
		{"flows", s.flowsSay, []string{"flows", "--pod", "a", "-n", s.ns}},
		{"explain pod", s.podSays, []string{"explain", "pod/a", "-n", s.ns}},
		{"top", s.topSays, []string{"top", "-n", s.ns, "--interval", "3s"}},
		{"trace --live", s.traceSays, []string{"trace", "--live", "pod/a", "pod/b:5201", "-n", s.ns}},
		{"topology", s.topologySays, []string{"topology"}},
		{"explain node", s.nodeSays, []string{"explain", "node/" + smartNode}},
	} {
		world.Eventually(t, smartWithin, fmt.Sprintf("%s says %+v", verb.name, at), func() (bool, string) {
			ok, answer := verb.asks(t, at)
			return ok, fmt.Sprintf("%+v", answer)
		})
		out, code := kubectlOffload(t, verb.args...)
		t.Logf("%v: exit code %d\n%s", verb.args, code, out)
	}
}

// sends has a pod send TCP to another, until the function is called that it gives.
func (s *smart) sends(t *testing.T, from, to string) (stop func()) {
	t.Helper()
	world.MustInPod(t, s.pods[to], "iperf3", "-s", "-D")
	const client = `iperf3 -c "$0" -t 3600 -b 2M --connect-timeout 10000 </dev/null >/dev/null 2>&1 &`
	world.MustInPod(t, s.pods[from], "sh", "-c", client, world.Addresses(s.pods[to])[0].String())
	return func() { world.MustOnNode(t, smartNode, "pkill", "-x", "iperf3") }
}

// isFromAToB says of a stream whether it is the one from a to b. Its flows match no port, for no policy asks for one.
func (s *smart) isFromAToB(stream ways.Stream) bool {
	return stream.From == "pod/"+s.ns+"/a" && stream.To == "pod/"+s.ns+"/b" && stream.Protocol == "tcp"
}

// isAt leaves the words about it out.
func isAt(p, want offload.Placement) bool { return p.Place == want.Place && p.Reason == want.Reason }

func (s *smart) flowsSay(t *testing.T, at offload.Placement) (bool, any) {
	a, _ := kubectlOffloadJSON[says.Streams](t, "flows", "--pod", "a", "-n", s.ns)
	return slices.ContainsFunc(a.Streams, func(f ways.Stream) bool { return s.isFromAToB(f) && isAt(f.Placed, at) }), a
}

func (s *smart) podSays(t *testing.T, at offload.Placement) (bool, any) {
	e, _ := kubectlOffloadJSON[says.PodExplained](t, "explain", "pod/a", "--to", "pod/b", "-n", s.ns)
	isVF := len(e.VFs) == 1 && e.VFs[0].PF == ownNIC
	streams := slices.ContainsFunc(e.Streams, func(f ways.Stream) bool { return s.isFromAToB(f) && isAt(f.Placed, at) })
	isOff := slices.ContainsFunc(e.Problems, func(p says.Problem) bool { return p.See == string(offload.ReasonOff) })
	advised := slices.ContainsFunc(e.Advice, func(a says.Advice) bool { return a.Obstacles[0].Reason == offload.ReasonOff })
	hardware := at.Place == offload.Hardware
	return isVF && streams && isOff == !hardware && advised == !hardware && (len(e.Traffic) == 1 && mostlyInHardware(&e.Traffic[0])) == hardware, e
}

// mostlyInHardware is what the node's agent measured. With offload off it measures nothing.
func mostlyInHardware(traffic *v1alpha1.PodTraffic) bool {
	return traffic != nil && traffic.Packets.Hardware >= 90
}

func (s *smart) topSays(t *testing.T, at offload.Placement) (bool, any) {
	a, _ := kubectlOffloadJSON[says.Top](t, "top", "-n", s.ns, "--interval", "3s")
	return slices.ContainsFunc(a.Rows, func(r says.TopRow) bool {
		ratio, known := r.Traffic.Ratio()
		hardware := at.Place == offload.Hardware
		return r.Name == s.ns+"/a" && r.Node == smartNode && known && r.Rate != nil && *r.Rate > 10 &&
			(hardware && ratio >= .9 || !hardware && ratio == 0 && strings.Contains(r.Because, string(at.Reason)))
	}), a
}

// traceSays: each flow of the way is at the place; in hardware its rule of TC is too, and rules have counted packets there.
func (s *smart) traceSays(t *testing.T, at offload.Placement) (bool, any) {
	l, code := kubectlOffloadJSON[says.Live](t, "trace", "--live", "pod/a", "pod/b:5201", "-n", s.ns)
	there, counted := false, uint64(0)
	for _, leg := range l.Legs {
		there = there || !leg.Back && leg.Node == smartNode && isAt(leg.Placed, at)
		for _, part := range leg.Parts {
			ruled := part.TC != nil && part.TC.InHardware
			if ruled != (at.Place == offload.Hardware) || !isAt(part.Placed, at) {
				return false, l
			}
			if ruled {
				counted += part.TC.Packets
			}
		}
	}
	return code == 0 && l.Verdict == says.Allowed && there && (counted > 0) == (at.Place == offload.Hardware), l
}

func (s *smart) topologySays(t *testing.T, at offload.Placement) (bool, any) {
	a, _ := kubectlOffloadJSON[says.Topology](t, "topology")
	for _, node := range a.Nodes {
		for _, nic := range node.NICs {
			for _, vf := range nic.Pods {
				if vf.Pod == s.ns+"/a" {
					return node.Node == smartNode && nic.Name == ownNIC && node.Offload == stateAt(at) && mostlyInHardware(vf.Traffic) == (at.Place == offload.Hardware), a
				}
			}
		}
	}
	return false, a
}

// stateAt is that of a node with flows at the place.
func stateAt(at offload.Placement) v1alpha1.OffloadState {
	if at.Place == offload.Hardware {
		return v1alpha1.OffloadOn
	}
	return v1alpha1.OffloadOff
}

func (s *smart) nodeSays(t *testing.T, at offload.Placement) (bool, any) {
	e, _ := kubectlOffloadJSON[says.NodeExplained](t, "explain", "node/"+smartNode)
	if e.Status == nil {
		return false, e
	}
	percent := 0
	if e.Status.HardwarePercent != nil {
		percent = *e.Status.HardwarePercent
	}
	return e.Status.Offload == stateAt(at) && e.Status.VFs.Used == 2 && (percent >= 50) == (at.Place == offload.Hardware), e.Status
}

// lints: what a service of UDP costs the pods on VFs that it selects is said of the running pods, and of no other. Without the
// service nothing is.
func (s *smart) lints(t *testing.T) {
	finds := func() (found []string) {
		a, code := kubectlOffloadJSON[says.Linted](t, "lint", "--all")
		for _, f := range a.Findings {
			if strings.Contains(f.Workload, "/"+s.ns+"/") {
				found = append(found, f.Workload+" "+f.Object+" "+string(f.Reason))
			}
		}
		t.Logf("lint --all: exit code %d, %+v", code, a.Findings)
		return found
	}
	if found := finds(); len(found) > 0 {
		t.Errorf("without a service: %v", found)
	}
	const service = `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "names", "namespace": %q},
		"spec": {"selector": {"app": "b"}, "ports": [{"protocol": "UDP", "port": 53}]}}`
	if out, err := kubectl(t, fmt.Sprintf(service, s.ns), "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if found := finds(); !slices.Contains(found, "pod/"+s.ns+"/a svc/"+s.ns+"/names action") || slices.ContainsFunc(found, func(f string) bool {
		return strings.HasPrefix(f, "pod/"+s.ns+"/plain ")
	}) {
		t.Errorf("with the service: %v", found)
	}
	if out, err := kubectl(t, "", "delete", "service", "names", "-n", s.ns); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// perfOnVFs measures a stream between two pods on VFs of the node.
func perfOnVFs(t *testing.T) (share, seconds float64) {
	t.Helper()
	out, code := kubectlOffload(t, "perf", "--from", smartNode, "--to", nodes[1], "--resource", vfResource, "--run=^stream/vf-same-node/tcp", "-o", "json")
	t.Log(out)
	var measured says.Measured
	decodeAnswer(t, out, &measured)
	if code != 0 || len(measured.Results) != 1 {
		t.Fatalf("perf: exit code %d", code)
	}
	share, known := measuredShare(measured.Results[0])
	if !known {
		t.Error("perf: no flow was seen")
	}
	return share, measured.Results[0].ToHardware
}

// testOnVFs tests one case between two pods on VFs of the node.
func testOnVFs(t *testing.T, args ...string) (says.Tested, int) {
	t.Helper()
	args = append([]string{"test", "--nodes", smartNode + "," + nodes[1], "--resource", vfResource, "-o", "json"}, args...)
	out, code := kubectlOffload(t, args...)
	t.Log(out)
	var tested says.Tested
	decodeAnswer(t, out, &tested)
	if len(tested.Results) != 1 || tested.Results[0].Verdict == conncheck.Skip {
		t.Fatalf("test: exit code %d: %s", code, out)
	}
	return tested, code
}
