package answer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
