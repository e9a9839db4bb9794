//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck/disrupt"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPlugin_TestSaysWhatConnectionsLivedThrough: all connections live while the agents of both nodes and the controllers are
// replaced. When a pod's interface is down for longer than the bound, the connections of the pod fail, and no others; a pod that
// was deleted is no fault of the network.
func TestPlugin_TestSaysWhatConnectionsLivedThrough(t *testing.T) {
	world.Test(t, world.Tools, world.Disruptive)
	tier.Full(t, "it counts silences of 5 s while agents and controllers are replaced")
	if out, code := kubectlOffload(t, "test", "--check-disrupt"); code != 3 || !strings.Contains(out, "test --setup-disrupt") {
		t.Errorf("without connections: exit code %d: %s", code, out)
	}
	setUpDisrupt(t)
	if out, code := kubectlOffload(t, "test", "--setup-disrupt"); code != 3 || !strings.Contains(out, "is there already") || !strings.Contains(out, "test --check-disrupt") {
		t.Errorf("a second time: exit code %d: %s", code, out)
	}
	replaceNetwork(t)
	junit := filepath.Join(t.TempDir(), "result.xml")
	if out, code := kubectlOffload(t, "test", "--check-disrupt", "--keep", "--junit", junit); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	} else {
		t.Log(out)
	}
	if text, err := os.ReadFile(junit); err != nil || !strings.Contains(string(text), `failures="0"`) {
		t.Errorf("%v: %s", err, text)
	}
	for _, r := range checkDisrupt(t, says.Good) {
		if r.Verdict == conncheck.Skip && r.Text != "pods have no IPv6" && r.Text != "pods have no IPv4" {
			t.Errorf("%+v", r)
		}
	}

	setUpDisrupt(t)
	world.DeletePod(t, disrupt.Namespace, "same")
	cutOff(t, nodes[2], disrupt.Namespace+"_other", 2*disrupt.MaxSilence)
	wrong := map[string]bool{}
	for _, r := range checkDisrupt(t, says.Degraded) {
		_, to, _ := strings.Cut(r.ID, "-to-")
		to, _, _ = strings.Cut(to, "/")
		switch ofOther := to == "pod-other" || to == "svc-other" || to == "nodeport-other@node-b"; {
		case r.Verdict == conncheck.Fail && ofOther && r.Lasted.Broken == "" && strings.Contains(r.Text, "expected at most 5 s"):
			wrong[r.ID] = true
		case r.Verdict == conncheck.Fail, r.Verdict == conncheck.OK && (ofOther || to == "pod-same"):
			t.Errorf("%+v, %+v", r, r.Lasted)
		case to == "pod-same" && r.Text != "pod same was deleted":
			t.Errorf("%+v", r)
		}
	}
	if len(wrong) != 8*len(sixes()) {
		t.Errorf("with pod other cut off these failed: %v", slices.Sorted(maps.Keys(wrong)))
	}
}

func setUpDisrupt(t *testing.T) {
	t.Helper()
	out, code := kubectlOffload(t, "test", "--setup-disrupt", "--nodes", nodes[1]+","+nodes[2])
	if code != 0 || strings.Count(out, " ok ") != 13*len(sixes()) {
		t.Fatalf("exit code %d: %s", code, out)
	}
	t.Cleanup(func() { kubectlOffload(t, "test", "--cleanup") })
}

// checkDisrupt asks what became of the connections, and that they are gone.
func checkDisrupt(t *testing.T, want says.Code) []conncheck.Result {
	t.Helper()
	out, code := kubectlOffload(t, "test", "--check-disrupt", "-o", "json")
	var tested says.Tested
	decodeAnswer(t, out, &tested)
	if code != int(want) || tested.NodeA != nodes[1] || tested.NodeB != nodes[2] || tested.Lasting == nil || tested.Lasting.Seconds <= 0 {
		t.Errorf("exit code %d, want %d: %s", code, want, out)
	}
	isGone(t, disrupt.Namespace)
	return tested.Results
}

// replaceNetwork deletes the agents of the nodes and the controllers, and waits until others are ready.
func replaceNetwork(t *testing.T) {
	t.Helper()
	pods := func() (found []corev1.Pod) {
		for _, app := range []string{"ovnkube-node", "ovnkube-master"} {
			list, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range list.Items {
				if app == "ovnkube-master" || pod.Spec.NodeName == nodes[1] || pod.Spec.NodeName == nodes[2] {
					found = append(found, pod)
				}
			}
		}
		return found
	}
	before := pods()
	if len(before) < 3 {
		t.Fatalf("%d pods of agents and controllers", len(before))
	}
	for _, pod := range before {
		world.DeletePod(t, system, pod.Name)
	}
	world.Eventually(t, 2*time.Minute, "agents and controllers are others", func() (bool, string) {
		ready := 0
		for _, pod := range pods() {
			old := slices.ContainsFunc(before, func(p corev1.Pod) bool { return p.UID == pod.UID })
			if !old && pod.DeletionTimestamp == nil && isReady(pod) {
				ready++
			}
		}
		return ready == len(before), fmt.Sprintf("%d of %d", ready, len(before))
	})
}

// cutOff takes the interface of a pod down for a time.
func cutOff(t *testing.T, node, port string, lasts time.Duration) {
	t.Helper()
	link := strings.TrimSpace(world.MustOnNode(t, node, "ovs-vsctl", "--bare", "--columns=name", "find", "Interface",
		"external_ids:iface-id="+port))
	if link == "" {
		t.Fatalf("no interface of %s on %s", port, node)
	}
	world.MustOnNode(t, node, "ip", "link", "set", link, "down")
	time.Sleep(lasts)
	world.MustOnNode(t, node, "ip", "link", "set", link, "up")
}
