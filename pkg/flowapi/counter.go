package flowapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Counter counts what nodes carry between two looks at their summaries. A further count begins where the last one ended.
type Counter struct {
	Sources Sources

	before map[string]*Summary
}

// looks is how often an agent is asked for a later summary: where a dump takes long, it dumps more rarely.
const looks = 10

// seen is the summary of a node: an agent of a DPU gives its own name, and not that of the host.
type seen struct {
	node string
	*Summary
}

func (c *Counter) look(ctx context.Context, node string) (*seen, error) {
	s, err := c.Sources(node).Summary(ctx, true)
	return &seen{node, s}, err
}

// Count gives what each node has carried since the last count, or if there was none from a first look on. All nodes share the
// pause between two looks, which is the interval; without one, packets are those of the life of each flow. Nodes that have
// given no later summary are missing.
func (c *Counter) Count(ctx context.Context, nodes []string, interval time.Duration) (counted []*Summary, missing []string) {
	if interval <= 0 {
		return All(ctx, nodes, func(ctx context.Context, node string) (*Summary, error) { return c.Sources(node).Summary(ctx, true) })
	}
	waiting, missing := c.begin(ctx, nodes)
	for range looks {
		if len(waiting) == 0 || !pause(ctx, interval) {
			break
		}
		now, failed := All(ctx, waiting, c.look)
		missing, waiting = append(missing, failed...), nil
		for _, of := range now {
			if since := c.since(of); since != nil {
				counted = append(counted, since)
			} else {
				waiting = append(waiting, of.node)
			}
		}
	}
	why := errors.New("its agent has not read its flows a second time: give a longer --interval")
	for _, node := range waiting {
		missing = append(missing, fmt.Sprintf("node/%s: %v", node, cmp.Or(ctx.Err(), why)))
	}
	slices.Sort(missing)
	return counted, missing
}

// begin looks at the nodes that were not counted before, and gives those that have a first summary.
func (c *Counter) begin(ctx context.Context, nodes []string) (begun, missing []string) {
	if c.before == nil {
		c.before = map[string]*Summary{}
	}
	maps.DeleteFunc(c.before, func(node string, _ *Summary) bool { return !slices.Contains(nodes, node) })
	isNew := func(node string) bool { return c.before[node] == nil }
	first, missing := All(ctx, slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return !isNew(node) }), c.look)
	for _, of := range first {
		c.before[of.node] = of.Summary
	}
	return slices.DeleteFunc(slices.Clone(nodes), isNew), missing
}

// since is what a node has carried since its former summary; nil: this one is no later one, or the first one of an agent that has begun
// anew.
func (c *Counter) since(now *seen) *Summary {
	was := c.before[now.node]
	if !now.Taken.After(was.Taken) {
		return nil
	}
	c.before[now.node] = now.Summary
	if since := Since(was, now.Summary); since.Seconds > 0 {
		return since
	}
	return nil
}

func pause(ctx context.Context, interval time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(interval):
		return true
	}
}
