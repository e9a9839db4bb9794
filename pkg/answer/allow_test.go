package answer

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// TestDefaultDeny_SaysWhichRuleWouldAllow: for the labels of all such pods, and no more than the port. Where an end or a port is not known, it
// proposes nothing.
func TestDefaultDeny_SaysWhichRuleWouldAllow(t *testing.T) {
	pod := func(namespace, name string, labels map[string]string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	}
	pods := []corev1.Pod{
		pod("shop", "web-7f9-x", map[string]string{"app": "web", "pod-template-hash": "7f9"}), pod("shop", "db-0", map[string]string{"app": "db"}),
		pod("bank", "teller", map[string]string{"app": "teller"}), pod("shop", "job", map[string]string{"pod-template-hash": "1"}),
	}
	closed := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	open := closed.DeepCopy()
	open.Spec.Ingress = make([]networkingv1.NetworkPolicyIngressRule, 1)
	const command, tcp = "kubectl patch netpol db -n shop --type=json -p '", `"ports":[{"protocol":"TCP","port":5432}]`
	for name, c := range map[string]struct {
		policy              *networkingv1.NetworkPolicy
		direction, from, to string
		protocol            string
		port                uint16
		want                string
	}{
		"the first rule": {closed, "ingress", "pod/shop/web-7f9-x", "pod/shop/db-0", "tcp", 5432,
			command + `[{"op":"add","path":"/spec/ingress","value":[{"from":[{"podSelector":{"matchLabels":{"app":"web"}}}],` + tcp + `}]}]'`},
		"a further rule, for another namespace": {open, "ingress", "pod/bank/teller", "pod/shop/db-0", "tcp", 5432,
			command + `[{"op":"add","path":"/spec/ingress/-","value":{"from":[{"podSelector":{"matchLabels":{"app":"teller"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"bank"}}}],` + tcp + `}}]'`},
		"egress to an address": {open, "egress", "pod/shop/db-0", "192.0.2.7", "tcp", 5432,
			command + `[{"op":"add","path":"/spec/egress","value":[{` + tcp + `,"to":[{"ipBlock":{"cidr":"192.0.2.7/32"}}]}]}]'`},
		"a port that is not known":       {open, "ingress", "pod/bank/teller", "pod/shop/db-0", "tcp", 0, ""},
		"a pod with no labels of others": {open, "ingress", "pod/shop/job", "pod/shop/db-0", "tcp", 5432, ""},
		"a node":                         {open, "ingress", "node/w1", "pod/shop/db-0", "tcp", 5432, ""},
		"egress to a service":            {open, "egress", "pod/shop/db-0", "svc/shop/web", "tcp", 80, ""},
		"a ping":                         {open, "ingress", "pod/bank/teller", "pod/shop/db-0", "icmp", 0, ""},
	} {
		d := DefaultDeny{Direction: c.direction}
		got := d.allow(c.policy, pods, trace.Connection{From: c.from, To: c.to, Protocol: c.protocol, Target: netip.AddrPortFrom(netip.Addr{}, c.port)})
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
