package main

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	policySamples = 30
	flowPolicies  = 10 // over which the flows that one adds are averaged
)

// policyTimes is how long it takes from the creation of a policy that forbids
// everything to a pod until the last packet of a running UDP flow to it passes, and
// from its deletion until another pod connects again; and the flows that a policy adds.
func (b *bench) policyTimes(ctx context.Context) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	if err := b.policyLatency(ctx, w); err != nil {
		return err
	}
	return b.policyFlows(ctx, w.namespace)
}

func (b *bench) policyLatency(ctx context.Context, w *watched) error {
	for i, node := range []string{b.nodes[0], b.worker()} { // who asks, and who answers
		if err := w.create(ctx, fmt.Sprintf("server-%d", i), node); err != nil {
			return err
		}
	}
	if err := w.waitReady(ctx); err != nil {
		return err
	}
	pod, err := b.client.CoreV1().Pods(w.namespace).Get(ctx, "server-1", metav1.GetOptions{})
	if err != nil {
		return err
	}
	address := pod.Status.PodIP + ":8080"
	var blocked, open []time.Duration
	for i := range policySamples + 2 {
		closing, err := b.untilSeen(ctx, w.namespace, []string{"last", address}, func() error { return b.createPolicy(ctx, w.namespace, "deny", "", nil) })
		if err != nil {
			return err
		}
		opening, err := b.untilSeen(ctx, w.namespace, []string{"await", address}, func() error {
			return b.client.NetworkingV1().NetworkPolicies(w.namespace).Delete(ctx, "deny", metav1.DeleteOptions{})
		})
		if err != nil {
			return err
		}
		if i >= 2 { // the first two are not counted
			blocked, open = append(blocked, closing), append(open, opening)
		}
	}
	t := newQuantiles("policy")
	t.addQuantiles("creation to the last packet", blocked)
	t.addQuantiles("deletion to first connection", open)
	t.print()
	return nil
}

// createPolicy makes one for ingress to the pods of an app, all pods if app is "";
// without rules it denies.
func (b *bench) createPolicy(ctx context.Context, namespace, name, app string, rules []networkingv1.NetworkPolicyIngressRule) error {
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       networkingv1.NetworkPolicySpec{Ingress: rules, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
	if app != "" {
		policy.Spec.PodSelector.MatchLabels = map[string]string{"app": app}
	}
	_, err := b.client.NetworkingV1().NetworkPolicies(namespace).Create(ctx, policy, metav1.CreateOptions{})
	return err
}

// policyFlows counts what policies add that let the pods of a namespace in at a port,
// another one each: equal flows would be one.
func (b *bench) policyFlows(ctx context.Context, namespace string) error {
	return b.flowsOfOne(ctx, "a policy that allows one port from the namespace adds", flowPolicies, func(i int) error {
		port := intstr.FromInt(9000 + i)
		return b.createPolicy(ctx, namespace, fmt.Sprintf("flows-%d", i), "", []networkingv1.NetworkPolicyIngressRule{{
			From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
		}})
	})
}

// flowsOfOne prints what each of n objects adds to the flows.
func (b *bench) flowsOfOne(ctx context.Context, title string, n int, create func(i int) error) error {
	if err := b.settled(ctx); err != nil {
		return err
	}
	before, err := b.countFlows(ctx)
	if err != nil {
		return err
	}
	for i := range n {
		if err := create(i); err != nil {
			return err
		}
	}
	pause(ctx, 2*time.Second)
	if err := b.settled(ctx); err != nil {
		return err
	}
	after, err := b.countFlows(ctx)
	if err != nil {
		return err
	}
	fmt.Println()
	t := newTable("flows", title)
	each := func(from, to int) float64 { return float64(to-from) / float64(n) }
	t.add("logical flow rows, whole cluster", each(before.logical, after.logical))
	t.add("OpenFlows of br-int on "+b.worker(), each(before.openflow, after.openflow))
	t.print()
	return nil
}
