//go:build apiserver

package apiserver

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// refusal is a request once with what it may not write and once without.
type refusal struct {
	name    string
	with    func(context.Context) error
	without func(context.Context) error
	message string
}

func (r refusal) check(t *testing.T) {
	t.Helper()
	if err := r.with(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), r.message) {
		t.Errorf("%s: %v, want it forbidden: %s", r.name, err, r.message)
	}
	if err := r.without(t.Context()); err != nil {
		t.Errorf("%s, without that: %v", r.name, err)
	}
}

// TestPodNetworks_OnlyTheControllerWrites: no other account sets, changes or removes the annotation, with the pod,
// by an update, by a subresource or by a Binding, however wide his rights are. The pod whose address it was keeps
// it.
func TestPodNetworks_OnlyTheControllerWrites(t *testing.T) {
	t.Parallel()
	tier.Strict(t)
	ns := namespace(t)
	victim := addressed(t, ns, "victim", nodes[1])
	value := victim.Annotations[contract.PodNetworksKey]
	user := tenantOf(t, ns)
	addressed(t, ns, "mine", nodes[1])
	forged, other := map[string]string{contract.PodNetworksKey: value}, map[string]string{"mine": "x"}
	for _, r := range []refusal{
		{name: "with the pod", with: user.creates("made", forged), without: user.creates("made", other)},
		{name: "by an update", with: user.annotates(contract.PodNetworksKey, value), without: user.annotates("mine", "1")},
		{name: "removed", with: user.annotates(contract.PodNetworksKey, nil), without: user.annotates("mine", nil)},
		{name: "by the status", with: user.annotates(contract.PodNetworksKey, value+" ", "status"), without: user.annotates("mine", "2", "status")},
		{name: "by a Binding", with: user.binds("bound", forged, false), without: user.binds("bound", other, false)},
		{name: "by a Binding of the old form", with: user.binds("bound-2", forged, true), without: user.binds("bound-2", other, true)},
	} {
		r.message = "only the network's controller may write annotation " + contract.PodNetworksKey
		r.check(t)
	}
	asked := map[string]string{contract.DefaultNetworkKey: `[{"name":"default","namespace":"ovn-kubernetes","ips":["10.80.0.10/16"]}]`}
	for legacy, name := range map[bool]string{false: "asked", true: "asked-2"} {
		r := refusal{name: "a primary network's address by a Binding", with: user.binds(name, asked, legacy), without: user.binds(name, other, legacy)}
		r.message = "annotation " + contract.DefaultNetworkKey + " can be set only when a pod is created"
		r.check(t)
	}
	// These leave out what else a request changes, before a policy sees it.
	for _, subresource := range []string{"ephemeralcontainers", "resize"} {
		if err := user.annotates(contract.PodNetworksKey, value, subresource)(t.Context()); err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", subresource, err)
		}
	}
	const patch = `{"metadata":{"annotations":{"mine":"3"}},"spec":{"ephemeralContainers":[{"name":"look","image":"none"}]}}`
	pods := user.client.CoreV1().Pods(ns)
	mine, err := pods.Patch(t.Context(), "mine", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "ephemeralcontainers")
	if err != nil {
		t.Fatalf("an ephemeral container: %v", err)
	}
	if addresses(t, mine)[0] == addresses(t, victim)[0] || len(mine.Spec.EphemeralContainers) != 1 {
		t.Errorf("the pod has %s, its ephemeral containers: %d", mine.Annotations[contract.PodNetworksKey], len(mine.Spec.EphemeralContainers))
	}
	for _, name := range []string{"made", "bound", "bound-2"} {
		pod := waitAddresses(t, ns, name, contract.DefaultNetwork)
		if addresses(t, pod)[0] == addresses(t, victim)[0] || pod.Annotations["mine"] != "x" {
			t.Errorf("%s: %v", name, pod.Annotations)
		}
	}
	if now := getPod(t, ns, "victim").Annotations[contract.PodNetworksKey]; now != value {
		t.Errorf("the pod whose address it was has %s", now)
	}
}

