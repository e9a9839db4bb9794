package dpu

import (
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// secondLook is how long many ports have to be stale before they are deleted.
const secondLook = time.Minute

// guard stops a pass that would delete more than a tenth of the ports. Missing facts, such as the answer of a NIC or
// of the API server, are a more likely cause than deleted pods, also of few ports if no NIC of the DPU is in switchdev
// mode. It waits by the clock, because devices change in bursts, with a pass for each change.
type guard struct {
	mu      sync.Mutex
	since   time.Time              // of the first pass that was stopped; zero: none was
	stopped func(stale, total int) // is called for that pass
}

func (g *guard) allow(stale, total int, noSwitch bool, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if mass := reconcile.Mass(stale, total) || noSwitch && stale*10 > total; !mass {
		g.since = time.Time{}
		return true
	}
	if g.since.IsZero() {
		g.since = now
		g.stopped(stale, total)
	}
	return now.Sub(g.since) >= secondLook
}
