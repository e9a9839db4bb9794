package cni

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestDevice_OfInitContainerOnlyIsRefused: the kubelet tells of the devices of containers and of
// sidecars, not of those of init containers that end.
func TestDevice_OfInitContainerOnlyIsRefused(t *testing.T) {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	asks := func(pool string, restart *corev1.ContainerRestartPolicy) []corev1.Container {
		limits := corev1.ResourceList{corev1.ResourceName(pool): resource.MustParse("1")}
		return []corev1.Container{{Name: "prepare", RestartPolicy: restart, Resources: corev1.ResourceRequirements{Limits: limits}}}
	}
	for name, tt := range map[string]struct {
		initial, containers []corev1.Container
		reported            string // the pool that the kubelet reports
		refused             bool
	}{
		"only such":       {initial: asks(vfPool, nil), refused: true},
		"asked to end":    {initial: asks(vfPool, &never), refused: true},
		"sidecar":         {initial: asks(vfPool, &always), reported: vfPool},
		"a container too": {initial: asks(vfPool, nil), containers: asks(vfPool, nil), reported: vfPool},
		"another pool":    {initial: asks(vfPool, nil), containers: asks(otherPool, nil), reported: otherPool},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNIC(t)
			n.given = map[string][]string{}
			if tt.reported != "" {
				n.given[tt.reported] = []string{vf0}
			}
			n.putPod(web, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: webUID, Annotations: map[string]string{contract.PodNetworksKey: webNetwork}},
				Spec:       corev1.PodSpec{InitContainers: tt.initial, Containers: tt.containers},
			})
			_, err := n.do(addWeb(sandboxA, "/ns/a"))
			if !tt.refused {
				must(t, err)
				n.wantIn("/ns/a", sandboxA)
				return
			}
			const reason = "asks for ovn-offload.io/vf in its init container prepare only"
			if codeOf(err) != CodeDevice || !contains(err, reason) || !contains(err, "make the pod again with this limit in one of its containers") {
				t.Errorf("ADD: %v, want %q and what to do", err, reason)
			}
			n.wantLinks() // no veth instead
		})
	}
}
