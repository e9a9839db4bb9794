// Package mirror keeps copies of the EndpointSlices in namespaces with a primary network, with the addresses that the pods
// have there, as OVN-Kubernetes does. Load balancers do not need them; other readers find the addresses of a network there.
//
// Place in the data flow: a change of a Service, its EndpointSlices or pods marks the service -> Of -> the API.
//
//	mirror.go the loop of services
//	slice.go  the copy of an EndpointSlice
//	seen.go   when the API need not be asked
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

const (
	workers = 4
	// within bounds the work for one service.
	within = 10 * time.Second
)

// Deps is what Mirrors work with.
type Deps struct {
	Slices api.Namespaced[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList]
	// Network is the name of the primary network of a namespace, "" for none.
	Network func(namespace string) string
	// OnNetwork gives EndpointSlices the addresses of their pods on the primary network.
	OnNetwork func(namespace string, some []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice
	// Sources are the EndpointSlices of a service as an informer has them, with their versions, but for those of headless services.
	Sources func(service contract.Owner) []*discoveryv1.EndpointSlice
	// Services are those of all namespaces with a primary network.
	Services   func() []contract.Owner
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Mirrors keeps the copies.
type Mirrors struct {
	deps Deps
	// copies and headless have EndpointSlices that the view of the controller does not have, without their content.
	copies, headless cache.SharedIndexInformer
	loop             *reconcile.Loop[contract.Owner]
	// seen has the state of each service whose copies were right when the API was asked last.
	seen sync.Map
}

// New makes Mirrors; nothing is read or written before Run.
func New(deps Deps) (*Mirrors, error) {
	m := &Mirrors{deps: deps}
	lc := reconcile.Defaults("mirrored-endpoints")
	lc.Workers, lc.BatchSize, lc.Logger, lc.Registerer = workers, 1, deps.Logger, deps.Registerer
	m.loop = reconcile.New(lc, m.reconcile)
	m.loop.MarkAllWith(m.services)
	var errs []error
	for informer, selector := range map[*cache.SharedIndexInformer]string{
		&m.copies: discoveryv1.LabelManagedBy + "=" + controllerName, &m.headless: corev1.IsHeadlessService,
	} {
		*informer = api.NewInformer(deps.Slices(metav1.NamespaceAll), &discoveryv1.EndpointSlice{}, cache.Indexers{byService: serviceKey},
			func(o *metav1.ListOptions) { o.LabelSelector = selector })
		errs = append(errs, (*informer).SetTransform(onlyMeta))
		_, err := (*informer).AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    m.changed,
			UpdateFunc: func(_, now any) { m.changed(now) },
			DeleteFunc: m.changed,
		})
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

func onlyMeta(object any) (any, error) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: slice.Namespace, Name: slice.Name, ResourceVersion: slice.ResourceVersion, Labels: slice.Labels,
	}}, nil
}

func (m *Mirrors) changed(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
		m.loop.Mark(serviceOf(slice))
	}
}

// Changed takes in that owners have changed.
func (m *Mirrors) Changed(owners ...contract.Owner) {
	for _, owner := range owners {
		if owner.Kind == contract.KindService && (m.deps.Network(owner.Namespace) != "" || m.has(owner)) {
			m.loop.Mark(owner)
		}
	}
}

// has says that there are copies of a service.
func (m *Mirrors) has(service contract.Owner) bool {
	keys, _ := m.copies.GetIndexer().IndexKeys(byService, service.String()) // the index exists
	return len(keys) > 0
}

// byService is the index of EndpointSlices by their service.
const byService = "service"

func serviceKey(object any) ([]string, error) {
	if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
		return []string{serviceOf(slice).String()}, nil
	}
	return nil, nil
}

// services are those that have or want copies.
func (m *Mirrors) services() []contract.Owner {
	services := m.deps.Services()
	for _, object := range m.copies.GetStore().List() {
		if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
			services = append(services, serviceOf(slice))
		}
	}
	return contract.Unique(services)
}

// Run follows the copies and writes until ctx ends.
func (m *Mirrors) Run(ctx context.Context) error {
	var group sync.WaitGroup
	for _, informer := range []cache.SharedIndexInformer{m.copies, m.headless} {
		group.Go(func() { informer.RunWithContext(ctx) })
	}
	err := m.loop.Run(ctx)
	group.Wait()
	return err
}

// reconcile reads a service's EndpointSlices and its copies from the API if they may be wrong: what the informers have may be
// late, and the names of copies are made by the API server.
func (m *Mirrors) reconcile(ctx context.Context, owners []contract.Owner) (map[contract.Owner]error, error) {
	failed := map[contract.Owner]error{}
	for _, owner := range owners {
		failed[owner] = m.one(ctx, owner)
	}
	return failed, nil
}

func (m *Mirrors) one(ctx context.Context, service contract.Owner) error {
	if m.isSeen(service) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	slices := m.deps.Slices(service.Namespace)
	present, err := slices.List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + controllerName + "," + serviceLabel + "=" + service.Name})
	if err != nil {
		return fmt.Errorf("listing the copies of EndpointSlices: %w", err)
	}
	var wanted []*discoveryv1.EndpointSlice
	network, found := m.deps.Network(service.Namespace), pointers(present.Items)
	if network != "" {
		sources, err := slices.List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name})
		if err != nil {
			return fmt.Errorf("listing EndpointSlices: %w", err)
		}
		for _, source := range m.deps.OnNetwork(service.Namespace, mirrored(pointers(sources.Items))) {
			wanted = append(wanted, copyOf(source, network))
		}
	}
	state, right := stateOf(network, wanted, found), true
	for _, slice := range wanted {
		wrote, err := write(ctx, slices, slice, present)
		if err != nil {
			return err
		}
		right = right && !wrote
	}
	for i := range present.Items { // what is left has no source
		if name := present.Items[i].Name; name != "" {
			right = false
			if err := slices.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("deleting EndpointSlice %s: %w", name, err)
			}
		}
	}
	if m.seen.Delete(service); right && len(wanted) > 0 {
		m.seen.Store(service, state)
	}
	return nil
}

// write makes a copy, or changes the present one if it differs, and takes the latter out of present. It says whether it has
// written.
func write(
	ctx context.Context, slices api.Written[discoveryv1.EndpointSlice], wanted *discoveryv1.EndpointSlice, present *discoveryv1.EndpointSliceList,
) (bool, error) {
	for i := range present.Items {
		old := present.Items[i]
		if old.Name == "" || old.AddressType != wanted.AddressType || old.Annotations[sourceKey] != wanted.Annotations[sourceKey] {
			continue
		}
		present.Items[i].Name = ""
		changed, differs := update(old, wanted)
		if !differs {
			return false, nil
		}
		if _, err := slices.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return true, fmt.Errorf("changing EndpointSlice %s: %w", old.Name, err)
		}
		return true, nil
	}
	if _, err := slices.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return true, fmt.Errorf("making a copy of EndpointSlice %s: %w", wanted.Annotations[sourceKey], err)
	}
	return true, nil
}
