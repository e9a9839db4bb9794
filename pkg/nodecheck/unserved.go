package nodecheck

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract/served"
)

// Unserved counts the objects of a kind that ovn-offload does not serve.
type Unserved struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	// Example is the name of one of the objects, namespace/name if the kind is namespaced.
	Example string `json:"example"`
	// Message is a sentence: what is missing.
	Message string `json:"message"`
}

// UnservedObjects are the objects of kinds that have no effect with ovn-offload, in the order of the page that lists the kinds.
// Beside them it returns the errors of kinds that could not be read.
func UnservedObjects(ctx context.Context, client dynamic.Interface) (all []Unserved, err error) {
	for _, kind := range served.RefusedKinds() {
		found := Unserved{Kind: kind.Kind, Message: kind.Note}
		err = errors.Join(err, list(ctx, client, kind.GroupVersionResource, func(o *unstructured.Unstructured) {
			if found.Count++; found.Count > 1 {
				return
			}
			if found.Example = o.GetName(); o.GetNamespace() != "" {
				found.Example = keyOf(o)
			}
		}))
		if found.Count > 0 {
			all = append(all, found)
		}
	}
	return all, err
}
