package contract

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestStandsBy_OnePodHasTheMachine while it moves, after it has moved, and when a move has failed.
func TestStandsBy_OnePodHasTheMachine(t *testing.T) {
	machine := func(name string, second int, change ...func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(int64(second), 0), Labels: map[string]string{VMLabel: "db"},
		}, Spec: corev1.PodSpec{NodeName: "n"}}
		for _, f := range change {
			f(pod)
		}
		return pod
	}
	ready := func(pod *corev1.Pod) { pod.Annotations = map[string]string{VMReadyKey: time.Now().String()} }
	ended := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	other := func(pod *corev1.Pod) { pod.Labels[VMLabel] = "web" }
	none := func(pod *corev1.Pod) { pod.Labels = nil }
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		runs string
	}{
		"alone":               {[]*corev1.Pod{machine("a", 1)}, "a"},
		"target made":         {[]*corev1.Pod{machine("b", 2), machine("a", 1)}, "a"},
		"target ready":        {[]*corev1.Pod{machine("a", 1), machine("b", 2, ready)}, "b"},
		"moved":               {[]*corev1.Pod{machine("a", 1, ended), machine("b", 2, ready)}, "b"},
		"moves again":         {[]*corev1.Pod{machine("b", 2, ready), machine("c", 3)}, "b"},
		"moved again":         {[]*corev1.Pod{machine("b", 2, ready), machine("c", 3, ready)}, "c"},
		"target failed":       {[]*corev1.Pod{machine("b", 2, ready), machine("c", 3, ready, ended)}, "b"},
		"of another machine":  {[]*corev1.Pod{machine("0", 0, other), machine("a", 1)}, "a"},
		"without the machine": {[]*corev1.Pod{machine("0", 0, none), machine("a", 1)}, "a"},
	} {
		for _, pod := range tc.pods {
			if pod.Labels[VMLabel] == "db" && StandsBy(pod, tc.pods) == (pod.Name == tc.runs) {
				t.Errorf("%s: pod %s: stands by: %v", name, pod.Name, pod.Name == tc.runs)
			}
			if pod.Labels[VMLabel] != "db" && StandsBy(pod, tc.pods) {
				t.Errorf("%s: pod %s stands by", name, pod.Name)
			}
		}
	}
}
