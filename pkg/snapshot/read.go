package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Snapshot has the objects of a cluster at one moment.
type Snapshot struct {
	// Taken is when the objects were read.
	Taken time.Time `json:"taken"`
	// Namespace is that of the network's own pods.
	Namespace string `json:"namespace"`
	// Missing says why a resource was not read. A resource that the cluster does not have is no such one.
	Missing map[Resource]string `json:"missing,omitempty"`

	objects map[Resource][]*Object
	// typed are the objects as Objects gave them: by resource, a slice.
	typed sync.Map
	flows []NodeFlows
}

// reporters are the names under which the network's processes write Events.
var reporters = []string{"ovn-offload-controller", "ovn-offload-agent"} //nolint:gochecknoglobals // constant

// pageSize bounds the memory that one answer of the API server uses.
const pageSize = 500

// New makes a snapshot without objects.
func New(taken time.Time, namespace string) *Snapshot {
	return &Snapshot{
		Taken: taken.UTC().Truncate(time.Second), Namespace: namespace, Missing: map[Resource]string{}, objects: map[Resource][]*Object{},
	}
}

// Read reads resources from the API server, all at once. What cannot be read is in Missing: an answer is for what is there.
func Read(ctx context.Context, client dynamic.Interface, namespace string, resources ...Resource) *Snapshot {
	s := New(time.Now(), namespace)
	parts := make([]*Snapshot, len(resources))
	var group sync.WaitGroup
	for i, r := range resources {
		group.Go(func() {
			parts[i] = New(s.Taken, namespace)
			if err := parts[i].read(ctx, client, r); err != nil {
				parts[i].Missing[r] = err.Error()
			}
		})
	}
	group.Wait()
	for _, part := range parts {
		maps.Copy(s.Missing, part.Missing)
		maps.Copy(s.objects, part.objects)
	}
	s.Sort()
	return s
}

func (s *Snapshot) read(ctx context.Context, client dynamic.Interface, r Resource) error {
	for _, selected := range r.Lists(client, s.Namespace) {
		if err := s.List(ctx, selected.From, r, metav1.ListOptions{FieldSelector: selected.Fields}); err != nil {
			return err
		}
	}
	return nil
}

// Listed is a list of the API server, with the selector of its fields.
type Listed struct {
	From   dynamic.ResourceInterface
	Fields string
}

// Lists are the lists that have what a snapshot needs of a resource. namespace is that of the network's own pods.
func (r Resource) Lists(client dynamic.Interface, namespace string) []Listed {
	from := client.Resource(r.Kind())
	switch r.selection().scope {
	case reported:
		var out []Listed
		for _, name := range reporters {
			out = append(out, Listed{from, "reportingController=" + name})
		}
		return out
	case installed:
		return []Listed{{from.Namespace(namespace), ""}}
	default:
		return []Listed{{from, ""}}
	}
}

// List adds the objects of a list.
func (s *Snapshot) List(ctx context.Context, from dynamic.ResourceInterface, r Resource, options metav1.ListOptions) error {
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) { return from.List(ctx, options) }))
	pages.PageSize = pageSize
	err := pages.EachListItem(ctx, options, func(object runtime.Object) error {
		s.Add(r, object.(*unstructured.Unstructured).Object)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Add adds what a snapshot has of an object.
func (s *Snapshot) Add(r Resource, object map[string]any) {
	s.AddTrimmed(r, r.Trim(object))
}

// AddTrimmed adds an object of Trim.
func (s *Snapshot) AddTrimmed(r Resource, object map[string]any) {
	s.AddShared(r, &Object{Fields: object})
}

// AddShared adds an object that other snapshots have, too.
func (s *Snapshot) AddShared(r Resource, o *Object) {
	s.typed.Delete(r)
	s.objects[r] = append(s.objects[r], o)
}

// Trim is what a snapshot has of an object.
func (r Resource) Trim(object map[string]any) map[string]any { return r.selection().trim(object) }

// Shared are a resource's objects as they were added. Do not change them.
func (s *Snapshot) Shared(r Resource) []*Object { return s.objects[r] }

// Sort puts the objects of all resources into the order of their names, which the API server's answers and archives share.
func (s *Snapshot) Sort() {
	for _, objects := range s.objects {
		slices.SortFunc(objects, func(a, b *Object) int { return cmp.Compare(a.name(), b.name()) })
	}
}

// Only is the snapshot with these resources alone. A question about nodes then does not wait until all pods are decoded.
func (s *Snapshot) Only(resources ...Resource) *Snapshot {
	out := &Snapshot{Taken: s.Taken, Namespace: s.Namespace, Missing: map[Resource]string{}, objects: map[Resource][]*Object{}}
	for _, r := range resources {
		out.objects[r] = s.objects[r]
		if why, ok := s.Missing[r]; ok {
			out.Missing[r] = why
		}
		if typed, ok := s.typed.Load(r); ok {
			out.typed.Store(r, typed)
		}
	}
	return out
}

// Objects are a resource's objects, by namespace and name. They are shared: do not change them.
func Objects[T any](s *Snapshot, r Resource) ([]T, error) {
	if typed, ok := s.typed.Load(r); ok {
		if out, ok := typed.([]T); ok {
			return out, nil
		}
	}
	out := make([]T, 0, len(s.objects[r]))
	for _, o := range s.objects[r] {
		typed, err := as[T](o)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", r, o.name(), err)
		}
		out = append(out, *typed)
	}
	s.typed.Store(r, out)
	return out, nil
}
