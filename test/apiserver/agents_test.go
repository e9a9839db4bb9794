//go:build apiserver

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestNodeOffload_AgentWritesOwnNodeOnly: the agent of a node may write the report and the labels of its own node,
// and of no other.
func TestNodeOffload_AgentWritesOwnNodeOnly(t *testing.T) {
	t.Parallel()
	tier.Strict(t)
	config := impersonating(agentAccount, map[string][]string{nodeKey: {nodes[1]}})
	agent, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	reports := agent.Resource(v1alpha1.NodeOffloads())
	nodeObjects := agent.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
	dryRun := []string{metav1.DryRunAll}
	for _, c := range []struct {
		node  string
		label string
		ok    bool
	}{
		{nodes[1], nodeoffload.LabelSwitchdev, true},
		{nodes[1], "node-role.kubernetes.io/control-plane", false},
		{nodes[2], nodeoffload.LabelSwitchdev, false},
	} {
		patch := []byte(`{"metadata":{"labels":{"` + c.label + `":"true"}}}`)
		_, err := nodeObjects.Patch(t.Context(), c.node, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun}, "status")
		if (err == nil) != c.ok || !c.ok && !apierrors.IsForbidden(err) {
			t.Errorf("label %s on %s: %v", c.label, c.node, err)
		}
		u, err := reports.Get(t.Context(), c.node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = reports.Update(t.Context(), u, metav1.UpdateOptions{DryRun: dryRun})
		if own := c.node == nodes[1]; (err == nil) != own || !own && !apierrors.IsForbidden(err) {
			t.Errorf("the agent of %s wrote the report of %s: %v", nodes[1], c.node, err)
		}
	}
}

// TestDPU_WritesForItsHostOnly: a DPU changes what is its host's and nothing else, and so does the agent of a host.
// Each refusal has its control, the same write where it is due.
func TestDPU_WritesForItsHostOnly(t *testing.T) {
	t.Parallel()
	tier.Strict(t)
	ns := namespace(t)
	host, other := nodes[1], nodes[2]
	mine, theirs := podObject(ns, "mine", host), podObject(ns, "theirs", other)
	create(t, mine)
	create(t, theirs)
	for _, tc := range slices.Concat(writesOfDPU(t, ns, host, other), writesOfHost(t, ns, host, other)) {
		if err := tc.do(t.Context()); tc.may && err != nil || !tc.may && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it allowed: %t", tc.name, err, tc.may)
		}
	}
}

// agentWrite is a write by the agent of a DPU or of its host.
type agentWrite struct {
	name string
	may  bool
	do   func(context.Context) error
}

// writesOfDPU are of the DPU of a host, whose pod is "mine".
func writesOfDPU(t *testing.T, ns, host, other string) []agentWrite {
	t.Helper()
	dpu := asDry(t, "system:serviceaccount:ovn-dpu:"+host, nil, "system:serviceaccounts:ovn-dpu")
	return []agentWrite{
		{"a DPU, status of its host's pod", true, annotatePod(dpu, ns, "mine", contract.DPUStatusKey)},
		{"a DPU, status of another pod", false, annotatePod(dpu, ns, "theirs", contract.DPUStatusKey)},
		{"a DPU, details", false, annotatePod(dpu, ns, "mine", contract.DPUConnectionKey)},
		{"a DPU, addresses", false, annotatePod(dpu, ns, "mine", contract.PodNetworksKey)},
		{"a DPU, a pod's label", false, patchPod(dpu, ns, "mine", `{"metadata":{"labels":{"a":"%d"}}}`)},
		{"a DPU, a pod's phase", false, patchPod(dpu, ns, "mine", `{"status":{"message":"%d"}}`)},
		{"a DPU, its host's Node", true, annotateNode(dpu, host, contract.NodeEncapIPsKey)},
		{"a DPU, another Node", false, annotateNode(dpu, other, contract.NodeEncapIPsKey)},
		{"a DPU, its host's subnets", false, annotateNode(dpu, host, contract.NodeSubnetsKey)},
		{"a DPU, its host's management port", false, annotateNode(dpu, host, contract.ManagementPortKey)},
		{"a DPU, its Lease", true, makeLease(dpu, "ovn-dpu-"+host)},
		{"a DPU, another's Lease", false, makeLease(dpu, "ovn-dpu-"+other)},
		{"a DPU, any Lease", false, makeLease(dpu, "ovn-dpu-"+host+"-2")},
		{"a DPU, traffic of its host", true, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.TrafficOmitted++ })},
		{"a DPU, devices of its host", false, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.DeviceCount++ })},
		{"a DPU, version of its OVN", true, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.Versions.OVN += "1" })},
		{"a DPU, kernel of its host", false, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.Versions.Kernel += "1" })},
		{"a DPU, agent of its host", false, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.Versions.Agent += "1" })},
		{"a DPU, problems of its host", false, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.Problems = append(s.Problems, "none") })},
		{"a DPU, traffic of another host", false, changeOffload(dpu, other, func(s *v1alpha1.NodeOffloadStatus) { s.TrafficOmitted++ })},
	}
}

