package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

func newNode(name string, annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-node", Annotations: annotations}}
}

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-pod"},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// received collects the owners that a listener is called with.
type received struct {
	mu     sync.Mutex
	owners []string
	more   chan struct{}
}

func (h *received) listen(owners ...contract.Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range owners {
		h.owners = append(h.owners, o.String())
	}
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// want waits for exactly these owners, in any order, and forgets them.
func (h *received) want(t *testing.T, owners ...string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		h.mu.Lock()
		got := slices.Sorted(slices.Values(h.owners))
		if len(got) >= len(owners) {
			h.owners = nil
		}
		h.mu.Unlock()
		if len(got) >= len(owners) {
			slices.Sort(owners)
			if diff := cmp.Diff(owners, got); diff != "" {
				t.Errorf("received (-want +got):\n%s", diff)
			}
			return
		}
		select {
		case <-h.more:
		case <-deadline:
			t.Fatalf("received %v, want %v", got, owners)
		}
	}
}

func startView(t *testing.T, objects ...runtime.Object) (*fake.Clientset, *ClusterView, *received) {
	t.Helper()
	client := fake.NewClientset(objects...)
	view, err := NewClusterView(apitest.Client(client))
	if err != nil {
		t.Fatal(err)
	}
	return client, view, start(t, view)
}

func startNodeView(t *testing.T, node string, objects ...runtime.Object) (*fake.Clientset, *NodeView, *received) {
	t.Helper()
	client := fake.NewClientset(objects...)
	view, err := NewNodeView(apitest.Client(client), node)
	if err != nil {
		t.Fatal(err)
	}
	return client, view, start(t, view)
}

func start(t *testing.T, view interface {
	OnChange(func(...contract.Owner))
	Start(context.Context) error
}) *received {
	t.Helper()
	h := &received{more: make(chan struct{}, 1)}
	view.OnChange(h.listen)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	if err := view.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestView_ChangesMarkOwners(t *testing.T) {
	ctx := t.Context()
	a, b := newPod("a", "n"), newPod("b", "")
	node := newNode("n", nil)
	client, view, h := startView(t, node, a, b)
	h.want(t, "Node/n", "Pod/ns/a", "Pod/ns/b")

	// The order matters: each event that must be silent is followed by one that
	// must not be, and the listener would have received them in this order.
	update := func(change func()) {
		t.Helper()
		change()
		if _, err := client.CoreV1().Pods("ns").Update(ctx, a, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update(func() {
		a.ResourceVersion = "101"
		a.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}}
	})
	update(func() { a.ResourceVersion = "102"; a.Annotations = map[string]string{"example.com/x": "y"} })
	update(func() { a.ResourceVersion = "103"; a.Status.Phase = corev1.PodSucceeded })
	h.want(t, "Pod/ns/a")

	node.ResourceVersion = "104"
	node.Labels = map[string]string{"x": "y"}
	if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "Node/n")
	node.ResourceVersion = "105"
	node.Annotations = map[string]string{contract.NodeSubnetsKey: `{"default":["10.244.0.0/24"]}`}
	if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "Node/n", "Pod/ns/a")
	// A pod's readers see the condition of its node.
	node.ResourceVersion = "106"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "Node/n", "Pod/ns/a")
	if err := client.CoreV1().Pods("ns").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "Pod/ns/a")
	if pod := view.Pod("ns", "a"); pod != nil {
		t.Errorf("the listener was called before the view knew: %v", pod)
	}
}

