package cni

import (
	"context"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// commands orders what runs at once: one command for a pod at a time, and a
// later command ends an ADD that has lost its point.
type commands struct {
	mu    sync.Mutex
	locks map[contract.Owner]*lock
	adds  map[*add]struct{}
}

type lock struct {
	held  chan struct{} // one token
	users int
}

// add is one ADD from before it takes its pod's lock until after its answer.
type add struct {
	pod     contract.Owner
	sandbox string
	cancel  context.CancelCauseFunc
}

func newCommands() *commands {
	return &commands{locks: map[contract.Owner]*lock{}, adds: map[*add]struct{}{}}
}

// acquire waits for the pod's turn, on whatever network; release gives it back.
func (c *commands) acquire(ctx context.Context, pod contract.Owner) (release func(), err error) {
	pod = pod.On("")
	c.mu.Lock()
	l := c.locks[pod]
	if l == nil {
		l = &lock{held: make(chan struct{}, 1)}
		c.locks[pod] = l
	}
	l.users++
	c.mu.Unlock()

	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(c.locks, pod)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// begin registers an ADD and ends those of the pod's other sandboxes: the
// runtime makes a new sandbox only when it has given the old one up.
func (c *commands) begin(ctx context.Context, r *Request) (context.Context, func()) {
	c.mu.Lock()
	for other := range c.adds {
		if other.pod == r.Pod && other.sandbox != r.Sandbox {
			other.cancel(errCancelled)
		}
	}
	c.mu.Unlock()
	return c.enter(ctx, r)
}

// enter registers an ADD without a request, which ends no other.
func (c *commands) enter(ctx context.Context, r *Request) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &add{pod: r.Pod, sandbox: r.Sandbox, cancel: cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adds[a] = struct{}{}
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.adds, a)
	}
}

// end cancels the ADDs of a sandbox.
func (c *commands) end(sandbox string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.adds {
		if a.sandbox == sandbox {
			a.cancel(errCancelled)
		}
	}
}

// busy reports whether an ADD of the pod is under way.
func (c *commands) busy(pod contract.Owner) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.adds {
		if a.pod == pod.On("") {
			return true
		}
	}
	return false
}

// adding reports whether an ADD of the sandbox is under way.
func (c *commands) adding(sandbox string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.adds {
		if a.sandbox == sandbox {
			return true
		}
	}
	return false
}
