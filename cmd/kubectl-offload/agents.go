package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// agents asks the agents of nodes for flows, by exec in their pods.
type agents struct {
	cluster *sysdump.Cluster
	pods    []corev1.Pod
}

// agentTimeout bounds the answer of one node.
const agentTimeout = 30 * time.Second

// nodes are those with an agent of a datapath. Of a host with a DPU that is the agent of the DPU.
func (a agents) nodes() []string {
	var nodes []string
	for _, pod := range a.pods {
		if pod.Namespace == a.cluster.Namespace && strings.HasPrefix(pod.Labels["app"], agentApp) && pod.Labels["app"] != agentApp+"-dpu-host" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

const agentApp, agentContainer = "ovnkube-node", "ovn-offload-agent"

// of is a client of one node's agent.
func (a agents) of(node string) flowapi.Client {
	return flowapi.Client{URL: "http://" + node, HTTP: &http.Client{Transport: byExec{a, node}, Timeout: agentTimeout}}
}

// byExec asks an agent by its command "api".
type byExec struct {
	agents
	node string
}

// RoundTrip implements http.RoundTripper.
func (e byExec) RoundTrip(r *http.Request) (*http.Response, error) {
	container, err := e.cluster.Find(e.pods, agentApp, agentContainer, e.node)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	if err := e.cluster.Exec(r.Context(), container, []string{"ovn-offload-agent", "api", r.URL.RequestURI()}, &out, &errs); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return http.ReadResponse(bufio.NewReader(&out), r)
}

// nodesAtOnce bounds the agents that are asked at the same time.
const nodesAtOnce = 16

// all asks several nodes. The errors are by node.
func all[T any](ctx context.Context, nodes []string, ask func(ctx context.Context, node string) (*T, error)) (answers []*T, missing []string) {
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

// flows reads the flows of nodes, and names them if the query asks for their rules.
func (a agents) flows(ctx context.Context, nodes []string, q flowapi.Query) (flows []flowapi.Flow, missing []string, err error) {
	answers, missing := all(ctx, nodes, func(ctx context.Context, node string) (*flowapi.Flows, error) {
		got, err := a.of(node).Flows(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range got.Flows {
			got.Flows[i].Node = node
		}
		return got, nil
	})
	for _, got := range answers {
		flows = append(flows, got.Flows...)
		if left := got.Matched - len(got.Flows) + got.Unseen; left > 0 {
			missing = append(missing, fmt.Sprintf("node/%s: %d flows more, with fewer packets", got.Node, left))
		}
	}
	if !q.Why {
		return flows, missing, nil
	}
	index, err := flownames.Look(ctx, databases(a).run, flows)
	if err != nil {
		return flows, append(missing, "names of flows: "+err.Error()), nil //nolint:nilerr // the flows are an answer without names
	}
	for i := range flows {
		index.Name(&flows[i])
	}
	return flows, missing, nil
}

// archivedFlows bounds the flows of a node in an archive: each has some fifty rules.
const archivedFlows = 500

// collectFlows reads the flows of nodes for an archive, as far as their agents answer.
func collectFlows(ctx context.Context, cluster *sysdump.Cluster, s *snapshot.Snapshot, only []string, progress io.Writer) map[string]snapshot.NodeFlows {
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil
	}
	from := agents{cluster, pods}
	nodes := slices.DeleteFunc(from.nodes(), func(node string) bool { return len(only) > 0 && !slices.Contains(only, node) })
	flows, missing, err := from.flows(ctx, nodes, flowapi.Query{All: true, Why: true, Limit: archivedFlows})
	if err != nil {
		missing = append(missing, err.Error())
	}
	summaries, unread := all(ctx, nodes, func(ctx context.Context, node string) (*flowapi.Summary, error) {
		return from.of(node).Summary(ctx, true)
	})
	out := map[string]snapshot.NodeFlows{}
	for _, summary := range summaries {
		of := snapshot.NodeFlows{Summary: summary}
		for _, f := range flows {
			if f.Node == summary.Node {
				of.Flows = append(of.Flows, f)
			}
		}
		out[summary.Node] = of
	}
	for _, problem := range append(missing, unread...) {
		fmt.Fprintln(progress, "flows:", problem)
	}
	return out
}
