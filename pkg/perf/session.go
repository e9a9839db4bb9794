package perf

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/perf/load"
	"github.com/ovn-offload/ovn-offload/pkg/scratch"
)

// Run measures cases in the pods of a session, one after the other.
type Run struct {
	*scratch.Session
	At conncheck.Place
	Options
	// Agents are asked for flows.
	Agents byexec.Agents
	// Done gets each result as it comes.
	Done func(Result)
}

// patience is the time beyond a load's own for connections that do not come, and for flows to be read.
const patience = time.Minute

// Measure gives the results in the order of the cases, and what could not be read of the flows.
func (run Run) Measure(ctx context.Context, cases []Case) (results []Result, missing []string, err error) {
	pods, err := scratch.List[corev1.Pod](ctx, run.Namespace, "Pod")
	if err != nil {
		return nil, nil, err
	}
	addresses := map[string]string{}
	for _, pod := range pods {
		addresses[pod.Name] = pod.Status.PodIP
	}
	flows := byexec.NewWatch(run.Agents, Name, run.At.NodeA, run.At.NodeB)
	for _, c := range cases {
		r := run.one(ctx, c, addresses[c.To], flows)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		results = append(results, r)
		run.Done(r)
	}
	if !slices.ContainsFunc(cases, Case.OnOVN) {
		return results, nil, nil
	}
	for _, node := range []string{run.At.NodeA, run.At.NodeB} {
		if !slices.Contains(flows.Nodes(), node) {
			missing = append(missing, fmt.Sprintf("node/%s: no agent with its flows is known: where its DPU is a Node of another cluster, give --dpu-context or --dpu-kubeconfig", node))
		}
	}
	return results, append(missing, flows.Missing()...), nil
}

// one measures a case, and reads the flows of its pods meanwhile.
func (run Run) one(ctx context.Context, c Case, host string, flows *byexec.Watch) Result {
	ctx, cancel := context.WithTimeout(ctx, run.Idle+run.Time+patience)
	defer cancel()
	var meter *Meter
	end := func() {}
	if c.OnOVN() {
		meter = NewMeter(c.From, c.To)
		end = flows.Follow(ctx, flowapi.MinPeriod, meter.Add)
	}
	var r load.Report
	if err := run.Run(ctx, c.From, c.Command(run.Options, host), &r); err != nil {
		r.Error = fmt.Sprintf("measuring in pod %s: %v", c.From, err)
	}
	end()
	return NewResult(c, run.Options, run.At.NodeA, r, meter)
}
