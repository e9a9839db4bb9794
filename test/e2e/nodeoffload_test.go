//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// kubectl runs the lab's kubectl with what it is to read.
func kubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	program, config := cluster.Kubectl()
	world.Pace(t, program, args...)
	cmd := exec.Command(program, append([]string{"--kubeconfig=" + config}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestNodeOffload_OfNodesWithoutDevices: the lab's nodes have nothing to offload to, which is an
// answer like any other.
func TestNodeOffload_OfNodesWithoutDevices(t *testing.T) {
	world.Test(t, world.Tools)
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		var got *v1alpha1.NodeOffload
		world.Eventually(t, time.Minute, "NodeOffload of "+node, func() (bool, string) {
			u, err := client.Resource(v1alpha1.NodeOffloads()).Get(t.Context(), node, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			got, err = v1alpha1.Decode[v1alpha1.NodeOffload](u)
			return err == nil && got.Status.Offload == v1alpha1.OffloadNone, got.Status.Reason
		})
		if !strings.Contains(got.Status.Reason, "nothing to offload to") || got.Status.Problem != "" || got.Status.VFs.Total != 0 {
			t.Errorf("%s: %+v", node, got.Status)
		}
		object, err := cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != object.UID {
			t.Errorf("%s: owners %+v", node, got.OwnerReferences)
		}
		for label := range nodeoffload.Labels(got.Status) {
			if value, ok := object.Labels[label]; ok {
				t.Errorf("%s has label %s=%s", node, label, value)
			}
		}
	}
	out, err := kubectl(t, "", append([]string{"get", "nof"}, nodes...)...)
	if err != nil || !strings.Contains(out, "HARDWARE%") || strings.Count(out, "none") != len(nodes) {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestOffload_CommandShowsFlowsOfSwitch: the agent tells of the flows of a real ovs-vswitchd; in
// the lab none of them is in hardware.
func TestOffload_CommandShowsFlowsOfSwitch(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	talker := world.Run(t, world.Pod(ns, "talker", nodes[1]))[0]
	to := managementAddress(t, world.Addresses(talker)[0]).String()
	world.MustInPod(t, talker, "sh", "-c", "ping -i 0.5 "+to+" >/dev/null 2>&1 &") // OVS forgets in ten seconds
	world.Eventually(t, flowsWithin, "the agent tells of the flows of the pod", func() (bool, string) {
		agents, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: "app=ovnkube-node", FieldSelector: "spec.nodeName=" + nodes[1]})
		if err != nil || len(agents.Items) != 1 {
			return false, fmt.Sprintf("agents of %s: %v, %v", nodes[1], agents, err)
		}
		out, err := kubectl(t, "", "exec", "-n", system, agents.Items[0].Name, "-c", "ovn-offload-agent", "--", "ovn-offload-agent", "offload")
		if strings.Contains(out, "understood") {
			t.Fatalf("lines of the dump are not understood: %s", out)
		}
		return err == nil && strings.Contains(out, "hw-offload of OVS: off. 0 of ") && strings.Contains(out, ns+"/talker"), fmt.Sprintf("%v:\n%s", err, out)
	})
}

// TestOffloadPolicy_AgentsReportResult: agents watch OffloadPolicies, report the result on their node, and remove the
// result when the policy is deleted.
func TestOffloadPolicy_AgentsReportResult(t *testing.T) {
	world.Test(t, world.Tools)
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	policies := client.Resource(v1alpha1.OffloadPolicies())
	wanted, err := v1alpha1.Encode(&v1alpha1.OffloadPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.Version, Kind: "OffloadPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: "for-two-nodes"},
		Spec: v1alpha1.OffloadPolicySpec{
			NodeSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: metav1.LabelSelectorOpNotIn, Values: []string{nodes[0]}},
			}},
			PFSelector: v1alpha1.PFSelector{Vendors: []string{"15b3"}}, NumVFs: 4,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policies.Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	removed := false
	remove := func() error {
		removed = true
		return policies.Delete(context.Background(), wanted.GetName(), metav1.DeleteOptions{})
	}
	t.Cleanup(func() {
		if !removed {
			_ = remove()
		}
	})
	results := func(node string) string {
		u, err := client.Resource(v1alpha1.NodeOffloads()).Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		got, err := v1alpha1.Decode[v1alpha1.NodeOffload](u)
		if err != nil {
			return err.Error()
		}
		text := ""
		for _, r := range got.Status.Policies {
			if r.Policy != wanted.GetName() {
				continue // of another test
			}
			text += r.Policy + " " + string(r.State) + " " + r.Message
		}
		return text
	}
	for _, node := range nodes[1:] {
		world.Eventually(t, world.Soon, "result on "+node, func() (bool, string) {
			got := results(node)
			return got == "for-two-nodes Pending no NIC of the node matches pfSelector", got
		})
	}
	if got := results(nodes[0]); got != "" {
		t.Errorf("the policy does not select %s: %s", nodes[0], got)
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes[1:] {
		world.Eventually(t, world.Soon, "no result on "+node,
			func() (bool, string) { got := results(node); return got == "", got })
	}
}
