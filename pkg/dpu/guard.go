package dpu

import (
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// secondLook is how long the loss of many ports must last to be believed.
const secondLook = time.Minute

// guard stops a pass that would take away much: more than a tenth of the ports at
// once speaks for facts that are missing, such as the answer of a NIC or of an API
// server, rather than for pods that are gone. What lasts is believed. It waits by
// the clock because changes of devices come in crowds, each with a pass.
type guard struct {
	mu      sync.Mutex
	since   time.Time               // of the first pass that was stopped; zero: none was
	stopped func(doomed, total int) // is told of that pass
}

func (g *guard) allow(doomed, total int, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !reconcile.Mass(doomed, total) {
		g.since = time.Time{}
		return true
	}
	if g.since.IsZero() {
		g.since = now
		g.stopped(doomed, total)
	}
	return now.Sub(g.since) >= secondLook
}
