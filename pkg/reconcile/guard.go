package reconcile

import "sync"

// guardedRows is the number of rows below which a mass deletion is none.
const guardedRows = 20

// Mass says that a loss is so large that it speaks for missing facts rather than
// for missing objects: more than a tenth of what there is, and not just a few.
func Mass(doomed, total int) bool { return doomed > guardedRows && doomed*10 > total }

// Guard stops a pass that would delete much: more than a tenth of what there is
// speaks for missing facts rather than for missing objects. Seen a second time in
// one generation of the replica it is believed. The zero Guard is ready.
type Guard struct {
	mu      sync.Mutex
	stopped uint64 // the generation in which a pass was stopped
}

// Allow says whether a pass over total owners may delete the rows of doomed ones.
func (g *Guard) Allow(generation uint64, doomed, total int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !Mass(doomed, total) || g.stopped == generation {
		g.stopped = 0
		return true
	}
	g.stopped = generation
	return false
}
