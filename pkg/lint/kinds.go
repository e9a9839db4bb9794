package lint

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Kinds are those of a cluster's objects that Check looks at.
func Kinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Version: "v1", Resource: "namespaces"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "pods"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "batch", Version: "v1", Resource: "jobs"}, {Group: "batch", Version: "v1", Resource: "cronjobs"},
	}
}

// List reads the objects of a cluster that Check looks at.
func List(ctx context.Context, client dynamic.Interface) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	for _, kind := range Kinds() {
		found, err := client.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", kind.Resource, err)
		}
		objects = append(objects, found.Items...)
	}
	return objects, nil
}
