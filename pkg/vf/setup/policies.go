package setup

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// Policies follows the OffloadPolicies of the API. Before they are synced,
// an API server that lacks the kind included, nothing is changed: their absence
// would mean that everything goes back.
type Policies struct {
	informer cache.SharedIndexInformer
	log      *slog.Logger
	absent   sync.Once
}

// NewPolicies calls changed for each change, also before they are synced.
func NewPolicies(client dynamic.Interface, log *slog.Logger, changed func()) (*Policies, error) {
	p := &Policies{log: log}
	p.informer = api.NewDynamicInformer(client, v1alpha1.OffloadPolicies())
	if err := p.informer.SetWatchErrorHandlerWithContext(p.failed); err != nil {
		return nil, fmt.Errorf("following OffloadPolicies: %w", err)
	}
	_, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		return nil, fmt.Errorf("following OffloadPolicies: %w", err)
	}
	return p, nil
}

// Run follows them until ctx ends. It calls changed once they are synced: there
// may be none, and what a deleted policy did is to be undone.
func (p *Policies) Run(ctx context.Context, changed func()) error {
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), p.informer.HasSynced) {
			changed()
		}
	}()
	p.informer.RunWithContext(ctx)
	return ctx.Err()
}

// List gives all; not ok before they are synced, or when one cannot be read: to go
// without it would undo it.
func (p *Policies) List() ([]*v1alpha1.OffloadPolicy, bool) {
	if !p.informer.HasSynced() {
		return nil, false
	}
	var out []*v1alpha1.OffloadPolicy
	for _, object := range p.informer.GetStore().List() {
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		policy, err := v1alpha1.Decode[v1alpha1.OffloadPolicy](u)
		if err != nil {
			p.log.Warn("an OffloadPolicy cannot be read", "error", err)
			return nil, false
		}
		out = append(out, policy)
	}
	return out, true
}

// failed logs errors that client-go retries as debug, and once that the kind is absent.
func (p *Policies) failed(_ context.Context, _ *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		p.absent.Do(func() { p.log.Warn("the API server has no OffloadPolicies: NICs stay as they are") })
		return
	}
	p.log.Debug("following OffloadPolicies", "error", err)
}
