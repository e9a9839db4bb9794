package rollout

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// cluster is an API server in memory with two nodes and a policy.
type cluster struct {
	*testing.T
	*dynamicfake.FakeDynamicClient
	rollout *Rollout
	evicted []string
	refuse  bool // a budget refuses evictions
}

func newCluster(t *testing.T, drain v1alpha1.Drain, pods ...runtime.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	lists := map[schema.GroupVersionResource]string{v1alpha1.OffloadPolicies(): "OffloadPolicyList", v1alpha1.NodeOffloads(): "NodeOffloadList"}
	objects := append([]runtime.Object{node("a"), node("b")}, pods...)
	c := &cluster{T: t, FakeDynamicClient: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, lists, objects...)}
	c.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateAction)
		if create.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		if c.refuse {
			return true, nil, apierrors.NewTooManyRequests("a budget", 1)
		}
		name := create.GetObject().(metav1.Object).GetName()
		c.evicted = append(c.evicted, name)
		return true, create.GetObject(), c.Tracker().Delete(podsResource(), create.GetNamespace(), name)
	})
	c.put(v1alpha1.OffloadPolicies(), &v1alpha1.OffloadPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.Version, Kind: "OffloadPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1},
		Spec: v1alpha1.OffloadPolicySpec{Drain: drain},
	})
	rollout, err := New(Deps{Client: c, Nodes: c.nodes, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	c.rollout = rollout
	return c
}

func node(name string) *corev1.Node {
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pod(name, owner string, hostNetwork bool) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: "a", HostNetwork: hostNetwork},
	}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Controller: new(true)}}
	}
	return p
}

func (c *cluster) put(resource schema.GroupVersionResource, object any) {
	c.Helper()
	u, err := v1alpha1.Encode(object)
	if err != nil {
		c.Fatal(err)
	}
	err = c.Tracker().Create(resource, u, "")
	if apierrors.IsAlreadyExists(err) {
		err = c.Tracker().Update(resource, u, "")
	}
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) nodes() (all []*corev1.Node) {
	for _, name := range []string{"a", "b"} {
		u, err := c.Resource(nodesResource()).Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			c.Fatal(err)
		}
		n := &corev1.Node{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, n); err != nil {
			c.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// says is what the agent of a node reports.
func (c *cluster) says(name string, state v1alpha1.PolicyState) {
	c.Helper()
	c.put(v1alpha1.NodeOffloads(), &v1alpha1.NodeOffload{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.Version, Kind: "NodeOffload"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1alpha1.NodeOffloadStatus{Policies: []v1alpha1.PolicyResult{{Policy: "p", Generation: 1, State: state}}},
	})
}

// pass makes one, over what the API server has now, and gives the policy's status.
func (c *cluster) pass() v1alpha1.OffloadPolicyStatus {
	c.Helper()
	for informer, resource := range map[cache.SharedIndexInformer]schema.GroupVersionResource{
		c.rollout.policies: v1alpha1.OffloadPolicies(), c.rollout.offloads: v1alpha1.NodeOffloads(),
	} {
		list, err := c.Resource(resource).List(c.Context(), metav1.ListOptions{})
		if err != nil {
			c.Fatal(err)
		}
		for i := range list.Items {
			if err := informer.GetStore().Add(&list.Items[i]); err != nil {
				c.Fatal(err)
			}
		}
	}
	if err := c.rollout.apply(c.Context()); err != nil {
		c.Fatal(err)
	}
	u, err := c.Resource(v1alpha1.OffloadPolicies()).Get(c.Context(), "p", metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	p, err := v1alpha1.Decode[v1alpha1.OffloadPolicy](u)
	if err != nil {
		c.Fatal(err)
	}
	return p.Status
}

func (c *cluster) cordoned() string {
	var names []string
	for _, n := range c.nodes() {
		if n.Spec.Unschedulable {
			names = append(names, n.Name+"/"+n.Annotations[contract.CordonedKey])
		}
	}
	return strings.Join(names, " ")
}

// TestRollout_NodeAfterNode: the second node gets its turn when the first has the settings.
func TestRollout_NodeAfterNode(t *testing.T) {
	c := newCluster(t, v1alpha1.DrainWait, pod("web", "ReplicaSet", false))
	c.says("a", v1alpha1.PolicyWaiting)
	c.says("b", v1alpha1.PolicyWaiting)
	if s := c.pass(); !slices.Equal(s.Changing, []string{"a"}) || s.Selected != 2 || s.Pending != 2 {
		t.Errorf("%+v", s)
	}
	c.says("a", v1alpha1.PolicyApplied)
	if s := c.pass(); !slices.Equal(s.Changing, []string{"b"}) || s.Applied != 1 {
		t.Errorf("%+v", s)
	}
	c.says("b", v1alpha1.PolicyApplied)
	s := c.pass()
	if len(s.Changing) != 0 || s.Applied != 2 || s.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("%+v", s)
	}
	if c.cordoned() != "" || len(c.evicted) != 0 {
		t.Errorf("the policy asks for no drain: %q, evicted %q", c.cordoned(), c.evicted)
	}
}

// TestRollout_DrainsAsAsked: the node is cordoned and drained in its turn, as far as budgets let it, and uncordoned
// afterwards. Pods of DaemonSets, those that are the node's own, and those with its network stay.
func TestRollout_DrainsAsAsked(t *testing.T) {
	mirror := pod("kube-apiserver-a", "Node", false)
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	c := newCluster(t, v1alpha1.DrainEvict, pod("web", "ReplicaSet", false), pod("alone", "", false), pod("agent", "DaemonSet", false), pod("host", "ReplicaSet", true), mirror)
	c.refuse = true
	c.says("a", v1alpha1.PolicyWaiting)
	c.pass()
	if c.cordoned() != "a/p" || len(c.evicted) != 0 {
		t.Errorf("cordoned %q, evicted %q", c.cordoned(), c.evicted)
	}
	c.refuse = false
	c.says("a", v1alpha1.PolicyDrainNeeded)
	c.pass()
	slices.Sort(c.evicted)
	if want := []string{"alone", "web"}; !slices.Equal(c.evicted, want) {
		t.Errorf("evicted %q, want %q", c.evicted, want)
	}
	c.says("a", v1alpha1.PolicyApplied)
	c.pass()
	if c.cordoned() != "" {
		t.Errorf("still cordoned: %q", c.cordoned())
	}
}

// TestRollout_LeavesCordonOfOthers: a node that an administrator has cordoned stays so.
func TestRollout_LeavesCordonOfOthers(t *testing.T) {
	c := newCluster(t, v1alpha1.DrainEvict)
	a := node("a")
	a.Spec.Unschedulable = true
	u, err := v1alpha1.Encode(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resource(nodesResource()).Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.says("a", v1alpha1.PolicyWaiting)
	c.pass()
	c.says("a", v1alpha1.PolicyApplied)
	c.pass()
	if c.cordoned() != "a/" {
		t.Errorf("%q", c.cordoned())
	}
}

// TestRollout_SelectsHostsAndNoDPUs: the agent of a DPU knows no policies; that of its host reports what is done there.
func TestRollout_SelectsHostsAndNoDPUs(t *testing.T) {
	c := newCluster(t, v1alpha1.DrainWait)
	for name, label := range map[string]string{"a": contract.DPUHostLabel, "b": contract.DPULabel} {
		n := node(name)
		n.Labels = map[string]string{label: ""}
		c.put(nodesResource(), n)
	}
	c.says("a", v1alpha1.PolicyApplied)
	if s := c.pass(); s.Selected != 1 || s.Applied != 1 || s.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("%+v", s)
	}
}
