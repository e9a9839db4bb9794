package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	// DPUs are the Nodes of DPUs by the host whose flows they have.
	DPUs map[string]string `json:"-"`
	// Known says of which resources there are no other objects.
	Known Known `json:"-"`
	// Measured is when the oldest of the flows that were asked of nodes were dumped, by the nodes' clocks.
	Measured time.Time `json:"-"`
	// Unread says which flows of nodes were not read.
	Unread *Unread `json:"unread,omitempty"`

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
		Taken: taken.UTC().Truncate(time.Second), Namespace: namespace, Missing: map[Resource]string{}, Known: Known{}, objects: map[Resource][]*Object{},
	}
}

// ReadLists reads lists from the API server, all at once. What cannot be read is in Missing: an answer is for what is there.
func ReadLists(ctx context.Context, from Lister, namespace string, lists map[Resource][]Selected) *Snapshot {
	s := New(time.Now(), namespace)
	parts := map[Resource]*Snapshot{}
	var group sync.WaitGroup
	for r, selected := range lists {
		part := New(s.Taken, namespace)
		parts[r] = part
		group.Go(func() {
			for _, of := range selected {
				if err := part.List(ctx, from, r, of); err != nil {
					part.Missing[r] = err.Error()
				}
			}
		})
	}
	group.Wait()
	for r, part := range parts {
		s.Known[r] = slices.Contains(lists[r], Selected{}) && part.Missing[r] == ""
		maps.Copy(s.Missing, part.Missing)
		maps.Copy(s.objects, part.objects)
	}
	s.Sort()
	for r, objects := range s.objects { // several lists may have the same object
		s.objects[r] = slices.CompactFunc(objects, func(a, b *Object) bool { return a.name == b.name })
	}
	return s
}

// Lister reads a page of a list of the API server, and says how the next one begins.
type Lister interface {
	List(ctx context.Context, r Resource, of Selected, options metav1.ListOptions) (page []*Object, next string, err error)
}

// Selected are the objects of a namespace, or of all for "", which selectors of fields and labels select.
type Selected struct{ Namespace, Fields, Labels string }

// Lists are the lists that have what a snapshot needs of a resource. namespace is that of the network's own pods.
func (r Resource) Lists(namespace string) []Selected {
	switch r.selection().scope {
	case reported:
		var out []Selected
		for _, name := range reporters {
			out = append(out, Selected{Fields: "reportingController=" + name})
		}
		return out
	case installed:
		return []Selected{{Namespace: namespace}}
	default:
		return []Selected{{}}
	}
}

// OfNode are the lists that have what is known of one node: to read those of all nodes takes too long in a large cluster.
func OfNode(name, namespace string) map[Resource][]Selected {
	named := []Selected{{Fields: "metadata.name=" + name}}
	return map[Resource][]Selected{Nodes: named, NodeOffloads: named, Leases: Leases.Lists(namespace), Events: Events.Lists(namespace)}
}

// ReadPod reads what is known of the pod "namespace/name", its node, and the network's own pods that know its flows and their
// names.
func ReadPod(ctx context.Context, from Lister, namespace, name string) (*Snapshot, error) {
	of, short, _ := strings.Cut(name, "/")
	pods := []Selected{{Namespace: of, Fields: "metadata.name=" + short}}
	s := ReadLists(ctx, from, namespace, map[Resource][]Selected{Pods: pods})
	found, err := Objects[corev1.Pod](s, Pods)
	if err != nil || len(found) == 0 || found[0].Spec.NodeName == "" {
		return s, err
	}
	node := found[0].Spec.NodeName
	lists := OfNode(node, namespace)
	lists[Pods] = append(pods, Selected{Namespace: namespace, Fields: "spec.nodeName=" + node}, Selected{Namespace: namespace, Labels: databases})
	return ReadLists(ctx, from, namespace, lists), nil
}

// databases selects the pods of OVN's databases.
const databases = "app=ovnkube-db"

// List adds the objects of a list. A resource that the cluster does not have has none.
func (s *Snapshot) List(ctx context.Context, from Lister, r Resource, of Selected) error {
	options := metav1.ListOptions{Limit: pageSize, FieldSelector: of.Fields, LabelSelector: of.Labels}
	for {
		page, next, err := from.List(ctx, r, of, options)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if apierrors.IsResourceExpired(err) && options.Continue != "" { // it took too long: what has come may come again
			options.Continue, options.Limit = "", 0
			continue
		}
		if err != nil {
			return err
		}
		for _, o := range page {
			s.AddShared(r, o)
		}
		if next == "" {
			return nil
		}
		options.Continue = next
	}
}

// Add adds what a snapshot has of an object.
func (s *Snapshot) Add(r Resource, object map[string]any) {
	s.AddTrimmed(r, r.Trim(object))
}

// AddTrimmed adds an object of Trim.
func (s *Snapshot) AddTrimmed(r Resource, object map[string]any) {
	s.AddShared(r, NewObject(object))
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
		slices.SortFunc(objects, func(a, b *Object) int { return cmp.Compare(a.name, b.name) })
	}
}

// Merge adds to a snapshot the objects of another one that it does not have, and what is missing there.
func Merge(s, other *Snapshot) {
	for r, objects := range other.objects {
		s.typed.Delete(r)
		s.objects[r] = append(s.objects[r], objects...)
	}
	s.Sort()
	for r, objects := range s.objects {
		s.objects[r] = slices.CompactFunc(objects, func(a, b *Object) bool { return a.name == b.name })
	}
	maps.Copy(s.Missing, other.Missing)
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
			return nil, fmt.Errorf("reading %s %s: %w", r, o.name, err)
		}
		out = append(out, *typed)
	}
	s.typed.Store(r, out)
	return out, nil
}
