package answer

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// withPod is the good cluster with a further pod, and another text in place of one.
func withPod(t *testing.T, pod, from, to string) *PodExplained {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	good := strings.TrimSuffix(string(archive.Files[0].Data), "\n") + "\n"
	e, err := ExplainPod(cluster(t, []byte(strings.Replace(good, from, to, 1)+pod)), "shop/sb")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestExplainPod_SaysFirstWhyAPodWaits for its address: the controller's state, or the pod's Event. Pods that run, and those without a
// node, do not wait for it.
func TestExplainPod_SaysFirstWhyAPodWaits(t *testing.T) {
	pod := func(node, phase string) string {
		return strings.TrimPrefix(document, "\n") + "kind: Pod\nmetadata: {name: sb, namespace: shop}\nspec: {nodeName: " + node + "}\nstatus: {phase: " + phase + "}"
	}
	ofPod := strings.ReplaceAll(event("a", "Warning", "NetworkNotFound", lately("11:30:00")+"\nnote: no such network"), "name: web-0", "name: sb")
	for name, c := range map[string]struct {
		pod, from, to string
		want          string
		code          Code
	}{
		"no controller leads":         {pod("worker-2", "Pending"), leaderEnds, strings.Replace(leaderEnds, "11:59", "11:58", 1), "no controller leads, the Lease has ended 55 s ago", Degraded},
		"no controller ever":          {pod("worker-2", "Pending"), "metadata: {name: ovn-kubernetes-master,", "metadata: {name: other,", "nothing is known of the controller", Degraded},
		"an Event of the pod":         {pod("worker-2", "Pending") + ofPod, "", "", "NetworkNotFound: no such network", Degraded},
		"the controller says nothing": {pod("worker-2", "Pending"), "", "", "has no Event that says why", Degraded},
		"it runs":                     {pod("worker-2", "Running"), "", "", "", Good},
		"it has no node":              {pod("\"\"", "Pending"), "", "", "", Good},
	} {
		e := withPod(t, c.pod, c.from, c.to)
		lines := strings.Split(text(t, e), "\n")
		if e.Code != c.code || (e.Waits == "") != (c.want == "") || !strings.Contains(e.Waits, c.want) || c.want != "" && (lines[1] != e.Waits || strings.Contains(text(t, e), "no-vf")) {
			t.Errorf("%s: exit code %d, %q\n%s", name, e.Code, e.Waits, text(t, e))
		}
	}
}

// TestExplainPod_NamesAbsentInterfaces: of a running pod those networks that it asks for and that its network-status does not have. With
// the status, before the pod runs, and of networks that it does not ask for, none is absent.
func TestExplainPod_NamesAbsentInterfaces(t *testing.T) {
	pod := func(phase, asks, status string) string {
		return strings.TrimPrefix(document, "\n") + "kind: Pod\nmetadata:\n  name: sb\n  namespace: shop\n  annotations:\n    k8s.v1.cni.cncf.io/networks: '" + asks + "'\n    k8s.v1.cni.cncf.io/network-status: '" + status +
			"'\n    k8s.ovn.org/pod-networks: '{\"default\":{\"ip_addresses\":[\"10.244.2.7/24\"],\"mac_address\":\"0a:58:0a:f4:02:07\"},\"shop/a\":{\"ip_addresses\":[\"10.82.0.2/16\"],\"mac_address\":\"0a:58:0a:52:00:02\"},\"shop/a/1\":{\"ip_addresses\":[\"10.82.0.3/16\"],\"mac_address\":\"0a:58:0a:52:00:03\"}}'\nspec: {nodeName: worker-2}\nstatus: {phase: " + phase + "}"
	}
	const one, both = `[{"name":"ovn-kubernetes"},{"name":"shop/a"}]`, `[{"name":"ovn-kubernetes"},{"name":"shop/a"},{"name":"shop/a"}]`
	for name, c := range map[string]struct{ phase, asks, status, absent string }{
		"none was made": {"Running", "a,a", "", "shop/a shop/a/1"}, "the second is absent": {"Running", "a,a", one, "shop/a/1"}, "both are there": {"Running", "a,a", both, ""},
		"it does not run yet": {"Pending", "a,a", "", ""}, "it asks for none": {"Running", "", "", ""},
	} {
		e := withPod(t, pod(c.phase, c.asks, c.status), "", "")
		var absent []string
		for _, i := range e.Networks {
			if i.Absent {
				absent = append(absent, i.Network)
			}
		}
		if got := strings.Join(absent, " "); got != c.absent || len(e.Networks) != 3 || strings.Count(text(t, e), "no such interface") != len(absent) || (e.Code == Degraded) != (len(absent) > 0) || len(e.Problems) != len(absent) {
			t.Errorf("%s: %q absent, want %q, exit code %d\n%s", name, got, c.absent, e.Code, text(t, e))
		}
	}
}

// TestExplain_GivesNoAdviceWithoutANIC: what has to change for NICs is not said of a node without one. The control has one.
func TestExplain_GivesNoAdviceWithoutANIC(t *testing.T) {
	flows := []flowapi.Flow{{
		ID: "a", Node: "worker-2", From: flowapi.End{Port: "veth1", Namespace: "shop", Pod: "sb"}, To: []flowapi.End{{Port: "genev_sys_6081"}}, Placed: flowapi.Placed{Place: offload.OVS, Reason: offload.ReasonOff},
		Why: &flowapi.Why{ID: "a", Obstacles: []offload.Obstacle{{Reason: offload.ReasonOff}}},
	}}
	pod := strings.TrimPrefix(document, "\n") + "kind: Pod\nmetadata: {name: sb, namespace: shop}\nspec: {nodeName: worker-2}\nstatus: {phase: Running}"
	for nics, want := range map[string]int{"deviceCount: 0": 0, "deviceCount: 1": 1} {
		e := withPod(t, pod, "deviceCount: 0", nics)
		if err := e.AddStreams(shop(t), flows, nil, To{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(text(t, e), "TO CHANGE"); got != want || len(e.Advice) != want || len(e.Streams) != 1 || e.NoNIC != (want == 0) {
			t.Errorf("%s: %d pieces of advice\n%s", nics, got, text(t, e))
		}
	}
}
