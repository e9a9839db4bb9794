package snapshot

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Within is a Lister for users who may not list the objects of all namespaces: it then reads those of some. Of nodes it
// then has none, and of pods none of the network's own, which is no error.
type Within struct {
	Lister
	Namespaces []string
	// System is the namespace of the network's own pods.
	System string
}

// List implements Lister.
func (w Within) List(ctx context.Context, r Resource, of Selected, options metav1.ListOptions) ([]*Object, string, error) {
	page, next, err := w.Lister.List(ctx, r, of, options)
	switch {
	case !apierrors.IsForbidden(err) || len(w.Namespaces) == 0:
		return page, next, err
	case of.Namespace == w.System && r == Pods && w.System != "" && !slices.Contains(w.Namespaces, w.System):
		return nil, "", nil
	case of.Namespace != "":
		return page, next, err
	}
	switch r {
	case Pods, Services, NetworkPolicies:
	case Nodes:
		return nil, "", nil
	default:
		return nil, "", err
	}
	some := &Snapshot{objects: map[Resource][]*Object{}}
	for _, namespace := range w.Namespaces { // as a whole: what selects nodes may leave some of the other end out
		if err := some.List(ctx, w.Lister, r, Selected{Namespace: namespace}); err != nil {
			return nil, "", err
		}
	}
	return some.objects[r], "", nil
}
