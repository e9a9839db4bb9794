// Package removal ends the agents of a cluster before the chart is removed, and waits until every node is cleaned.
//
// Place in the data flow: helm uninstall -> pre-delete hooks of the chart: the DaemonSets "ovn-offload-cleanup", whose
// pods wait for the end of their node's agent, and a Job -> Run. Helm removes the rest, Open vSwitch included, only when
// the Job has succeeded: a node keeps its address only if the clean-up runs before Open vSwitch ends.
package removal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// Labels of the chart's DaemonSets. Clean-ups of nodes with another role end, too: the cleaners go on with them.
const (
	agents   = "app in (ovnkube-node, ovn-offload-leave)"
	cleaners = "app=ovn-offload-cleanup"
)

// Run deletes the agents' DaemonSets and waits until the cleaners have finished on every node. When ctx ends, the error
// names the nodes that are left.
func Run(ctx context.Context, client dynamic.Interface, namespace string, log *slog.Logger) error {
	sets := client.Resource(appsv1.SchemeGroupVersion.WithResource("daemonsets")).Namespace(namespace)
	pods := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	list, err := sets.List(ctx, metav1.ListOptions{LabelSelector: agents})
	if err != nil {
		return fmt.Errorf("listing the agents' DaemonSets: %w", err)
	}
	for _, set := range list.Items {
		background := metav1.DeletePropagationBackground
		err := sets.Delete(ctx, set.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting DaemonSet %s: %w", set.GetName(), err)
		}
		log.Info("agents end", "daemonset", set.GetName())
	}
	if err := untilReady(ctx, client, sets); err != nil {
		left, listErr := uncleaned(context.WithoutCancel(ctx), pods)
		return errors.Join(fmt.Errorf("waiting for the clean-up of nodes (%s): %w", strings.Join(left, ", "), err), listErr)
	}
	log.Info("all nodes are cleaned")
	return nil
}

// untilReady waits until all pods of all cleaners are ready.
func untilReady(ctx context.Context, client dynamic.Interface, sets dynamic.ResourceInterface) error {
	list, err := sets.List(ctx, metav1.ListOptions{LabelSelector: cleaners})
	if err != nil {
		return err
	}
	waiting := map[string]bool{}
	for _, set := range list.Items {
		waiting[set.GetName()] = true
	}
	if len(waiting) == 0 {
		return errors.New("there is no DaemonSet with the label " + cleaners)
	}
	watched := api.NewListWatch(sets, client, func(o *metav1.ListOptions) { o.LabelSelector = cleaners })
	_, err = watchtools.UntilWithSync(ctx, watched, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return false, nil
		}
		var set appsv1.DaemonSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &set); err != nil {
			return false, err
		}
		if isReady(set) {
			delete(waiting, set.Name)
		}
		return len(waiting) == 0, nil
	})
	return err
}

// isReady reports whether every node of a DaemonSet has a ready pod. Before the first status there is none.
func isReady(set appsv1.DaemonSet) bool {
	return set.Status.ObservedGeneration >= set.Generation && set.Status.ObservedGeneration > 0 &&
		set.Status.NumberReady >= set.Status.DesiredNumberScheduled
}

// uncleaned names the nodes without a ready cleaner.
func uncleaned(ctx context.Context, pods dynamic.ResourceInterface) ([]string, error) {
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: cleaners})
	if err != nil {
		return nil, err
	}
	var nodes []string
	for _, pod := range list.Items {
		node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
		conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
		if !slices.ContainsFunc(conditions, func(c any) bool {
			condition, ok := c.(map[string]any)
			return ok && condition["type"] == "Ready" && condition["status"] == "True"
		}) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes, nil
}
