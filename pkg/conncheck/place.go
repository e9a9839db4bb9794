package conncheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Choose gives the place of a test: the nodes that are named, or the first two that run pods; and an image, or that of the
// agents.
func Choose(nodes []corev1.Node, agents []appsv1.DaemonSet, named []string, image string) (Place, error) {
	var fit []string
	for _, node := range nodes {
		if runsPods(node) {
			fit = append(fit, node.Name)
		}
	}
	slices.Sort(fit)
	for _, name := range named {
		if !slices.Contains(fit, name) {
			return Place{}, fmt.Errorf("node %s runs no pods: it is not there, not ready, unschedulable or a DPU", name)
		}
	}
	if len(named) > 0 {
		fit = named
	}
	if len(fit) < 2 {
		return Place{}, errors.New("the test needs two nodes that are ready")
	}
	at := Place{NodeA: fit[0], NodeB: fit[1], Image: cmp.Or(image, Image(agents))}
	if at.Image == "" {
		return Place{}, errors.New("no DaemonSet ovnkube-node has an image with ovn-offload-agent: give one")
	}
	return at, nil
}

// WithResource is the place with a resource by which pods ask for VFs. One of its nodes may lack it.
func (p Place) WithResource(resource string, nodes []corev1.Node) (Place, error) {
	p.Resource, p.Lacks = resource, nil
	if resource == "" {
		return p, nil
	}
	for _, node := range nodes {
		has := node.Status.Allocatable[corev1.ResourceName(resource)]
		if (node.Name == p.NodeA || node.Name == p.NodeB) && has.IsZero() {
			p.Lacks = append(p.Lacks, node.Name)
		}
	}
	if len(p.Lacks) == 2 {
		return p, fmt.Errorf("nodes %s and %s have no %s for pods", p.NodeA, p.NodeB, resource)
	}
	return p, nil
}

func runsPods(node corev1.Node) bool {
	_, dpu := node.Labels[contract.DPULabel]
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready && !dpu && !node.Spec.Unschedulable
}

// DaemonSets are those of the network, with their images.
func DaemonSets(ctx context.Context, client dynamic.Interface, namespace string) ([]appsv1.DaemonSet, error) {
	kind := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	found, err := client.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var sets []appsv1.DaemonSet
	for _, item := range found.Items {
		var set appsv1.DaemonSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &set); err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// Image is that of the agents.
func Image(agents []appsv1.DaemonSet) string {
	for _, agent := range agents {
		for _, c := range agent.Spec.Template.Spec.Containers {
			if c.Name == "ovn-offload-agent" && strings.HasPrefix(agent.Name, "ovnkube-node") {
				return c.Image
			}
		}
	}
	return ""
}
