package nearby

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// lists reads lists of the API server.
type lists = func(ctx context.Context, lists map[snapshot.Resource][]snapshot.Selected) (*snapshot.Snapshot, error)

// keptFor is how old the names of a command get that looks at flows again and again: with many nodes and pods their
// lists cost the API server much more than the flows.
const keptFor = 30 * time.Second

// Kept are the lists of such a command. A pod that is new has no name for as long.
type Kept struct {
	mu    sync.Mutex
	known map[string]keptLists
}

type keptLists struct {
	s     *snapshot.Snapshot
	until time.Time
}

// Or gives what is kept, and reads what is not. Nil keeps nothing.
func (k *Kept) Or(read lists) lists {
	if k == nil {
		return read
	}
	return func(ctx context.Context, of map[snapshot.Resource][]snapshot.Selected) (*snapshot.Snapshot, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		now := time.Now()
		maps.DeleteFunc(k.known, func(_ string, l keptLists) bool { return !now.Before(l.until) })
		key := fmt.Sprintf("%q", of)
		if l, ok := k.known[key]; ok {
			return copied(l.s, now), nil
		}
		s, err := read(ctx, of)
		if err != nil || ctx.Err() != nil { // an interrupted list is not whole
			return s, err
		}
		if k.known == nil {
			k.known = map[string]keptLists{}
		}
		k.known[key] = keptLists{s, now.Add(keptFor)}
		return copied(s, now), nil
	}
}

// copied is a snapshot to which more may be added, with the same objects.
func copied(s *snapshot.Snapshot, now time.Time) *snapshot.Snapshot {
	out := s.Only()
	out.Taken, out.Known = now, s.Known
	maps.Copy(out.Missing, s.Missing)
	for _, r := range snapshot.All() {
		for _, object := range s.Shared(r) {
			out.AddShared(r, object)
		}
	}
	return out
}
