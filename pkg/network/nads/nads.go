package nads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// workers write in parallel: 300 objects may come at once.
const workers = 8

// Deps is what NADs work with.
type Deps struct {
	Client dynamic.Interface
	// Pods are the pods that have the network of a NAD, by its namespace/name.
	Pods func(nad string) []contract.Owner
	// Allows says that a namespace may use the network of a NAD: pods of others keep no NAD.
	Allows func(nad, namespace string) bool
	// Verdict says what a NAD makes.
	Verdict func(nad *unstructured.Unstructured) Verdict
	// Default says that there is to be a NAD of the default network.
	Default bool
	// Event tells the users of an object.
	Event      func(object runtime.Object, kind, reason, note string)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Verdict is what the controller finds of a NAD.
type Verdict struct {
	// IsKnown is false until the NAD has been looked at.
	IsKnown bool
	// Refused says why the NAD makes no network. Unreachable says why load balancers do not lead to its network.
	Refused, Unreachable error
}

// NADs keeps the NADs of other objects.
type NADs struct {
	deps   Deps
	facts  facts
	writer *writer
	loop   *reconcile.Loop[contract.Owner]

	mu sync.Mutex
	// waiting are objects, by the Namespaces and pods whose changes they wait for.
	waiting map[contract.Owner]sets.Set[contract.Owner]
	// failed are the networks without a part for a node, by node, with the reasons.
	failed map[string]map[string]error
	// sources are the objects as they were read, by namespace, "" for those of the cluster.
	sources map[string]map[contract.Owner]*render.Source
}

// New makes NADs; nothing is read or written before Run.
func New(deps Deps) (*NADs, error) {
	f, err := newFacts(deps)
	if err != nil {
		return nil, fmt.Errorf("following objects of networks: %w", err)
	}
	n := &NADs{
		deps: deps, facts: f, writer: &writer{Deps: deps},
		waiting: map[contract.Owner]sets.Set[contract.Owner]{}, failed: map[string]map[string]error{},
		sources: map[string]map[contract.Owner]*render.Source{},
	}
	lc := reconcile.Defaults("network-objects")
	lc.Workers, lc.BatchSize, lc.Logger, lc.Registerer = workers, 1, deps.Logger, deps.Registerer
	n.loop = reconcile.New(lc, n.reconcile)
	n.loop.MarkAllWith(func() []contract.Owner { return append(n.facts.owners(), defaultNAD()) })
	errs := []error{follow(f.nads, n.nadChanged), follow(f.namespaces, n.namespaceChanged)}
	for _, informer := range f.sources {
		errs = append(errs, follow(informer, n.sourceChanged))
	}
	return n, errors.Join(errs...)
}

// follow calls changed with an object before and after; nil where there is none. A CRD may be absent.
func follow(informer cache.SharedIndexInformer, changed func(old, now *unstructured.Unstructured)) error {
	if err := informer.SetWatchErrorHandlerWithContext(logUnlessAbsent); err != nil {
		return fmt.Errorf("following objects of networks: %w", err)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { changed(nil, object(now)) },
		UpdateFunc: func(old, now any) { changed(object(old), object(now)) },
		DeleteFunc: func(old any) { changed(object(old), nil) },
	})
	return err
}

func either(old, now *unstructured.Unstructured) *unstructured.Unstructured {
	if now != nil {
		return now
	}
	return old
}

// logUnlessAbsent spares a cluster without the CRDs a line for each attempt.
func logUnlessAbsent(ctx context.Context, r *cache.Reflector, err error) {
	if !apierrors.IsNotFound(err) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// Run follows the objects and writes until ctx ends.
func (n *NADs) Run(ctx context.Context) error {
	var group sync.WaitGroup
	for _, informer := range n.facts.informers() {
		group.Go(func() { informer.RunWithContext(ctx) })
		group.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				n.loop.MarkAll()
			}
		})
	}
	err := n.loop.Run(ctx)
	group.Wait()
	return err
}

// Changed takes in that owners have changed: pods may have left a network, and the allocator has looked at NADs.
func (n *NADs) Changed(owners ...contract.Owner) {
	for _, owner := range owners {
		switch owner.Kind {
		case contract.KindPod:
			n.markWaiting(owner.On(""))
		case contract.KindNAD:
			if nad := get(n.facts.nads, owner.Namespace, owner.Name); nad != nil {
				n.nadChanged(nil, nad)
			}
		}
	}
}

// Allocated takes in which networks have no part for a node, and why.
func (n *NADs) Allocated(node string, failed map[string]error) {
	n.mu.Lock()
	before := n.failed[node]
	if delete(n.failed, node); len(failed) > 0 {
		n.failed[node] = failed
	}
	n.mu.Unlock()
	for _, networks := range []map[string]error{before, failed} {
		for name := range networks {
			if owner, ok := render.OwnerOfNetwork(name); ok && fmt.Sprint(before[name]) != fmt.Sprint(failed[name]) {
				n.loop.Mark(owner)
			}
		}
	}
}

// nadChanged marks the NAD's object, and those that wait for another NAD of the namespace to go.
func (n *NADs) nadChanged(old, now *unstructured.Unstructured) {
	for _, nad := range []*unstructured.Unstructured{old, now} {
		if nad == nil {
			continue
		}
		if owner, _, ok := render.ControllerOf(nad); ok {
			n.loop.Mark(owner)
		}
	}
	n.markWaiting(contract.Owner{Kind: kindNamespace, Name: either(old, now).GetNamespace()})
	if now == nil && keyOf(old) == contract.DefaultNetworkNAD {
		n.loop.Mark(defaultNAD())
	}
}

