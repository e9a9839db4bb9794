package reconcile

import "sync"

// guardedRows is the number of rows up to which the guard allows a deletion.
const guardedRows = 20

// Mass reports whether a deletion is so large that missing facts are a more likely cause than deleted objects: more than
// a tenth of all, and more than guardedRows.
func Mass(stale, total int) bool { return stale > guardedRows && stale*10 > total }

// Guard is the mass-delete guard: it stops a pass that would delete more than a tenth of the rows, and allows a second
// one in the same generation of the replica. The zero Guard is ready.
type Guard struct {
	mu      sync.Mutex
	stopped uint64 // the generation in which a pass was stopped
}

// Allow says whether a pass over total owners may delete the rows of stale ones.
func (g *Guard) Allow(generation uint64, stale, total int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !Mass(stale, total) || g.stopped == generation {
		g.stopped = 0
		return true
	}
	g.stopped = generation
	return false
}
