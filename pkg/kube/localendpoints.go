package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

const (
	// selectableServices is how many services a selector names; a URL has its limits.
	selectableServices = 100
	slicesWithin       = 10 * time.Second
)

// OnNode is what a service has on one node: ready endpoints, and others, which drain or
// name no node.
type OnNode struct{ Ready, Other int }

// LocalEndpoints counts the endpoints that services have on one node. It
// watches the EndpointSlices of the services that it is asked for and no others,
// and keeps of them the node's own endpoints. It is one goroutine's.
type LocalEndpoints struct {
	client  *api.Client
	node    string
	changed func()

	selector string
	informer cache.SharedIndexInformer
	synced   cache.InformerSynced
	stop     context.CancelFunc
}

// NewLocalEndpoints calls changed, from another goroutine, when a count may have
// changed.
func NewLocalEndpoints(client *api.Client, node string, changed func()) *LocalEndpoints {
	return &LocalEndpoints{client: client, node: node, changed: changed, stop: func() {}}
}

// Count gives the numbers of each of the services; one without any may be left out. It waits until all
// their slices are read; they are followed until ctx ends or other services are
// asked for.
func (l *LocalEndpoints) Count(ctx context.Context, services []types.NamespacedName) (map[types.NamespacedName]OnNode, error) {
	if err := l.watch(ctx, selectSlices(services)); err != nil {
		return nil, err
	}
	if l.informer == nil {
		return nil, nil
	}
	waiting, cancel := context.WithTimeout(ctx, slicesWithin)
	defer cancel()
	if !cache.WaitForCacheSync(waiting.Done(), l.synced) {
		return nil, fmt.Errorf("reading the endpoint slices of %d services: %w", len(services), context.Cause(waiting))
	}
	byService := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
	for _, slice := range objectsOf[discoveryv1.EndpointSlice](l.informer.GetIndexer().List()) {
		byService[service.Of(slice)] = append(byService[service.Of(slice)], slice)
	}
	counts := map[types.NamespacedName]OnNode{}
	for _, name := range services {
		counts[name] = countOf(byService[name])
	}
	return counts, nil
}

// countOf counts an address once: slices may share it for a while. A service of two
// families has each pod twice.
func countOf(some []*discoveryv1.EndpointSlice) OnNode {
	type kind struct {
		family discoveryv1.AddressType
		ready  bool
	}
	addresses := map[kind]map[string]bool{}
	for _, slice := range some {
		for _, e := range slice.Endpoints {
			in := kind{slice.AddressType, service.IsReady(e) && e.NodeName != nil}
			if addresses[in] == nil {
				addresses[in] = map[string]bool{}
			}
			addresses[in][e.Addresses[0]] = true
		}
	}
	var out OnNode
	for in, of := range addresses {
		if in.ready {
			out.Ready = max(out.Ready, len(of))
		} else {
			out.Other = max(out.Other, len(of))
		}
	}
	return out
}

// selectSlices is "" for no service.
func selectSlices(services []types.NamespacedName) string {
	switch {
	case len(services) == 0:
		return ""
	case len(services) > selectableServices:
		return discoveryv1.LabelServiceName + "," + proxied
	}
	var names []string
	for _, service := range services {
		names = append(names, service.Name)
	}
	slices.Sort(names)
	return discoveryv1.LabelServiceName + " in (" + strings.Join(slices.Compact(names), ",") + ")," + proxied
}

func (l *LocalEndpoints) watch(ctx context.Context, selector string) error {
	if selector == l.selector {
		return nil
	}
	l.stop()
	l.selector, l.informer, l.stop = selector, nil, func() {}
	if selector == "" {
		return nil
	}
	informer := api.NewInformer(l.client.EndpointSlices(metav1.NamespaceAll), &discoveryv1.EndpointSlice{}, nil,
		selectLabels(selector))
	err := informer.SetTransform(l.trim)
	if err != nil {
		return fmt.Errorf("preparing the informer of endpoint slices: %w", err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { l.changed() },
		UpdateFunc: func(old, new any) {
			before, _ := old.(*discoveryv1.EndpointSlice)
			after, _ := new.(*discoveryv1.EndpointSlice)
			if !sameObject(before, after) {
				l.changed()
			}
		},
		DeleteFunc: func(any) { l.changed() },
	})
	if err != nil {
		return fmt.Errorf("listening to the informer of endpoint slices: %w", err)
	}
	following, stop := context.WithCancel(ctx)
	l.informer, l.synced, l.stop = informer, registration.HasSynced, stop
	go informer.RunWithContext(following)
	return nil
}

// trim keeps the addresses of endpoints, ready or draining, that are the node's own or
// name no node. An informer may
// give it what it has trimmed before.
func (l *LocalEndpoints) trim(obj any) (any, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj, nil
	}
	kept := &discoveryv1.EndpointSlice{AddressType: slice.AddressType, ObjectMeta: metav1.ObjectMeta{
		Namespace: slice.Namespace, Name: slice.Name, UID: slice.UID, ResourceVersion: slice.ResourceVersion,
		Labels: map[string]string{discoveryv1.LabelServiceName: slice.Labels[discoveryv1.LabelServiceName]},
	}}
	for _, e := range slice.Endpoints {
		if (service.IsReady(e) || service.IsDraining(e)) && len(e.Addresses) > 0 && (e.NodeName == nil || *e.NodeName == l.node) {
			kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{Addresses: e.Addresses[:1], NodeName: e.NodeName, Conditions: e.Conditions})
		}
	}
	return kept, nil
}
