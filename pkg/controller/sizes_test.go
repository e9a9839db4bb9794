package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
)

func (w *world) hasEvent(namespace, reason, text string) bool {
	w.t.Helper()
	list, err := w.client.EventsV1().Events(namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == reason && strings.Contains(e.Note, text) })
}

// TestLimit_PolicyWithManyExceptionsDelaysNoOther: with a policy of 80,000 exceptions in the cluster, a controller leads
// and other policies come into force. The policy itself only isolates its pods and has an Event. When its author reduces
// the exceptions, the rule comes into force.
func TestLimit_PolicyWithManyExceptionsDelaysNoOther(t *testing.T) {
	many := denyAll("d", "many")
	block := &networkingv1.IPBlock{CIDR: "0.0.0.0/0"}
	for i := range 80000 {
		v := uint32(i) * 2654435761
		block.Except = append(block.Except, fmt.Sprintf("%d.%d.%d.%d/32", v>>24, v>>16&255, v>>8&255, v&255))
	}
	many.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{IPBlock: block}}}}
	w := newWorld(t, testNode("n1"), many, denyAll("d", "before"))
	group := func(name string) string { return acl.PolicyGroup(contract.NetworkPolicyOwner("d", name)) }
	inForce := func(name string) func() bool {
		return func() bool { return strings.Contains(w.server.Dump("ACL", "match"), group(name)) }
	}
	began := time.Now()
	w.eventually("another policy, after the start", inForce("before"))
	if _, err := w.client.NetworkingV1().NetworkPolicies("d").Create(t.Context(), denyAll("d", "after"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("a new policy", inForce("after"))
	w.eventually("what the policy isolates", inForce("many"))
	t.Logf("all in force after %s", time.Since(began).Round(time.Millisecond))
	w.eventually("an Event", func() bool { return w.hasEvent("d", "PartRefused", "spec.ingress[0]: over the limit") })
	if failing, invalid := gauge(t, w.registry, "ovn_offload_reconcile_failing_keys"), gauge(t, w.registry, "ovn_offload_reconcile_invalid_keys"); failing != 0 || invalid != 1 {
		t.Errorf("%v failing and %v invalid keys, want 0 and 1", failing, invalid)
	}
	if rules := w.server.Dump("ACL", "action", "match"); strings.Count(rules, group("many")) != 1 {
		t.Errorf("rules of the policy:\n%s", rules)
	}
	mended := many.DeepCopy()
	mended.Spec.Ingress[0].From[0].IPBlock.Except = []string{"10.0.0.0/8"}
	if _, err := w.client.NetworkingV1().NetworkPolicies("d").Update(t.Context(), mended, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the mended rule", func() bool { return strings.Count(w.server.Dump("ACL", "match"), group("many")) == 2 })
	w.eventually("an Event that it is over", func() bool { return w.hasEvent("d", "NetworkRecovered", "") })
}

// TestInvalid_PolicyIsReportedOnceAndNotTriedAgain: a CIDR from before Kubernetes 1.36.
func TestInvalid_PolicyIsReportedOnceAndNotTriedAgain(t *testing.T) {
	bad := denyAll("d", "bad")
	bad.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "010.0.0.0/8"}}}}}
	w := newWorld(t, bad)
	w.eventually("an Event", func() bool { return w.hasEvent("d", "PartRefused", "spec.ingress[0]: ipBlock") })
	w.eventually("the isolation", func() bool {
		return strings.Contains(w.server.Dump("ACL", "match"), acl.PolicyGroup(contract.NetworkPolicyOwner("d", "bad")))
	})
	if failing := gauge(t, w.registry, "ovn_offload_reconcile_failing_keys"); failing != 0 {
		t.Errorf("%v failing keys: they are alerted on", failing)
	}
	if strings.Contains(w.logs.String(), "reconcile failed") {
		t.Errorf("log:\n%s", w.logs)
	}
}

// TestNetworkPolicy_FollowsItsNamedPort: a pod with the only number of a named port goes and comes, so that the number's
// address set is still there when the number is back.
func TestNetworkPolicy_FollowsItsNamedPort(t *testing.T) {
	policy := denyAll("d", "allow")
	policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	port := intstr.FromString("http")
	policy.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{
		To:    []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}},
		Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
	}}
	w := newWorld(t, testNode("n1"), policy)
	pods := w.client.CoreV1().Pods("d")
	r := rand.New(rand.NewPCG(1, 0))
	for i := range 300 {
		pod := testPod("server", "n1")
		pod.UID = types.UID(fmt.Sprint(i))
		pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if i%5 == 4 {
			w.eventually("a rule with the number", func() bool { return strings.Contains(w.server.Dump("ACL", "match"), "tcp.dst == {80}") })
		}
		time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
		if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.IntN(6000)) * time.Microsecond)
	}
}