// writesOfHost are of the agent on such a host.
func writesOfHost(t *testing.T, ns, host, other string) []agentWrite {
	t.Helper()
	const agent = "system:serviceaccount:" + system + ":ovnkube-node-dpu-host"
	hostAgent := asDry(t, agent, map[string][]string{nodeKey: {host}})
	stray := asDry(t, agent, nil) // a token without a node
	return []agentWrite{
		{"a host, details of its pod", true, annotatePod(hostAgent, ns, "mine", contract.DPUConnectionKey)},
		{"a host, details of another pod", false, annotatePod(hostAgent, ns, "theirs", contract.DPUConnectionKey)},
		{"a host, status", false, annotatePod(hostAgent, ns, "mine", contract.DPUStatusKey)},
		{"a host, its Node", false, annotateNode(hostAgent, host, contract.NodeEncapIPsKey)},
		{"a host, its management port", true, annotateNode(hostAgent, host, contract.ManagementPortKey)},
		{"a host, another's management port", false, annotateNode(hostAgent, other, contract.ManagementPortKey)},
		{"a host, labels of its Node's devices", true, labelNode(hostAgent, host, "ovn-offload.io/sriov")},
		{"a host, other labels", false, labelNode(hostAgent, host, "k8s.ovn.org/dpu")},
		{"a host, labels of another Node", false, labelNode(hostAgent, other, "ovn-offload.io/sriov")},
		{"a host, the Lease", false, makeLease(hostAgent, "ovn-dpu-"+host)},
		{"a host of no node", false, annotatePod(stray, ns, "mine", contract.DPUConnectionKey)},
	}
}

// changeOffload writes a changed report of a node.
func changeOffload(client kubernetes.Interface, name string, change func(*v1alpha1.NodeOffloadStatus)) func(context.Context) error {
	return func(ctx context.Context) error {
		path := "/apis/" + v1alpha1.Version + "/nodeoffloads/" + name
		raw, err := cluster.client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			return err
		}
		var object v1alpha1.NodeOffload
		if err := json.Unmarshal(raw, &object); err != nil {
			return err
		}
		change(&object.Status)
		if raw, err = json.Marshal(object); err != nil {
			return err
		}
		return client.CoreV1().RESTClient().Put().AbsPath(path).SetHeader("Content-Type", "application/json").Body(raw).Do(ctx).Error()
	}
}

// patchPod writes another number each time, for what is there already is no change.
func patchPod(client kubernetes.Interface, ns, name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		text := fmt.Sprintf(patch, time.Now().UnixNano())
		_, err := client.CoreV1().Pods(ns).Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, "status")
		return err
	}
}

func makeLease(client kubernetes.Interface, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
		_, err := client.CoordinationV1().Leases(system).Create(ctx, lease, metav1.CreateOptions{})
		return err
	}
}
