package disrupt

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// Namespace is that of the connections, so that a test may run beside them.
const Namespace = "ovn-offload-test-disrupt"

const group = "disrupt"

// row is a line of the table: connections of both families, and of each protocol. The server is a pod.
type row struct{ from, to, server, protocols string }

// denied is the control.
const denied = "denied"

func rows() []row {
	return []row{
		{"client", "pod/same", "same", "tcp udp"},
		{"client", "pod/other", "other", "tcp udp"},
		{"client", "svc/other", "other", "tcp udp"},
		{"client", "nodeport/other@node-b", "other", "tcp udp"},
		{"client", "pod/allowed", "allowed", "tcp udp"},
		{"host-a", "pod/other", "other", "tcp udp"},
		{"client", "pod/" + denied, denied, "udp"},
	}
}

// clients are on the first node.
func clients() []string { return []string{"client", "host-a"} }

// servers are the pods that answer, with their nodes.
func servers(at conncheck.Place) map[string]string {
	return map[string]string{"same": at.NodeA, "other": at.NodeB, "allowed": at.NodeB, denied: at.NodeB}
}

// Cases are the connections. Names has the server.
func Cases() (cases []conncheck.Case) {
	for _, r := range rows() {
		for _, protocol := range strings.Fields(r.protocols) {
			for _, family := range []int{4, 6} {
				c := conncheck.Case{Group: group, From: r.from, To: r.to, Family: family, Protocol: protocol, Want: probe.Reached, Names: []string{r.server}}
				if r.server == denied {
					c.Want = probe.Timeout
				}
				c.ID = fmt.Sprintf("%s/%s-to-%s/%s%d", group, r.from, strings.ReplaceAll(r.to, "/", "-"), protocol, family)
				cases = append(cases, c)
			}
		}
	}
	return cases
}

// serverObjects are made first: policies are in force when their pods begin.
func serverObjects(at conncheck.Place) []runtime.Object {
	ingress := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	client := metav1.LabelSelector{MatchLabels: map[string]string{conncheck.PodKey: "client"}}
	objects := []metav1.Object{
		conncheck.NewPolicy(denied, networkingv1.NetworkPolicySpec{PolicyTypes: ingress}),
		conncheck.NewPolicy("allowed", networkingv1.NetworkPolicySpec{
			PolicyTypes: ingress,
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &client}}}},
		}),
		conncheck.NewService("other", conncheck.PodKey, "other", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }),
	}
	for name, node := range servers(at) {
		objects = append(objects, conncheck.NewPod(name, node, at))
	}
	var own []runtime.Object
	for _, o := range objects {
		o.SetNamespace(Namespace)
		own = append(own, o.(runtime.Object)) //nolint:forcetypeassert // as made above
	}
	return own
}

// clientObjects hold the connections, of the families that the servers have.
func clientObjects(at conncheck.Place, env conncheck.Env) (objects []runtime.Object) {
	for _, name := range clients() {
		pod := conncheck.NewPod(name, at.NodeA, at)
		pod.Namespace = Namespace
		c := &pod.Spec.Containers[0]
		c.Ports, c.StartupProbe = nil, nil // it does not answer
		c.Command = []string{"ovn-offload-agent", "probe", "keep"}
		for _, of := range Cases() {
			if q, impossible := env.Question(of); impossible == "" && of.From == name {
				to := netip.AddrPortFrom(netip.MustParseAddr(q.Host), uint16(q.Port))
				c.Command = append(c.Command, fmt.Sprintf("--connection=%s=%s", of.ID, probe.Connection{Protocol: of.Protocol, To: to}))
			}
		}
		objects = append(objects, pod)
	}
	return objects
}

// place is where the pods are, as far as they are there.
func place(pods []corev1.Pod) (at conncheck.Place) {
	for _, pod := range pods {
		if servers(conncheck.Place{NodeB: pod.Name})[pod.Name] != "" {
			at.NodeB = pod.Spec.NodeName
		} else {
			at.NodeA = pod.Spec.NodeName
		}
	}
	return at
}
