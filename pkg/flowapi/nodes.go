package flowapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Sources gives the Source of a node.
type Sources func(node string) Source

// Flows are those of nodes. Missing is what a node did not answer, or has more than the query takes.
func (of Sources) Flows(ctx context.Context, nodes []string, q Query) (answers []*Flows, missing []string) {
	answers, missing = All(ctx, nodes, func(ctx context.Context, node string) (*Flows, error) {
		got, err := of(node).Flows(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range got.Flows {
			got.Flows[i].Node = node
		}
		return got, nil
	})
	for _, got := range answers {
		if left := got.Matched - len(got.Flows) + got.Unseen; left > 0 {
			missing = append(missing, fmt.Sprintf("node/%s: %d flows more, with fewer packets", got.Node, left))
		}
		missing = append(missing, got.Missing...)
	}
	return answers, missing
}

// AddRules asks for the rules of flows, one by one.
func (of Sources) AddRules(ctx context.Context, flows []*Flow) error {
	for _, f := range flows {
		why, err := of(f.Node).Why(ctx, f.ID)
		if errors.Is(err, ErrNoFlow) {
			why, err = &Why{ID: f.ID, Problem: "it has ended"}, nil
		}
		if err != nil {
			return fmt.Errorf("rules of flow %s: %w", f.ID, err)
		}
		f.Why = why
	}
	return nil
}

// Joined are the flows of all answers.
func Joined(answers []*Flows) (flows []Flow) {
	for _, got := range answers {
		flows = append(flows, got.Flows...)
	}
	return flows
}

// Each points to the flows of all answers.
func Each(answers ...*Flows) (flows []*Flow) {
	for _, got := range answers {
		for i := range got.Flows {
			flows = append(flows, &got.Flows[i])
		}
	}
	return flows
}

// nodesAtOnce bounds the agents that are asked at the same time.
const nodesAtOnce = 16

// All asks several nodes. The errors are by node.
func All[T any](ctx context.Context, nodes []string, ask func(ctx context.Context, node string) (*T, error)) (answers []*T, missing []string) {
	var group errgroup.Group
	group.SetLimit(nodesAtOnce)
	var collecting sync.Mutex
	for _, node := range nodes {
		group.Go(func() error {
			got, err := ask(ctx, node)
			collecting.Lock()
			defer collecting.Unlock()
			if err != nil {
				missing = append(missing, fmt.Sprintf("node/%s: %v", node, err))
			} else {
				answers = append(answers, got)
			}
			return nil
		})
	}
	_ = group.Wait() // none fails
	slices.Sort(missing)
	return answers, missing
}
