package kube

import (
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

func policyFrom(peer networkingv1.NetworkPolicyPeer, ports ...networkingv1.NetworkPolicyPort) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "policy"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}, Ports: ports}},
		},
	}
}

func labelled(pod *corev1.Pod, key, value string) *corev1.Pod {
	pod.Labels = map[string]string{key: value}
	return pod
}

// TestView_PolicyMarksAffectedOwners: which owners are marked by policies, pods and
// namespaces that come, change and go; others are not.
func TestView_PolicyMarksAffectedOwners(t *testing.T) {
	// It is marked before there are pods. Its event marks those that there are.
	trusted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"trusted": "no"}}}
	client := fake.NewClientset(trusted)
	view, err := NewClusterView(apitest.Client(client))
	if err != nil {
		t.Fatal(err)
	}
	h := &received{more: make(chan struct{}, 1)}
	view.OnChange(h.listen)
	if err := view.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, core := t.Context(), client.CoreV1()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(core.Pods("ns").Create(ctx, labelled(newPod("web", "n"), "app", "web"), metav1.CreateOptions{}))
	do(core.Pods("ns").Create(ctx, labelled(newPod("client", "n"), "app", "client"), metav1.CreateOptions{}))
	h.want(t, "Pod/ns/client", "Pod/ns/web")

	named := intstr.FromString("http")
	object := policyFrom(networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"trusted": "yes"}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "client"}},
	}, networkingv1.NetworkPolicyPort{Port: &named})
	parsed := policy.ParseNetworkPolicy(object)
	peers, ports := parsed.Sets()[0].Owner().String(), parsed.Sets()[1].Owner().String()
	do(client.NetworkingV1().NetworkPolicies("ns").Create(ctx, object, metav1.CreateOptions{}))
	h.want(t, "NetworkPolicy/ns/policy", peers, ports, "Pod/ns/web")

	trusted = trusted.DeepCopy()
	trusted.Labels["trusted"] = "yes"
	do(core.Namespaces().Update(ctx, trusted, metav1.UpdateOptions{}))
	h.want(t, peers)
	do(core.Pods("ns").Create(ctx, labelled(newPod("client-2", "n"), "app", "client"), metav1.CreateOptions{}))
	h.want(t, peers, "Pod/ns/client-2")
	do(core.Pods("ns").Create(ctx, labelled(newPod("other", "n"), "app", "other"), metav1.CreateOptions{}))
	h.want(t, "Pod/ns/other")

	web := labelled(newPod("web", "n"), "app", "web")
	web.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}
	do(core.Pods("ns").Update(ctx, web, metav1.UpdateOptions{}))
	h.want(t, ports, "Pod/ns/web") // the policy follows the set's rows

	logged := trusted.DeepCopy()
	logged.Annotations = map[string]string{contract.ACLLoggingKey: `{"deny":"alert"}`}
	do(core.Namespaces().Update(ctx, logged, metav1.UpdateOptions{}))
	h.want(t, "NetworkPolicy/ns/policy")

	do(nil, client.NetworkingV1().NetworkPolicies("ns").Delete(ctx, "policy", metav1.DeleteOptions{}))
	h.want(t, "NetworkPolicy/ns/policy", peers, ports, "Pod/ns/web")
	if left := len(view.PodSetOwners()) + len(view.PolicyOwners()); left > 0 {
		t.Errorf("%d policies and sets are left", left)
	}
}

// TestView_LooksForOwnersOnlyWhenHeeded: before it leads, a controller receives no pod
// nor policy, whatever these concern, and the View has the policies. Afterwards it does.
func TestView_LooksForOwnersOnlyWhenHeeded(t *testing.T) {
	client := fake.NewClientset(policyFrom(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}), newPod("a", "n"))
	view, err := NewClusterView(apitest.Client(client))
	if err != nil {
		t.Fatal(err)
	}
	var heeded atomic.Bool
	h := &received{more: make(chan struct{}, 1)}
	view.OnChange(h.listen)
	view.ListenWhen(heeded.Load)
	if err := view.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(h.owners) > 0 || len(view.PodSetOwners()) != 1 || len(view.PolicyOwners()) != 1 {
		t.Errorf("received %v, with %d sets", h.owners, len(view.PodSetOwners()))
	}
	heeded.Store(true)
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), newPod("b", "n"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, view.PodSetOwners()[0].String(), "Pod/ns/b")
}

// TestPodSet_SizeIsThatOfLastLook at the set of the index, not at another that selects the same.
func TestPodSet_SizeIsThatOfLastLook(t *testing.T) {
	object := policyFrom(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}})
	client, view, h := startView(t, object, newPod("one", "n"))
	set := view.PodSet(view.PodSetOwners()[0])
	if got := view.Sizes(set)[0]; got != 1 {
		t.Errorf("size %d before any look, want the 1 that there is", got)
	}
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), newPod("two", "n"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(10 * time.Second); len(view.Pods()) < 2; {
		select {
		case <-h.more:
		case <-deadline:
			t.Fatal("the second pod is not seen")
		}
	}
	same := *set
	if found, got := len(view.Members(&same)), view.Sizes(&same)[0]; found != 2 || got != 1 {
		t.Errorf("%d members and size %d, want 2 and the 1 of before", found, got)
	}
	view.Members(set)
	if got := view.Sizes(&same)[0]; got != 2 {
		t.Errorf("size %d, want 2", got)
	}
}
