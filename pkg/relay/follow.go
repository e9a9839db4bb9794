package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// snapshotFor is how long a snapshot is shared by all views.
const snapshotFor = 2 * time.Second

// Followed are the objects of the API server that views are made from. Pods and Services are not among them: there are
// many, and a view is about few. They are read when a view asks for them.
type Followed struct {
	client    snapshot.Dynamic
	namespace string
	informers map[snapshot.Resource][]cache.SharedIndexInformer

	mu    sync.Mutex
	built *snapshot.Snapshot
	at    time.Time
	lists map[listKey][]*snapshot.Object
	// reading are the lists that are being read: once for all who want the same.
	reading singleflight.Group
}

// listKey are the objects of a list that views ask for, or one of them by its name.
type listKey struct {
	resource snapshot.Resource
	selected snapshot.Selected
	name     string
}

// followed are the resources that are watched.
func followed() []snapshot.Resource {
	return []snapshot.Resource{
		snapshot.Nodes, snapshot.NodeOffloads, snapshot.OffloadPolicies, snapshot.Leases, snapshot.Events, snapshot.Deployments, snapshot.DaemonSets, snapshot.StatefulSets,
	}
}

// NewFollowed watches nothing before Run.
func NewFollowed(client dynamic.Interface, namespace string) (*Followed, error) {
	f := &Followed{client: snapshot.Dynamic{Interface: client}, namespace: namespace, informers: map[snapshot.Resource][]cache.SharedIndexInformer{}, lists: map[listKey][]*snapshot.Object{}}
	for _, r := range followed() {
		for _, selected := range r.Lists(namespace) {
			lists := api.NewListWatch[unstructured.UnstructuredList](f.client.Of(r, selected), client, func(o *metav1.ListOptions) { o.FieldSelector = selected.Fields })
			informer := cache.NewSharedIndexInformerWithOptions(lists, &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{})
			if err := informer.SetTransform(trimmed(r)); err != nil {
				return nil, fmt.Errorf("following %s: %w", r, err)
			}
			f.informers[r] = append(f.informers[r], informer)
		}
	}
	return f, nil
}

// kept is an object of a store. All snapshots share it until it changes.
type kept struct {
	unstructured.Unstructured
	object *snapshot.Object
}

// trimmed cuts an object down before it is kept.
func trimmed(r snapshot.Resource) cache.TransformFunc {
	return func(object any) (any, error) {
		if u, ok := object.(*unstructured.Unstructured); ok {
			version := u.GetResourceVersion()
			k := &kept{Unstructured: unstructured.Unstructured{Object: r.Trim(u.Object)}}
			k.SetResourceVersion(version)
			k.object = snapshot.NewObject(k.Object)
			return k, nil
		}
		return object, nil
	}
}

// Run watches until ctx ends.
func (f *Followed) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, informers := range f.informers {
		for _, informer := range informers {
			group.Go(func() error { informer.RunWithContext(ctx); return ctx.Err() })
		}
	}
	return group.Wait()
}

// Synced says which resource was not read yet; nil: all were.
func (f *Followed) Synced() error {
	for r, informers := range f.informers {
		for _, informer := range informers {
			if !informer.HasSynced() {
				return fmt.Errorf("%s are not read yet", r)
			}
		}
	}
	return nil
}

// Snapshot has the objects as they are now, or were two seconds ago.
func (f *Followed) Snapshot() *snapshot.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.built != nil && time.Since(f.at) < snapshotFor {
		return f.built
	}
	s := snapshot.New(time.Now(), f.namespace)
	for r, informers := range f.informers {
		for _, informer := range informers {
			if !informer.HasSynced() {
				s.Missing[r] = "not read yet"
			}
			for _, object := range informer.GetStore().List() {
				if k, ok := object.(*kept); ok {
					s.AddShared(r, k.object)
				}
			}
		}
	}
	s.Sort()
	f.built, f.at = s, time.Now()
	return s
}

