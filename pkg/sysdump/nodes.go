package sysdump

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Nodes are those of which an archive has flows and logs, and lines for those that are left out.
func Nodes(all, only []string) (nodes, left []string) {
	for _, node := range all {
		if len(only) == 0 || slices.Contains(only, node) {
			nodes = append(nodes, node)
		} else {
			left = append(left, "node/"+node+": not in this archive")
		}
	}
	return nodes, left
}

// Sample chooses at most so many nodes of a large cluster for an archive, in this order: those of the controllers and of the
// databases, those with problems, and others at even distances. nil: all are few enough. all is sorted.
func Sample(all []string, pods []corev1.Pod, troubled []string, most int) []string {
	if len(all) <= most {
		return nil
	}
	var chosen []string
	add := func(node string) {
		if len(chosen) < most && slices.Contains(all, node) && !slices.Contains(chosen, node) {
			chosen = append(chosen, node)
		}
	}
	for _, pod := range pods {
		if app := pod.Labels["app"]; app == "ovnkube-master" || app == "ovnkube-db" {
			add(pod.Spec.NodeName)
		}
	}
	for _, node := range troubled {
		add(node)
	}
	for i := range most {
		add(all[i*len(all)/most])
	}
	return chosen
}
