package node

import (
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// gatherAddresses is how long changes that only the annotations show are gathered.
const gatherAddresses = time.Second

// WatchedLinks are those that carry the node's network.
type WatchedLinks struct {
	mu      sync.Mutex
	indexes map[int]bool
	names   map[string]bool
	// changed counts events of links that no pass has settled yet.
	changed int
}

// Follow turns the host's events into passes: at once for links that carry the
// node's network, after a while for other addresses, never for pods' links.
func (w *WatchedLinks) Follow(events <-chan netdev.Event, loop *reconcile.Single) {
	for e := range events {
		switch {
		case e.Kind == netdev.Lost || w.Matters(e):
			w.note(e)
			loop.Mark()
		case e.Kind == netdev.AddrEvent:
			loop.MarkSpaced(gatherAddresses, 0)
		}
	}
}

// note counts what may have removed routes although they were not withdrawn: a link that was set down has none when it is up again.
func (w *WatchedLinks) note(e netdev.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind == netdev.Lost || e.Kind == netdev.LinkEvent {
		w.changed++
	}
}

// Changed counts the events of links since the last pass that has settled them.
func (w *WatchedLinks) Changed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// Settle takes the events that a pass has begun with.
func (w *WatchedLinks) Settle(changed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed -= changed
}

// Matters reports whether an event is about a link of ours. A link that has
// just been made has a name only, one that is gone by its index.
func (w *WatchedLinks) Matters(e netdev.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil { // before the first pass
		return true
	}
	return w.indexes[e.Index] || e.Kind == netdev.LinkEvent && w.names[e.Link]
}

// Remember adds names to those that matter, and learns the indexes of all.
func (w *WatchedLinks) Remember(st State, names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names = map[string]bool{}
	}
	for _, name := range names {
		w.names[name] = true
	}
	w.indexes = map[int]bool{}
	for name := range w.names {
		if link, ok := st.Links[name]; ok {
			w.indexes[link.Index] = true
		}
	}
}