// With implements Objects: it adds the pods, and Services if they are asked for, of one view.
func (f *Followed) With(ctx context.Context, want web.Want) (*snapshot.Snapshot, error) {
	shared := f.Snapshot()
	if want.Pod == "" && want.Node == "" && len(want.Namespaces) == 0 {
		return shared, nil
	}
	switch {
	case want.Pod != "":
		namespace, name, err := cache.SplitMetaNamespaceKey(want.Pod)
		if err != nil {
			return nil, err
		}
		pods, err := f.list(ctx, listKey{snapshot.Pods, snapshot.Selected{Namespace: namespace}, name})
		if err != nil || len(pods) == 0 {
			return narrow(shared, ""), err
		}
		host, _, _ := unstructured.NestedString(pods[0].Fields(), "spec", "nodeName")
		return with(narrow(shared, host), snapshot.Pods, pods), nil
	case want.Node != "":
		pods, err := f.list(ctx, listKey{snapshot.Pods, snapshot.Selected{Fields: "spec.nodeName=" + want.Node}, ""})
		return with(narrow(shared, want.Node), snapshot.Pods, pods), err
	}
	return f.namespaces(ctx, shared, want)
}

func with(s *snapshot.Snapshot, r snapshot.Resource, objects []*snapshot.Object) *snapshot.Snapshot {
	for _, object := range objects {
		s.AddShared(r, object)
	}
	return s
}

// namespaces adds the objects of namespaces that are asked for.
func (f *Followed) namespaces(ctx context.Context, shared *snapshot.Snapshot, want web.Want) (*snapshot.Snapshot, error) {
	s := shared.Only()
	for _, r := range []snapshot.Resource{snapshot.Pods, snapshot.Services, snapshot.NetworkPolicies} {
		if !slices.Contains(want.Resources, r) {
			continue
		}
		for _, namespace := range want.Namespaces {
			objects, err := f.list(ctx, listKey{r, snapshot.Selected{Namespace: namespace}, ""})
			if err != nil {
				return nil, err
			}
			with(s, r, objects)
		}
	}
	s.Sort()
	return s, nil
}

// list reads objects. A view asks for them more than once, and so do other viewers, also while they are being read: it forgets
// them after the time of a snapshot.
func (f *Followed) list(ctx context.Context, key listKey) ([]*snapshot.Object, error) {
	if objects, ok := f.recent(key); ok {
		return objects, nil
	}
	got, err, _ := f.reading.Do(fmt.Sprintf("%q", key), func() (any, error) {
		if objects, ok := f.recent(key); ok { // read while this one began
			return objects, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // for the others who wait
		defer cancel()
		objects, err := f.read(ctx, key)
		if err == nil {
			f.remember(key, objects)
		}
		return objects, err
	})
	objects, _ := got.([]*snapshot.Object)
	return objects, err
}

func (f *Followed) recent(key listKey) ([]*snapshot.Object, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	objects, ok := f.lists[key]
	return objects, ok
}

func (f *Followed) remember(key listKey, objects []*snapshot.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists[key] = objects
	time.AfterFunc(snapshotFor, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.lists, key)
	})
}

// read asks the API server. An object that there is not is an empty list.
func (f *Followed) read(ctx context.Context, key listKey) ([]*snapshot.Object, error) {
	s := snapshot.New(time.Now(), f.namespace)
	if key.name == "" {
		err := s.List(ctx, f.client, key.resource, key.selected)
		return s.Shared(key.resource), err
	}
	object, err := f.client.Of(key.resource, key.selected).Get(ctx, key.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	s.Add(key.resource, object.Object)
	return s.Shared(key.resource), nil
}

// narrow leaves one of the nodes: a view of it, or of a pod on it, does not wait for the others to be read.
func narrow(s *snapshot.Snapshot, node string) *snapshot.Snapshot {
	var others []snapshot.Resource
	for _, r := range followed() {
		if r != snapshot.Nodes && r != snapshot.NodeOffloads {
			others = append(others, r)
		}
	}
	out := s.Only(others...)
	for _, r := range []snapshot.Resource{snapshot.Nodes, snapshot.NodeOffloads} {
		if why, ok := s.Missing[r]; ok {
			out.Missing[r] = why
		}
		for _, object := range s.Shared(r) {
			if name, _, _ := unstructured.NestedString(object.Fields(), "metadata", "name"); name == node {
				out.AddShared(r, object)
			}
		}
	}
	return out
}