// sourceChanged reads an object, once for all events of Namespaces that follow, and marks it.
func (n *NADs) sourceChanged(old, now *unstructured.Unstructured) {
	owner := render.OwnerOf(either(old, now))
	var source *render.Source
	if now != nil {
		source, _ = render.Parse(now) // the only error is a kind that is not followed
	}
	n.mu.Lock()
	if source == nil {
		if delete(n.sources[owner.Namespace], owner); len(n.sources[owner.Namespace]) == 0 {
			delete(n.sources, owner.Namespace)
		}
	} else {
		if n.sources[owner.Namespace] == nil {
			n.sources[owner.Namespace] = map[contract.Owner]*render.Source{}
		}
		n.sources[owner.Namespace][owner] = source
	}
	n.mu.Unlock()
	n.loop.Mark(owner)
}

// namespaceChanged marks the objects whose selector the namespace's labels begin or end to match.
func (n *NADs) namespaceChanged(old, now *unstructured.Unstructured) {
	name := either(old, now).GetName()
	n.markWaiting(contract.Owner{Kind: kindNamespace, Name: name})
	if old != nil && now != nil && maps.Equal(old.GetLabels(), now.GetLabels()) &&
		(old.GetDeletionTimestamp() == nil) == (now.GetDeletionTimestamp() == nil) {
		return
	}
	if old != nil && now != nil && isLabelled(old) != isLabelled(now) {
		n.loop.Mark(n.facts.ownersIn(name)...)
	}
	for _, source := range n.selecting(name) {
		if before, after := old != nil && selects(source, old), now != nil && selects(source, now); before != after {
			n.loop.Mark(source.Owner)
		}
	}
}

// selecting are the objects that may be for a namespace.
func (n *NADs) selecting(namespace string) []*render.Source {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Values(n.sources[""])), maps.Values(n.sources[namespace]))
}

func (n *NADs) markWaiting(by contract.Owner) {
	n.mu.Lock()
	owners := n.waiting[by].UnsortedList()
	n.mu.Unlock()
	n.loop.Mark(owners...)
}

// wait replaces what an object waits for.
func (n *NADs) wait(owner contract.Owner, by []contract.Owner) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, owners := range n.waiting {
		if owners.Delete(owner); len(owners) == 0 {
			delete(n.waiting, key)
		}
	}
	for _, key := range by {
		if n.waiting[key] == nil {
			n.waiting[key] = sets.New[contract.Owner]()
		}
		n.waiting[key].Insert(owner)
	}
}

func (n *NADs) reconcile(ctx context.Context, owners []contract.Owner) (map[contract.Owner]error, error) {
	failed := map[contract.Owner]error{}
	for _, owner := range owners {
		failed[owner] = n.one(ctx, owner)
	}
	return failed, nil
}

// one brings the NADs of an object into being, or ends them.
func (n *NADs) one(ctx context.Context, owner contract.Owner) error {
	if owner == defaultNAD() {
		return n.makeDefault(ctx)
	}
	if !n.facts.areRead(owner.Kind) {
		return fmt.Errorf("%w: the objects of networks are not read yet", reconcile.ErrNotReady)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	object := n.facts.get(owner)
	if object == nil {
		waits, err := n.orphans(ctx, owner, "")
		n.wait(owner, waits)
		return err
	}
	waits, err := n.orphans(ctx, owner, object.GetUID())
	return errors.Join(err, n.apply(ctx, object, waits))
}

// orphans lets go of NADs whose object is gone, or is another one of the same name: Kubernetes deletes them, and only the
// finalizer is left. It returns the pods that keep NADs.
func (n *NADs) orphans(ctx context.Context, owner contract.Owner, now types.UID) (waits []contract.Owner, err error) {
	var errs []error
	for _, nad := range n.facts.owned(owner) {
		if metav1.GetControllerOf(nad).UID == now {
			continue
		}
		pods := n.facts.holders(nad)
		if len(pods) == 0 {
			errs = append(errs, n.writer.release(ctx, nad))
		}
		waits = append(waits, pods...)
	}
	return waits, errors.Join(errs...)
}

// apply makes what an object says true, and says in its status what came of it. The object also waits for pods that keep
// NADs of a former object of its name.
func (n *NADs) apply(ctx context.Context, object *unstructured.Unstructured, waits []contract.Owner) error {
	isLeaving := object.GetDeletionTimestamp() != nil
	if !isLeaving {
		var err error
		if object, err = n.writer.finalize(ctx, object, true); err != nil {
			return err
		}
	}
	source, err := render.Parse(object)
	if err != nil {
		return err
	}
	p, err := newPlan(source, n.facts.places(source))
	if err != nil {
		return err
	}
	o := outcome{plan: p}
	o.err = n.writer.do(ctx, source, &o.plan)
	n.wait(source.Owner, append(waits, o.waits...))
	if isOutdated(o.err) {
		return o.err // and no condition tells of it: the next pass sees more
	}
	if isLeaving && o.err == nil && len(o.problems) == 0 {
		_, err := n.writer.finalize(ctx, object, false)
		return ignoreGone(err)
	}
	o.look(n.deps.Verdict, n.failures(render.NetworkName(source.Owner)))
	return errors.Join(o.err, n.writer.status(ctx, source, o))
}

// failures are the nodes without a part of a network.
func (n *NADs) failures(network string) (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for node, networks := range n.failed {
		if err := networks[network]; err != nil {
			out = append(out, "node "+node+": "+err.Error())
		}
	}
	return out
}
