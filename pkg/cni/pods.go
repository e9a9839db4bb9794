package cni

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Pods is the node's pods as an informer sees them, with waiting on top.
type Pods struct {
	lookup func(namespace, name string) *corev1.Pod

	mu      sync.Mutex
	waiters map[contract.Owner][]chan struct{}
}

// NewPods takes a look-up in the informer's store, nil when a pod is absent.
// Changed has to be hooked to the informer's events.
func NewPods(lookup func(namespace, name string) *corev1.Pod) *Pods {
	return &Pods{lookup: lookup, waiters: map[contract.Owner][]chan struct{}{}}
}

// Changed wakes whoever waits for one of the pods. Call it after the store has
// the change; it does not block.
func (p *Pods) Changed(owners ...contract.Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range owners {
		for _, w := range p.waiters[o] {
			select {
			case w <- struct{}{}:
			default:
			}
		}
	}
}

func (p *Pods) get(o contract.Owner) *corev1.Pod { return p.lookup(o.Namespace, o.Name) }

// Wait looks at the pod now and after each of its changes until ok is done or
// ctx ends. Not done, ok's error says what is missing; the error of an ended
// ctx comes with the last of these.
func (p *Pods) Wait(ctx context.Context, o contract.Owner, ok func(*corev1.Pod) (done bool, err error)) error {
	o = o.On("")
	changed := make(chan struct{}, 1)
	p.mu.Lock()
	p.waiters[o] = append(p.waiters[o], changed)
	p.mu.Unlock()
	defer p.forget(o, changed)
	for {
		done, err := ok(p.get(o))
		if done {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

func (p *Pods) forget(o contract.Owner, w chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.waiters[o]
	for i, x := range list {
		if x == w {
			p.waiters[o] = append(list[:i:i], list[i+1:]...)
		}
	}
	if len(p.waiters[o]) == 0 {
		delete(p.waiters, o)
	}
}

// isPod reports whether the runtime's UID means this pod. A static pod has one
// UID in the API and another at kubelet; old runtimes tell none.
func isPod(pod *corev1.Pod, uid string) bool {
	return uid == "" || string(pod.UID) == uid || pod.Annotations[contract.ConfigHashKey] == uid
}
