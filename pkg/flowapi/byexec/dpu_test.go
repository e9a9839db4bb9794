package byexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

func agentsOn(apps map[string]string) Agents {
	a := Agents{Cluster: &sysdump.Cluster{Namespace: "ovn-kubernetes"}}
	for node, app := range apps {
		a.Pods = append(a.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ovn-kubernetes", Name: app + "-" + node, Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{NodeName: node},
		})
	}
	return a
}

// TestAddDPUs_HostsAreAskedByTheirNames: the DPUs of a cluster are no nodes with flows of their own, and their hosts are. A DPU
// that does not answer is missing.
func TestAddDPUs_HostsAreAskedByTheirNames(t *testing.T) {
	a := agentsOn(map[string]string{"w1": "ovnkube-node", "w2": "ovnkube-node-dpu-host", "w3": "ovnkube-node-dpu-host", "bf2": "ovnkube-node-dpu", "bf4": "ovnkube-node-dpu"})
	if got := strings.Join(a.Nodes(), " "); got != "w1" {
		t.Errorf("before DPUs are known: %s", got)
	}
	serves := func(hosts map[string]string) func(context.Context, string) (*flowapi.Summary, error) {
		return func(_ context.Context, node string) (*flowapi.Summary, error) {
			if hosts[node] == "" {
				return nil, errors.New("no answer")
			}
			return &flowapi.Summary{Node: hosts[node]}, nil
		}
	}
	missing := a.addDPUs(t.Context(), a, serves(map[string]string{"bf2": "w2"}))
	if !slices.Equal(missing, []string{"node/bf4: it is a DPU, whose host is not known: no answer"}) {
		t.Errorf("%q", missing)
	}
	other := agentsOn(map[string]string{"bf3": "ovnkube-node-dpu", "m1": "ovnkube-node"})
	if missing := a.addDPUs(t.Context(), other, serves(map[string]string{"bf3": "w3"})); missing != nil {
		t.Errorf("%q", missing)
	}
	if got := strings.Join(a.Nodes(), " "); got != "w1 w2 w3" || a.DPU("w2") != "bf2" || a.DPU("w3") != "bf3" || a.DPU("w1") != "" || !a.Has("w3") || a.Has("m1") {
		t.Errorf("%s, DPUs %q %q %q", got, a.DPU("w2"), a.DPU("w3"), a.DPU("w1"))
	}
	// the DPU is asked in its own cluster
	if from := a.Of("w3").HTTP.Transport.(byExec); from.node != "bf3" || len(from.Pods) != 2 {
		t.Errorf("%+v", from)
	}
}
