package answer

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// TestExplainNode_SaysHowMuchIsOutsideByReason: shares are those of the node alone, and the least one is no exact number. A status, which
// does not know how many packets a node has, counts the pods.
func TestExplainNode_SaysHowMuchIsOutsideByReason(t *testing.T) {
	s := snapshot.New(taken, "ovn-kubernetes")
	node := func(name string, outside ...any) {
		s.Add(snapshot.Nodes, map[string]any{"metadata": map[string]any{"name": name}})
		status := map[string]any{"offload": "on", "hardwarePercent": int64(60), "outside": outside}
		s.Add(snapshot.NodeOffloads, map[string]any{"metadata": map[string]any{"name": name}, "status": status})
	}
	sum := func(reason string, pods, percent int64) any {
		return map[string]any{"reason": reason, "pods": pods, "percent": percent}
	}
	node("busy", sum("refused", 12, 35), sum("action", 1, 5))
	node("idle", sum("refused", 1, 100))
	node("all-in-hardware")
	for name, want := range map[string][]string{
		"busy":            {"outside  35 % of them because of refused, the main reason for 12 pods", "outside  7 % or less of them because of action, the main reason for 1 pod"},
		"idle":            {"outside  100 % of them because of refused, the main reason for 1 pod"},
		"all-in-hardware": nil,
	} {
		e, err := ExplainNode(s, name)
		if err != nil {
			t.Fatal(err)
		}
		got := text(t, e)
		for _, line := range want {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("%s: want %q in\n%s", name, line, got)
			}
		}
		if n := strings.Count(got, "because of"); n != len(want) {
			t.Errorf("%s: %d reasons, want %d, in\n%s", name, n, len(want), got)
		}
	}
	st, err := NewStatus(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, st); !strings.Contains(got, "outside  refused (13 pods), action (1 pod)\n") {
		t.Errorf("status:\n%s", got)
	}
}
