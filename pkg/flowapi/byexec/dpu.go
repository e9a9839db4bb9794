package byexec

import (
	"context"
	"fmt"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// DPUApp is the label app of the agents on DPUs.
const DPUApp = App + "-dpu"

// dpu is a Node with the agent of a host: of the host's cluster, or of another one.
type dpu struct {
	Agents
	node string
}

// AddDPUs finds the hosts of the DPUs among the nodes of a cluster, which are asked by their hosts' names from then on. A DPU says
// itself which host it serves. Missing are DPUs that did not answer.
func (a *Agents) AddDPUs(ctx context.Context, of Agents) (missing []string) {
	return a.addDPUs(ctx, of, func(ctx context.Context, node string) (*flowapi.Summary, error) {
		return of.Of(node).Summary(ctx, false)
	})
}

func (a *Agents) addDPUs(ctx context.Context, of Agents, ask func(ctx context.Context, node string) (*flowapi.Summary, error)) (missing []string) {
	type served struct{ node, host string }
	answers, missing := flowapi.All(ctx, of.nodes(DPUApp), func(ctx context.Context, node string) (*served, error) {
		summary, err := ask(ctx, node)
		if err != nil {
			return nil, fmt.Errorf("it is a DPU, whose host is not known: %w", err)
		}
		return &served{node, summary.Node}, nil
	})
	if a.dpus == nil {
		a.dpus = map[string]dpu{}
	}
	for _, s := range answers {
		a.dpus[s.host] = dpu{of, s.node}
	}
	return missing
}

// DPU is the Node of a host's DPU; "": the host has none, or it is not known.
func (a Agents) DPU(host string) string { return a.dpus[host].node }

// Has says whether a node has an agent with flows, itself or on its DPU.
func (a Agents) Has(node string) bool { return slices.Contains(a.Nodes(), node) }
