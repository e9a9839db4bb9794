package snapshot

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tenant may list what is in some namespaces. Each has a pod on another page.
type tenant struct {
	may   []string
	fails error
	asked []string
}

func (l *tenant) List(_ context.Context, r Resource, of Selected, o metav1.ListOptions) ([]*Object, string, error) {
	l.asked = append(l.asked, string(r)+" "+of.Namespace+o.FieldSelector+o.Continue)
	if l.fails != nil {
		return nil, "", l.fails
	}
	if !slices.Contains(l.may, of.Namespace) {
		return nil, "", apierrors.NewForbidden(r.Kind().GroupResource(), "", errors.New("in "+of.Namespace))
	}
	name, next := "a", "next"
	if o.Continue != "" {
		name, next = "b", ""
	}
	return []*Object{NewObject(map[string]any{"metadata": map[string]any{"namespace": of.Namespace, "name": name}})}, next, nil
}

// TestWithin_ReadsNamespacesWhereAllMayNotBeListed.
func TestWithin_ReadsNamespacesWhereAllMayNotBeListed(t *testing.T) {
	for name, test := range map[string]struct {
		lister  tenant
		of      Resource
		selects Selected
		within  []string
		want    int
		missing bool
	}{
		"all":             {tenant{may: []string{""}}, Pods, Selected{}, []string{"shop"}, 2, false},
		"a tenant":        {tenant{may: []string{"shop"}}, Pods, Selected{}, []string{"shop"}, 2, false},
		"of a node":       {tenant{may: []string{"shop"}}, Pods, Selected{Fields: "spec.nodeName=w1"}, []string{"shop"}, 2, false},
		"two":             {tenant{may: []string{"shop", "bank"}}, Services, Selected{}, []string{"shop", "bank"}, 4, false},
		"another":         {tenant{may: []string{"shop"}}, Pods, Selected{}, []string{"shop", "bank"}, 0, true},
		"none":            {tenant{may: []string{"shop"}}, Pods, Selected{}, nil, 0, true},
		"a named one":     {tenant{may: []string{"shop"}}, Pods, Selected{Namespace: "bank"}, []string{"shop"}, 0, true},
		"of the network":  {tenant{may: []string{"shop"}}, Pods, Selected{Namespace: "ovn-kubernetes"}, []string{"shop"}, 0, false},
		"asked for these": {tenant{may: []string{"shop"}}, Pods, Selected{Namespace: "ovn-kubernetes"}, []string{"ovn-kubernetes"}, 0, true},
		"no namespaced":   {tenant{may: []string{"shop"}}, NodeOffloads, Selected{}, []string{"shop"}, 0, true},
		"no namespaces":   {tenant{may: []string{"shop"}}, Nodes, Selected{}, []string{"shop"}, 0, false},
		"no API server":   {tenant{fails: errors.New("no route to host")}, Pods, Selected{}, []string{"shop"}, 0, true},
		"nodes, no route": {tenant{fails: errors.New("no route to host")}, Nodes, Selected{}, []string{"shop"}, 0, true},
	} {
		s := ReadLists(t.Context(), Within{&test.lister, test.within, "ovn-kubernetes"}, "ovn-kubernetes", map[Resource][]Selected{test.of: {test.selects}})
		if n := len(s.Shared(test.of)); n != test.want || (s.Missing[test.of] != "") != test.missing {
			t.Errorf("%s: %d objects, missing %v, asked %q", name, n, s.Missing, test.lister.asked)
		}
	}
}
