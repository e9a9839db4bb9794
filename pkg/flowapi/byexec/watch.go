package byexec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// Watch reads the flows of some nodes while something runs.
type Watch struct {
	nodes []string
	ask   func(ctx context.Context, node string) (*flowapi.Flows, error)
	// missing is what could not be read, by node. A node that has answered once is not missing.
	missing map[string]string
}

// NewWatch is one of the flows of a namespace, on the nodes that have an agent with flows: of a host with a DPU the DPU has it.
func NewWatch(agents Agents, namespace string, nodes ...string) *Watch {
	w := &Watch{missing: map[string]string{}, ask: func(ctx context.Context, node string) (*flowapi.Flows, error) {
		return agents.Of(node).Flows(ctx, flowapi.Query{Namespace: namespace, Limit: flowapi.MaxLimit})
	}}
	have := agents.Nodes()
	for _, node := range nodes {
		if slices.Contains(have, node) {
			w.nodes = append(w.nodes, node)
			w.missing[node] = fmt.Sprintf("node/%s: its agent has not answered", node)
		}
	}
	return w
}

// Taker gets the flows of a node at a moment, which is one of the node's clock. It is called by one at a time.
type Taker func(node string, taken time.Time, flows []flowapi.Flow)

// patience is how many times a dump may take longer than the least time: an agent dumps more rarely where a dump takes long.
const patience = 10

// Follow reads once, and then again and again until end is called. End waits for a dump of each node that was made later.
func (w *Watch) Follow(ctx context.Context, every time.Duration, take Taker) (end func()) {
	w.read(ctx, take)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for wait(ctx, every, stop) {
			w.read(ctx, take)
		}
	}()
	return func() {
		close(stop)
		<-ended
		last := w.read(ctx, take)
		for range patience {
			if len(last) == 0 || !wait(ctx, flowapi.MinPeriod, nil) {
				return
			}
			now := w.read(ctx, take)
			maps.DeleteFunc(last, func(node string, taken time.Time) bool { return now[node].After(taken) })
		}
	}
}

// wait is false when the reading has to end.
func wait(ctx context.Context, d time.Duration, stop <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	case <-time.After(d):
		return true
	}
}

// read gives the moment of each node's dump.
func (w *Watch) read(ctx context.Context, take Taker) map[string]time.Time {
	taken := map[string]time.Time{}
	var one sync.Mutex
	var all sync.WaitGroup
	for _, node := range w.nodes {
		all.Go(func() {
			got, err := w.ask(ctx, node)
			one.Lock()
			defer one.Unlock()
			if err != nil {
				if _, never := w.missing[node]; never {
					w.missing[node] = fmt.Sprintf("node/%s: %v", node, err)
				}
				return
			}
			delete(w.missing, node)
			taken[node] = got.Taken
			for i := range got.Flows {
				got.Flows[i].Node = node
			}
			take(node, got.Taken, got.Flows)
		})
	}
	all.Wait()
	return taken
}

// Nodes are those that are asked.
func (w *Watch) Nodes() []string { return w.nodes }

// Missing are the nodes that have not answered, and why.
func (w *Watch) Missing() (missing []string) {
	for _, node := range slices.Sorted(maps.Keys(w.missing)) {
		missing = append(missing, w.missing[node])
	}
	return missing
}
