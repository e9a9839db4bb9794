package cni

import (
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// backoff spaces out what is tried again for a claim. A pod may keep its VF where it
// cannot be seen for as long as the pod likes.
type backoff struct {
	mu sync.Mutex
	of map[claimKey]retry
}

type claimKey struct{ device, sandbox string }

type retry struct {
	err   error
	pause time.Duration
	next  time.Time
}

// mostPause is between two tries for a claim that keeps failing.
const mostPause = 10 * time.Minute

// try gives the last error while it is too early for another try.
func (b *backoff) try(c ledger.Claim, now time.Time, do func() error) error {
	key := claimKey{c.Device, c.Sandbox}
	b.mu.Lock()
	last := b.of[key]
	b.mu.Unlock()
	if now.Before(last.next) {
		return last.err
	}
	err := do()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		delete(b.of, key)
		return nil
	}
	pause := min(max(sweepRetry, 2*last.pause), mostPause)
	b.of[key] = retry{err: err, pause: pause, next: now.Add(pause)}
	return err
}

func (b *backoff) forget(c ledger.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, claimKey{c.Device, c.Sandbox})
}

// keep forgets claims that have ended.
func (b *backoff) keep(claims []ledger.Claim) {
	live := map[claimKey]bool{}
	for _, c := range claims {
		live[claimKey{c.Device, c.Sandbox}] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.of {
		if !live[key] {
			delete(b.of, key)
		}
	}
}
