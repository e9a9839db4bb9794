package relay

import (
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// places bounds what is done at a time for all callers. One caller never has all places, and a place that gets free
// goes to the caller that has the fewest of those who wait.
type places struct {
	// all is how many there are, each how many one caller may have, and wait how many requests of one caller may wait.
	all, each, wait int

	mu    sync.Mutex
	total int
	taken map[string]int
	queue []*waiter // in the order in which they came
}

// waiter is a request for a place. granted is closed when it has one.
type waiter struct {
	who     string
	granted chan struct{}
}

// maxWaiting bounds the requests of all callers that wait at one of places.
const maxWaiting = 1000

func newPlaces(all, each, wait int) *places {
	return &places{all: all, each: each, wait: wait, taken: map[string]int{}}
}

// take waits for a place. web.ErrBusy: too many requests wait.
func (p *places) take(ctx context.Context, who string) (leave func(), err error) {
	w := &waiter{who, make(chan struct{})}
	if !p.enter(w) {
		return nil, web.ErrBusy
	}
	select {
	case <-w.granted:
		return sync.OnceFunc(func() { p.leave(who) }), nil
	case <-ctx.Done():
		p.abandon(w)
		return nil, ctx.Err()
	}
}

// enter adds a request to the queue, and gives it a place if one is free. false: too many wait.
func (p *places) enter(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, w)
	p.grant()
	waiting := 0
	for _, other := range p.queue {
		if other.who == w.who {
			waiting++
		}
	}
	if waiting <= p.wait && len(p.queue) <= maxWaiting || w.isGranted() {
		return true
	}
	p.queue = slices.DeleteFunc(p.queue, func(other *waiter) bool { return other == w })
	return false
}

func (p *places) leave(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(who)
}

// abandon is for a request whose caller is gone. It may have got its place meanwhile.
func (p *places) abandon(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.isGranted() {
		p.free(w.who)
		return
	}
	p.queue = slices.DeleteFunc(p.queue, func(other *waiter) bool { return other == w })
}

// free needs the lock, and so do grant and next.
func (p *places) free(who string) {
	p.total--
	if p.taken[who]--; p.taken[who] == 0 {
		delete(p.taken, who)
	}
	p.grant()
}

func (p *places) grant() {
	for p.total < p.all {
		i := p.next()
		if i < 0 {
			return
		}
		w := p.queue[i]
		p.queue = slices.Delete(p.queue, i, i+1)
		p.total++
		p.taken[w.who]++
		close(w.granted)
	}
}

// next is the place in the queue of the request that is next; -1: none may have a place.
func (p *places) next() int {
	best := -1
	for i, w := range p.queue {
		if n := p.taken[w.who]; n < p.each && (best < 0 || n < p.taken[p.queue[best].who]) {
			best = i
		}
	}
	return best
}

func (w *waiter) isGranted() bool {
	select {
	case <-w.granted:
		return true
	default:
		return false
	}
}

// Admit takes a place for a request of the page, and for as long as it lasts for one that follows a view. See
// web.Server.
func (r *Relay) Admit(request *http.Request, follows bool) (leave func(), err error) {
	f, err := r.caller(request)
	if err != nil {
		return nil, err
	}
	who := f.share(request.Context())
	if follows {
		return r.following.take(request.Context(), who)
	}
	return r.viewing.take(request.Context(), who)
}

// share is what places are counted by: the user, and the token of callers that may see all, because administrators
// share the account of the viewer.
func (f facts) share(ctx context.Context) string {
	if sight, _ := f.caller.Sight(ctx, PodFlows); sight.Nodes && sight.All {
		return "token " + hex.EncodeToString(f.caller.token[:])
	}
	return "user " + f.caller.user.Username
}
