package nads

import (
	"cmp"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

const kindNamespace = "Namespace"

// Resource is that of NADs.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}
}

func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// facts are what the informers have.
type facts struct {
	sources          map[string]cache.SharedIndexInformer // by kind
	nads, namespaces cache.SharedIndexInformer
	// pods are those that use a NAD.
	pods func(nad string) []contract.Owner
	// allows says that a namespace may use the network of a NAD.
	allows func(nad, namespace string) bool
}

func newFacts(deps Deps) (facts, error) {
	client := deps.Client
	f := facts{
		sources: map[string]cache.SharedIndexInformer{}, pods: deps.Pods, allows: deps.Allows,
		nads: api.NewDynamicInformer(client, Resource()), namespaces: api.NewDynamicInformer(client, namespaces()),
	}
	for kind, resource := range render.Kinds() {
		f.sources[kind] = api.NewDynamicInformer(client, resource)
	}
	if err := f.nads.AddIndexers(cache.Indexers{byOwner: ownersOf, cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}); err != nil {
		return f, err
	}
	return f, f.namespaces.SetTransform(withoutFields)
}

// withoutFields keeps of a Namespace its labels, and whether it ends.
func withoutFields(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kindNamespace}}
	kept.SetName(u.GetName())
	kept.SetResourceVersion(u.GetResourceVersion())
	kept.SetLabels(u.GetLabels())
	kept.SetDeletionTimestamp(u.GetDeletionTimestamp())
	return kept, nil
}

func (f facts) informers() []cache.SharedIndexInformer {
	all := []cache.SharedIndexInformer{f.nads, f.namespaces}
	for _, s := range f.sources {
		all = append(all, s)
	}
	return all
}

// areRead says that all that concerns objects of a kind is there. A CRD may be absent.
func (f facts) areRead(kind string) bool {
	s, known := f.sources[kind]
	return known && s.HasSynced() && f.nads.HasSynced() && f.namespaces.HasSynced()
}

// owners are the objects, and the objects that NADs name as their controllers.
func (f facts) owners() (owners []contract.Owner) {
	for _, s := range f.sources {
		for _, o := range s.GetStore().List() {
			owners = append(owners, render.OwnerOf(object(o)))
		}
	}
	for _, o := range f.nads.GetStore().List() {
		if owner, _, ok := render.ControllerOf(object(o)); ok {
			owners = append(owners, owner)
		}
	}
	return contract.Unique(owners)
}

// get is an object, nil when it is gone.
func (f facts) get(owner contract.Owner) *unstructured.Unstructured {
	return get(f.sources[owner.Kind], owner.Namespace, owner.Name)
}

func get(informer cache.SharedIndexInformer, namespace, name string) *unstructured.Unstructured {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	if o, ok, _ := informer.GetStore().GetByKey(key); ok {
		return object(o)
	}
	return nil
}

const byOwner = "owner"

// ownersOf indexes NADs by their controllers.
func ownersOf(o any) ([]string, error) {
	if owner, _, ok := render.ControllerOf(object(o)); ok {
		return []string{owner.String()}, nil
	}
	return nil, nil
}

// owned are the NADs whose controller has the kind and the name.
func (f facts) owned(owner contract.Owner) (out []*unstructured.Unstructured) {
	found, _ := f.nads.GetIndexer().ByIndex(byOwner, owner.String())
	for _, o := range found {
		out = append(out, object(o))
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	return out
}

// places are the namespaces that an object selects, and those that have NADs of it.
func (f facts) places(source *render.Source) (places []place) {
	names := map[string]bool{}
	for _, nad := range f.owned(source.Owner) {
		names[nad.GetNamespace()] = false
	}
	if source.Selector == nil {
		names[source.Owner.Namespace] = false
	}
	for _, o := range f.namespaces.GetStore().List() {
		_, has := names[object(o).GetName()]
		if isWanted := selects(source, object(o)); isWanted || has {
			names[object(o).GetName()] = isWanted
		}
	}
	for name, isWanted := range names {
		at := place{namespace: name, isWanted: isWanted, nad: get(f.nads, name, source.Owner.Name)}
		if namespace := get(f.namespaces, "", name); namespace != nil {
			at.isLabelled = isLabelled(namespace)
		}
		at.ends = f.ends(name)
		if at.nad != nil && (!isWanted || at.nad.GetDeletionTimestamp() != nil) {
			at.pods = f.holders(at.nad)
		}
		if source.IsPrimary {
			at.primary = f.primary(name, source.Owner.Name)
		}
		places = append(places, at)
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.namespace, b.namespace) })
	return places
}

// isLabelled says that a Namespace may have a primary network.
func isLabelled(namespace *unstructured.Unstructured) bool {
	_, is := namespace.GetLabels()[contract.PrimaryNetworkLabel]
	return is
}

// ownersIn are the objects with NADs in a namespace.
func (f facts) ownersIn(namespace string) (owners []contract.Owner) {
	found, _ := f.nads.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	for _, o := range found {
		if owner, _, ok := render.ControllerOf(object(o)); ok {
			owners = append(owners, owner)
		}
	}
	return owners
}

// ends says that a namespace is being deleted, or is gone.
func (f facts) ends(namespace string) bool {
	is := get(f.namespaces, "", namespace)
	return is == nil || is.GetDeletionTimestamp() != nil
}

// holders are the pods that keep a NAD: those of its own namespace and, while the namespace stays, those of other namespaces
// that may use its network.
func (f facts) holders(nad *unstructured.Unstructured) []contract.Owner {
	ends := f.ends(nad.GetNamespace())
	return slices.DeleteFunc(slices.Clone(f.pods(keyOf(nad))), func(pod contract.Owner) bool {
		return pod.Namespace != nad.GetNamespace() && (ends || !f.allows(keyOf(nad), pod.Namespace))
	})
}

// primary is the NAD of another primary network of a namespace, the first one by name, or "".
func (f facts) primary(namespace, except string) (first string) {
	found, _ := f.nads.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	for _, o := range found {
		nad := object(o)
		if name := nad.GetName(); name != except && isPrimary(nad) && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// selects says that an object wants its network in a namespace.
func selects(s *render.Source, namespace *unstructured.Unstructured) bool {
	if namespace.GetDeletionTimestamp() != nil || s.Object.GetDeletionTimestamp() != nil {
		return false
	}
	if s.Selector == nil {
		return namespace.GetName() == s.Owner.Namespace
	}
	return s.Selector.Matches(labels.Set(namespace.GetLabels()))
}

// isPrimary says that a NAD of ours is that of a primary network.
func isPrimary(nad *unstructured.Unstructured) bool {
	config, _, _ := unstructured.NestedString(nad.Object, "spec", "config")
	var conf struct {
		Type, Topology, Role string
	}
	return json.Unmarshal([]byte(config), &conf) == nil && conf.Type == contract.PluginType && conf.Topology != "" && conf.Role == string(contract.RolePrimary)
}

func object(o any) *unstructured.Unstructured {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	return o.(*unstructured.Unstructured)
}

func keyOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}