// TestPodNetworks_InATemplate: the owner of a template with the annotation gets an Event.
func TestPodNetworks_InATemplate(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	one := int32(1)
	for _, tc := range []struct {
		name, key string
		refused   bool
	}{{"forged", contract.PodNetworksKey, true}, {"fine", "mine", false}} {
		template := podObject(ns, tc.name, "")
		template.Annotations = map[string]string{tc.key: `{"default":{}}`}
		template.Spec.RestartPolicy = corev1.RestartPolicyAlways
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: tc.name}, Spec: appsv1.ReplicaSetSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec},
		}}
		if _, err := cluster.client.AppsV1().ReplicaSets(ns).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, tc.name, func() (bool, string) {
			events, err := cluster.client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + tc.name})
			if err != nil {
				return false, err.Error()
			}
			seen := ""
			for _, event := range events.Items {
				seen += event.Reason + ": " + event.Message + "; "
			}
			if tc.refused {
				return strings.Contains(seen, "only the network's controller may write annotation"), seen
			}
			return strings.Contains(seen, "SuccessfulCreate"), seen
		})
	}
}

// TestNode_AKubeletChangesNothingOfTheNetworks: neither the labels that choose agents nor the annotations that the
// network believes, with the Node or later. Nor does an administrator write these annotations, or an agent the rest
// of its Node.
func TestNode_AKubeletChangesNothingOfTheNetworks(t *testing.T) {
	t.Parallel()
	tier.Strict(t)
	node := nodes[1]
	admin, kubelet := dry(t, cluster.config), asDry(t, "system:node:"+node, nil, "system:nodes")
	agent := asDry(t, agentAccount, map[string][]string{nodeKey: {node}})
	stray := asDry(t, agentAccount, map[string][]string{nodeKey: {nodes[2]}})
	rest := func(patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := agent.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
			return err
		}
	}
	key, labels := contract.NodeChassisIDKey, "a kubelet may not change label "
	annotations, ours := "only the network may write annotation "+contract.NodeChassisIDKey, annotateNode(agent, node, contract.HostCIDRsKey)
	for _, r := range []refusal{
		{"host's label", patchNode(kubelet, node, label(contract.DPUHostLabel, "")), patchNode(kubelet, node, label("test", "")), labels + contract.DPUHostLabel},
		{"DPU's label by the status", patchNode(kubelet, node, label(contract.DPULabel, ""), "status"), patchNode(kubelet, node, label("test", "1"), "status"), labels + contract.DPULabel},
		{"chassis", patchNode(kubelet, node, annotation(key, "other")), patchNode(kubelet, node, annotation("test", "1")), annotations},
		{"chassis by the status", patchNode(kubelet, node, annotation(key, "other"), "status"), patchNode(kubelet, node, annotation("test", "2"), "status"), annotations},
		{"chassis removed", patchNode(kubelet, node, annotation(key, nil)), patchNode(kubelet, node, annotation("volumes.kubernetes.io/controller-managed-attach-detach", nil)), annotations},
		{"chassis by an administrator", patchNode(admin, node, annotation(key, "other")), patchNode(admin, node, annotation("k8s.ovn.org/gateway-mtu-support", "true")), annotations},
		{"chassis by another node's agent", patchNode(stray, node, annotation(key, "other"), "status"), ours, "denied request"}, // by two policies
		{"an agent, a condition", rest(`{"status":{"conditions":[]}}`), ours, "not the spec, the status"},
		{"an agent, a finalizer", rest(`{"metadata":{"finalizers":["a/b"]}}`), ours, "finalizers"},
		{"an agent, an owner", rest(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"gone","uid":"gone"}]}}`), ours, "owners"},
	} {
		r.check(t)
	}
}

// TestNode_AKubeletJoins: with neither label nor annotation of the network, but as the host of a DPU if it likes, on
// which no ordinary agent ever runs.
func TestNode_AKubeletJoins(t *testing.T) {
	t.Parallel()
	const name = "paper-joins"
	kubelet := asDry(t, "system:node:"+name, nil, "system:nodes") // tests beside this one count Nodes
	join := func(labels, annotations map[string]string) func(context.Context) error {
		return func(ctx context.Context) error {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}
			_, err := kubelet.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			return err
		}
	}
	fine := join(map[string]string{contract.DPUHostLabel: "", "mine": ""}, map[string]string{"mine": ""})
	nothing := func(context.Context) error { return nil }
	for _, r := range []refusal{
		{"as a DPU", join(map[string]string{contract.DPULabel: ""}, nil), nothing, "a kubelet may not change label " + contract.DPULabel},
		{"as a chassis", join(nil, map[string]string{contract.NodeChassisIDKey: "x"}), fine, "only the network may write annotation " + contract.NodeChassisIDKey},
	} {
		r.check(t)
	}
}
