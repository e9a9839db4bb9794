package answer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Selected is how many pods a policy selects.
func Selected(policy *networkingv1.NetworkPolicy, pods []corev1.Pod) (*int, error) {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	n := 0
	for _, pod := range pods {
		if pod.Namespace == policy.Namespace && !pod.Spec.HostNetwork && selector.Matches(labels.Set(pod.Labels)) {
			n++
		}
	}
	return &n, nil
}

// selectedBy is how many pods the policy namespace/name selects; nil where the policy or the pods were not read.
func selectedBy(s *snapshot.Snapshot, name string) (*int, error) {
	policies, err := snapshot.Objects[networkingv1.NetworkPolicy](s, snapshot.NetworkPolicies)
	if err != nil || s.Missing[snapshot.Pods] != "" {
		return nil, err
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	for i := range policies {
		if policies[i].Namespace+"/"+policies[i].Name == name {
			return Selected(&policies[i], pods)
		}
	}
	return nil, nil
}