// TestView_MovedMachineMarksAllItsPods, and a change that moves nothing the pod alone.
func TestView_MovedMachineMarksAllItsPods(t *testing.T) {
	ctx := t.Context()
	source, target, other := newPod("source", "n"), newPod("target", "n"), newPod("other", "n")
	for pod, name := range map[*corev1.Pod]string{source: "db", target: "db", other: "web"} {
		pod.Labels, pod.Annotations = map[string]string{contract.VMLabel: name}, map[string]string{contract.NetworksKey: "blue"}
	}
	client, _, h := startView(t)
	create := func(pod *corev1.Pod, want ...string) {
		t.Helper()
		if _, err := client.CoreV1().Pods("ns").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.want(t, want...)
	}
	create(other, "Pod/ns/other", "Pod/ns/other@ns/blue")
	create(source, "Pod/ns/source", "Pod/ns/source@ns/blue")
	create(target, "Pod/ns/source@ns/blue", "Pod/ns/target", "Pod/ns/target@ns/blue")
	update := func(version string, want ...string) {
		t.Helper()
		target.ResourceVersion, target.Annotations[contract.VMReadyKey], target.Labels["version"] = version, "now", version
		if _, err := client.CoreV1().Pods("ns").Update(ctx, target, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.want(t, want...)
	}
	update("101", "Pod/ns/source@ns/blue", "Pod/ns/target", "Pod/ns/target@ns/blue")
	update("102", "Pod/ns/target", "Pod/ns/target@ns/blue")
}

func TestView_ListsPodsNodesAndNamespaces(t *testing.T) {
	_, view, _ := startView(t, newNode("n", nil), newNode("m", nil), newPod("a", "n"), newPod("b", "n"), newPod("c", "m"), newPod("d", ""),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "x"}}})
	names := func(pods []*corev1.Pod) []string {
		var out []string
		for _, pod := range pods {
			out = append(out, pod.Name)
		}
		slices.Sort(out)
		return out
	}
	if diff := cmp.Diff([]string{"a", "b"}, names(view.PodsOnNode("n"))); diff != "" {
		t.Errorf("pods on n (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, names(view.Pods())); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if len(view.Nodes()) != 2 || view.Node("m") == nil || view.Pod("ns", "a") == nil || view.Namespace("ns").Labels["team"] != "x" {
		t.Error("an object is missing")
	}
	if view.Node("x") != nil || view.Pod("ns", "x") != nil || view.Pod("x", "a") != nil || view.Namespace("x") != nil {
		t.Error("an object is there that does not exist")
	}
}

// TestView_OfNodeListsOwnObjectsOnly: a node's credentials allow it to list no more than this.
func TestView_OfNodeListsOwnObjectsOnly(t *testing.T) {
	client, _, _ := startNodeView(t, "n", newNode("n", nil))
	selectors := map[string]string{}
	for _, action := range client.Actions() {
		if list, ok := action.(clienttesting.ListAction); ok {
			selectors[action.GetResource().Resource] = list.GetListRestrictions().Fields.String()
		}
		if watch, ok := action.(clienttesting.WatchAction); ok {
			selectors[action.GetResource().Resource] = watch.GetWatchRestrictions().Fields.String()
		}
	}
	want := map[string]string{"nodes": "metadata.name=n", "pods": "spec.nodeName=n", "services": "", "servicecidrs": ""}
	if diff := cmp.Diff(want, selectors); diff != "" {
		t.Errorf("selectors (-want +got):\n%s", diff)
	}
}

func TestView_StartEndsWithItsContext(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, fmt.Errorf("forbidden")
	})
	view, err := NewClusterView(apitest.Client(client))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := view.Start(ctx); err == nil {
		t.Error("complete without pods")
	}
}

// TestHandler_MissedDeletionHasLastObject: an informer that missed a deletion hands over what it knew last.
func TestHandler_MissedDeletionHasLastObject(t *testing.T) {
	pod := newPod("a", "n")
	handler(func(old, new any) {
		if old != pod || new != nil {
			t.Errorf("old %v, new %v", old, new)
		}
	}).OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/a", Obj: pod})
}

