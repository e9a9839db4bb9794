package answer

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// fault is a change of the good cluster of testdata: a text of its objects in place of another, or a further object.
type fault struct {
	what     string
	from, to string
	code     Code
	see      string
}

const (
	document    = "\n---\n"
	controller  = "metadata: {name: ovnkube-master, namespace: ovn-kubernetes}\nspec: {replicas: 1}\nstatus: {readyReplicas: 1}"
	agents      = "desiredNumberScheduled: 2, numberReady: 2"
	leaderEnds  = `leaseDurationSeconds: 15, renewTime: "2026-03-01T11:59:50.000000Z"`
	dpuEnds     = `leaseDurationSeconds: 40, renewTime: "2026-03-01T11:59:50.000000Z"`
	dpuNamed    = "metadata: {name: ovn-dpu-worker-1,"
	secondNode  = "metadata: {name: worker-2}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}"
	ofNodeOne   = "status:\n  offload: \"on\""
	legacyMode  = "status:\n  offload: \"off\"\n  reason: no NIC is in switchdev mode"
	vfsOfNode   = "  vfs: {total: 8, used: 1, reserved: 1, free: 6}\n"
	allHardware = "packets: {hardware: 100, tc: 0, ovs: 0}"
)

// secondNodeWith is the second node with a condition.
func secondNodeWith(condition string) string {
	return "metadata: {name: worker-2}\nstatus: {conditions: [{" + condition + "}]}"
}

// event is an Event about the pod shop/web-0.
func event(name, kind, reason, fields string) string {
	return document + "kind: Event\nmetadata: {name: " + name + ", namespace: shop}\ntype: " + kind + "\nreason: " + reason +
		"\nregarding: {kind: Pod, namespace: shop, name: web-0}\nreportingController: ovn-offload-agent\n" + fields
}

// network is a UserDefinedNetwork, and ofNetwork two Warnings about it.
func network(status string) string {
	return document + "kind: UserDefinedNetwork\nmetadata: {name: main, namespace: shop}\nstatus: {conditions: [{type: NetworkCreated, status: \"" + status +
		"\", reason: SyncError, message: in use by pods, lastTransitionTime: \"2026-03-01T11:00:00Z\"}]}"
}

func ofNetwork(name, at string) string {
	about := func(name, at string) string {
		return strings.ReplaceAll(strings.ReplaceAll(event(name, "Warning", "SyncError", lately(at)), "kind: Pod,", "kind: UserDefinedNetwork,"), "name: web-0", "name: main")
	}
	return about(name, at) + about(name+"2", "11:20:00")
}

func lately(t string) string { return `eventTime: "2026-03-01T` + t + `.000000Z"` }

