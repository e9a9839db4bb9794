package answer

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// ofOnePod are labels that controllers give to one pod, or to the pods of one version of a template.
func ofOnePod(label string) bool {
	switch label {
	case "pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index":
		return true
	}
	return false
}

// allow is a command that adds a rule to a policy, by which it allows a connection of the pod whose packets it drops. "": the other end, or the
// port of the pod, is not known, or policies have no such rule.
func (d *DefaultDeny) allow(policy *networkingv1.NetworkPolicy, pods []corev1.Pod, c trace.Connection) string {
	protocol := corev1.Protocol(strings.ToUpper(c.Protocol))
	other, rules, peers := c.From, len(policy.Spec.Ingress), "from"
	if d.Direction == "egress" {
		other, rules, peers = c.To, len(policy.Spec.Egress), "to"
	}
	peer := peerOf(other, policy.Namespace, pods)
	if peer == nil || c.Target.Port() == 0 || c.Protocol == "icmp" || strings.HasPrefix(c.To, "svc/") {
		return ""
	}
	port := intstr.FromInt32(int32(c.Target.Port()))
	var value any = map[string]any{peers: []any{peer}, "ports": []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &port}}}
	path := "/spec/" + d.Direction + "/-"
	if rules == 0 {
		path, value = "/spec/"+d.Direction, []any{value}
	}
	patch, err := json.Marshal([]any{map[string]any{"op": "add", "path": path, "value": value}})
	if err != nil {
		return ""
	}
	return fmt.Sprintf("kubectl patch netpol %s -n %s --type=json -p '%s'", policy.Name, policy.Namespace, patch)
}

// peerOf selects the end of a connection: all pods with the labels of a pod, or an address; nil: it is another thing, or no label is for
// more than one pod.
func peerOf(end, namespace string, pods []corev1.Pod) *networkingv1.NetworkPolicyPeer {
	if address, err := netip.ParseAddr(end); err == nil {
		return &networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: netip.PrefixFrom(address, address.BitLen()).String()}}
	}
	for i := range pods {
		pod := &pods[i]
		if "pod/"+pod.Namespace+"/"+pod.Name != end || pod.Spec.HostNetwork {
			continue
		}
		labels := map[string]string{}
		for label, value := range pod.Labels {
			if !ofOnePod(label) {
				labels[label] = value
			}
		}
		if len(labels) == 0 {
			return nil
		}
		peer := &networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
		if pod.Namespace != namespace {
			peer.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: pod.Namespace}}
		}
		return peer
	}
	return nil
}