func TestTrim_KeepsOnlyFieldsInUse(t *testing.T) {
	pod := newPod("a", "n")
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	pod.OwnerReferences = []metav1.OwnerReference{{Name: "rs"}}
	pod.Labels = map[string]string{"app": "x"}
	pod.Annotations = map[string]string{
		contract.PodNetworksKey: "v", contract.DPUConnectionKey: "d", contract.DPUStatusKey: "s", "kubernetes.io/config.hash": "h",
		"k8s.ovn.org/mine": strings.Repeat("x", 1<<18), "example.com/large": strings.Repeat("x", 1<<18), "ovn-offload.io/mine": "x",
		"kubectl.kubernetes.io/last-applied-configuration": "long", "kubernetes.io/config.seen": "t",
		"kubernetes.io/egress-bandwidth": "1M", "k8s.ovn.org/routing-network": strings.Repeat("x", 1<<18), // refused
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	pod.Spec.HostNetwork = true
	pod.Spec.Containers = []corev1.Container{
		{Name: "web", Image: "i", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: "TCP", HostPort: 8080}, {ContainerPort: 81}}},
		{Name: "none", Ports: []corev1.ContainerPort{{ContainerPort: 82}}},
		{Name: "nic", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1"), "ovn-offload.io/vf": resource.MustParse("2")}}},
	}
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "none"},
		{Name: "sidecar", Image: "i", RestartPolicy: &always, Resources: *pod.Spec.Containers[2].Resources.DeepCopy()},
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, Message: "m"}
	want := newPod("a", "n")
	want.Labels = map[string]string{"app": "x"}
	want.Annotations = map[string]string{contract.PodNetworksKey: "v", contract.DPUConnectionKey: "d", contract.DPUStatusKey: "s", "kubernetes.io/config.hash": "h", "kubernetes.io/egress-bandwidth": "1M", "k8s.ovn.org/routing-network": strings.Repeat("x", 64)}
	want.Spec.HostNetwork = true
	limits := corev1.ResourceRequirements{Limits: corev1.ResourceList{"ovn-offload.io/vf": resource.MustParse("2")}}
	want.Spec.Containers = []corev1.Container{
		{Name: "web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: "TCP", HostPort: 8080}}},
		{Name: "nic", Resources: limits},
	}
	want.Spec.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: &always, Resources: limits}}
	want.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}
	for range 2 { // a trimmed object may come by again
		got, err := trim(pod)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pod (-want +got):\n%s", diff)
		}
		pod = got.(*corev1.Pod)
	}

	node := newNode("n", nil)
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady}, {Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()},
	}
	node.Status.Images = []corev1.ContainerImage{{}}
	wantNode := newNode("n", nil)
	wantNode.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}}
	gotNode, err := trim(node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantNode, gotNode); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	node.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/unreachable"}, {Key: contract.DeletionTaint}}
	wantNode.Spec.Taints = node.Spec.Taints[1:]
	if gotNode, err = trimForNode(node); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantNode, gotNode); diff != "" {
		t.Errorf("node of an agent (-want +got):\n%s", diff)
	}
}

// TestView_OfNodeKeepsServicesReachedAtNodes: a node receives services that answer at its ports or at
// addresses from outside, and when they stop; of the others it keeps the names.
func TestView_OfNodeKeepsServicesReachedAtNodes(t *testing.T) {
	ctx := t.Context()
	service := func(name string, nodePort int32) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name}, ClusterIPs: []string{"10.96.0.1"}, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}},
		}}
	}
	client, view, h := startNodeView(t, "n", newNode("n", nil), service("inside", 0), service("outside", 30000))
	h.want(t, "Node/n", "Service/ns/outside")
	for _, next := range []*corev1.Service{service("outside", 0), service("inside", 30001)} {
		if _, err := client.CoreV1().Services("ns").Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.want(t, "Service/ns/"+next.Name)
	}
	if got := view.Service("ns", "outside").Spec; len(got.Ports)+len(got.ClusterIPs) != 0 {
		t.Errorf("kept of a service inside: %+v", got)
	}
	if got := view.Service("ns", "inside").Spec; len(got.Ports) != 1 || got.Selector != nil {
		t.Errorf("kept of a service at nodes: %+v", got)
	}
}