func faults() []fault {
	forbidden := func(resource string) string { return document + "kind: Forbidden\nresource: " + resource }
	policy := func(failed string) string {
		return document + "kind: OffloadPolicy\nmetadata: {name: all}\nspec: {}\nstatus: {selected: 2, failed: " + failed +
			`, conditions: [{type: Applied, status: "False", reason: Failed, lastTransitionTime: "2026-03-01T11:00:00Z"}]}`
	}
	return []fault{
		{"the controller is not ready", controller, strings.Replace(controller, "readyReplicas: 1", "readyReplicas: 0", 1), Broken, "control-plane-down"},
		{"no agent is ready", agents, "desiredNumberScheduled: 2, numberReady: 0", Broken, "control-plane-down"},
		{"no controller leads", leaderEnds, strings.Replace(leaderEnds, "11:59", "11:58", 1), Broken, "control-plane-down"},
		{"nothing is installed", "metadata: {name: ovnkube-master,", "metadata: {name: other,", Broken, "get-started"},
		{"a node is not Ready", secondNode, secondNodeWith(`type: Ready, status: "False"`), Broken, "agent-not-ready"},
		{"a kubelet is silent", secondNode, secondNodeWith(`type: Ready, status: Unknown`), Broken, "agent-not-ready"},
		{"a node has no subnet", secondNode, secondNodeWith(`type: NetworkUnavailable, status: "True"`), Broken, "NodeHasNoSubnet"},
		{"no DPU has joined", dpuNamed, "metadata: {name: other,", Broken, "DPUNotReady"},
		{"a DPU is silent", dpuEnds, strings.Replace(dpuEnds, "11:59", "11:58", 1), Broken, "DPUNotReady"},
		{"a DPU has not begun", dpuEnds, "leaseDurationSeconds: 40", Broken, "DPUNotReady"},
		{"a DPU has a problem", dpuNamed, `metadata: {annotations: {ovn-offload.io/dpu-problem: "no uplink"}, name: ovn-dpu-worker-1,`, Broken, "DPUNotReady"},

		{"an agent is not ready", agents, "desiredNumberScheduled: 2, numberReady: 1", Degraded, "control-plane-down"},
		{"a database is not ready", "", document + "kind: StatefulSet\nmetadata: {name: ovnkube-db}\nspec: {replicas: 3}\nstatus: {readyReplicas: 2}", Degraded, "control-plane-down"},
		{"offload is off", ofNodeOne, strings.Replace(ofNodeOne, `"on"`, `"off"`, 1), Degraded, "offload-off"},
		{"a NIC has a problem", ofNodeOne, "status:\n  problems: [\"0000:3b:00.0: no driver\"]\n  offload: \"on\"", Degraded, "inventory"},
		{"a NIC is in legacy mode, against a policy", ofNodeOne, legacyMode + "\n  policies: [{policy: all, device: \"0000:3b:00.0\", state: Failed}]", Degraded, "offload-off"},
		{"no VF is free, and a NIC has a problem", vfsOfNode, "  problems: [\"0000:3b:00.0: no driver\"]\n  vfs: {total: 8, used: 7, reserved: 1, free: 0}\n", Degraded, "inventory no-vfs"},
		{"traffic is outside hardware", allHardware, "packets: {hardware: 60, tc: 40, ovs: 0}, outside: [{reason: action}]", Degraded, "OutsideHardware"},
		{"a policy is not applied", "", policy("1"), Degraded, "OffloadPolicyNotApplied"},
		{"a pod waits for its network", "", event("a", "Warning", "NetworkNotFound", lately("11:30:00")), Degraded, "NetworkNotFound"},
		{"a Warning is repeated", "", event("a", "Warning", "PartRefused", lately("02:00:00")+"\nseries: {count: 9, lastObservedTime: \"2026-03-01T11:50:00.000000Z\"}"), Degraded, "PartRefused"},
		{"a pod fails again", "", event("a", "Warning", "NetworkFailed", lately("11:40:00")) + event("b", "Normal", "NetworkRecovered", lately("11:30:00")), Degraded, "NetworkFailed"},

		{"the conditions of a network are bad", "", network("False") + ofNetwork("b", "11:31:00"), Degraded, "SyncError"},
		{"a Warning twice, of other words", "", event("a", "Warning", "PartRefused", lately("11:30:00")) + event("b", "Warning", "PartRefused", lately("11:40:00")+"\nnote: other words"), Degraded, "PartRefused"},
		{"a Warning of two reasons", "", event("a", "Warning", "PartRefused", lately("11:30:00")) + event("b", "Warning", "NetworkNotFound", lately("11:40:00")), Degraded, "NetworkNotFound PartRefused"},
		{"nodes may not be listed", "", forbidden("nodes"), Uncertain, ""},
		{"NodeOffloads may not be listed", "", forbidden("nodeoffloads"), Uncertain, ""},
		{"Events may not be listed", "", forbidden("events"), Uncertain, ""},
		{"Leases may not be listed, and the controller is not ready", controller, strings.Replace(controller, "readyReplicas: 1", "readyReplicas: 0", 1) + forbidden("leases"), Broken, "control-plane-down"},

		{"nothing", "", "", Good, ""},
		{"the object of a Warning is gone", "", strings.ReplaceAll(event("a", "Warning", "PartRefused", lately("11:30:00")), "name: web-0", "name: gone") + document + "kind: Sought\nresource: pods", Good, ""},
		{"the object of a Warning may not be read", "", strings.ReplaceAll(event("a", "Warning", "PartRefused", lately("11:30:00")), "name: web-0", "name: gone"), Degraded, "PartRefused"},
		{"the conditions of a network are good again", "", network("True") + ofNetwork("b", "11:31:00"), Good, ""},
		{"no VF is free", vfsOfNode, "  vfs: {total: 8, used: 7, reserved: 1, free: 0}\n", Good, "no-vfs"},
		{"few VFs are free", vfsOfNode, "  vfs: {total: 64, used: 58, reserved: 1, free: 5}\n", Good, "no-vfs"},
		{"a NIC is in legacy mode, and no policy wants another", ofNodeOne, legacyMode, Good, "offload-off"},
		{"one VF in ten is free", vfsOfNode, "  vfs: {total: 64, used: 54, reserved: 4, free: 6}\n", Good, ""},
		{"pods get no VF at all", vfsOfNode, "  vfs: {total: 8, used: 0, reserved: 8, free: 0}\n", Good, ""},
		{"new connections are outside hardware", allHardware, "packets: {hardware: 60, tc: 40, ovs: 0}, outside: [{reason: new-connection}]", Good, ""},
		{"a policy is applied", "", policy("0"), Good, ""},
		{"a Warning is old", "", event("a", "Warning", "PartRefused", lately("10:50:00")), Good, ""},
		{"a pod has recovered", "", event("a", "Warning", "NetworkFailed", lately("11:40:00")) + event("b", "Normal", "NetworkRecovered", lately("11:41:00")), Good, ""},
	}
}

// TestStatus_ExitCodeOfEachFault: each fault alone is one problem with its page and its exit code, and what is none has neither.
func TestStatus_ExitCodeOfEachFault(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	good := strings.TrimSuffix(string(archive.Files[0].Data), "\n") + "\n"
	for _, fault := range faults() {
		text := good + strings.TrimPrefix(fault.to, "\n")
		if fault.from != "" {
			if text = strings.Replace(good, fault.from, fault.to, 1); text == good {
				t.Fatalf("%s: the good cluster has no %q", fault.what, fault.from)
			}
		}
		st, err := NewStatus(cluster(t, []byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		var pages []string
		for _, p := range st.Problems {
			pages = append(pages, p.See)
		}
		if fault.code == Good && st.Nodes != (Ready{2, 2}) {
			t.Errorf("%s: %+v nodes without a problem", fault.what, st.Nodes)
		}
		if got := strings.Join(pages, " "); st.Code != fault.code || got != fault.see {
			t.Errorf("%s: exit code %d and %q, want %d and %q: %+v", fault.what, st.Code, got, fault.code, fault.see, st.Problems)
		}
	}
}
