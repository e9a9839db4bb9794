package contract

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPod_CompletedAndWantsNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		change           func(*corev1.Pod)
		completed, wants bool
	}{
		"running":      {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false, true},
		"pending":      {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false, true},
		"unscheduled":  {func(p *corev1.Pod) { p.Spec.NodeName = "" }, false, false},
		"host network": {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, false, false},
		"terminating":  {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, false, true},
		"succeeded":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, true, false},
		"failed":       {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
		tc.change(pod)
		if Completed(pod) != tc.completed || WantsNetwork(pod) != tc.wants {
			t.Errorf("%s: completed %v, wants network %v", name, Completed(pod), WantsNetwork(pod))
		}
	}
}
