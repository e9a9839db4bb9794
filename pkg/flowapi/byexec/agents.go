// Package byexec asks the agents of nodes for flows by exec in their pods, also again and again while something runs.
//
// Place in the data flow:
//
//	kubectl offload -> Agents -> exec: ovn-offload-agent api -> flowapi.Handler of the agent
//	kubectl offload explain flow --ask-driver -> Agents -> exec: ovn-offload-agent ask-driver -> the driver of the NIC
//	kubectl offload test, perf -> Watch -> Agents of two nodes -> conncheck.Witness, perf.Meter
package byexec

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// Agents asks the agents of nodes for flows, by exec in their pods.
type Agents struct {
	Cluster *sysdump.Cluster
	Pods    []corev1.Pod
	// Within bounds the answer of one node; 0: answerWithin.
	Within time.Duration
	// dpus are by their host.
	dpus map[string]dpu
}

// answerWithin is what a person waits for a node that does not answer.
const answerWithin = 30 * time.Second

// Nodes are those with an agent of a datapath, and hosts whose DPU is known to have it.
func (a Agents) Nodes() []string {
	nodes := slices.AppendSeq(a.nodes(App), maps.Keys(a.dpus))
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// nodes are those of the pods with a label app, or App and the name of a group of nodes.
func (a Agents) nodes(app string) []string {
	var nodes []string
	for _, pod := range a.Pods {
		label := pod.Labels["app"]
		if pod.Namespace == a.Cluster.Namespace && strings.HasPrefix(label, app) && (app != App || !strings.HasPrefix(label, DPUApp)) && label != DPUApp+"-host" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// App and Container are those of the agents' pods.
const (
	App       = "ovnkube-node"
	Container = "ovn-offload-agent"
)

// Of is a client of one node's agent.
func (a Agents) Of(node string) flowapi.Client {
	if d, ok := a.dpus[node]; ok {
		return d.Of(d.node)
	}
	return flowapi.Client{URL: "http://" + node, HTTP: &http.Client{Transport: byExec{a, node}, Timeout: cmp.Or(a.Within, answerWithin)}}
}

// byExec asks an agent by its command "api".
type byExec struct {
	Agents
	node string
}

// RoundTrip implements http.RoundTripper.
func (e byExec) RoundTrip(r *http.Request) (*http.Response, error) {
	container, err := e.Cluster.Find(e.Pods, App, Container, e.node)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	if err := e.Cluster.Exec(r.Context(), container, []string{"ovn-offload-agent", "api", r.URL.RequestURI()}, &out, &errs); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return http.ReadResponse(bufio.NewReader(&out), r)
}

// AskDriver has the agent of a node offer the rule of a flow that the NIC's driver refused to it once more, and delete it. The agent
// serves no such thing: its binary does it for who may run commands in its pod.
func (a Agents) AskDriver(ctx context.Context, node, id string) (*flowapi.Asked, error) {
	if d, ok := a.dpus[node]; ok {
		return d.AskDriver(ctx, d.node, id)
	}
	container, err := a.Cluster.Find(a.Pods, App, Container, node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var out, errs bytes.Buffer
	err = a.Cluster.Exec(ctx, container, []string{"ovn-offload-agent", "ask-driver", "--", id}, &out, &errs)
	asked := &flowapi.Asked{}
	switch {
	case err != nil && strings.Contains(errs.String(), "unknown command"):
		return nil, errors.New("the agent is of a former version, which cannot ask it")
	case err != nil:
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), asked); err != nil {
		return nil, fmt.Errorf("reading the answer of the agent of node %s: %w", node, err)
	}
	return asked, nil
}

// source is Of, as a Source.
func (a Agents) source(node string) flowapi.Source { return a.Of(node) }

// Flows are those of nodes. Missing is what a node did not answer, or has more than the query takes.
func (a Agents) Flows(ctx context.Context, nodes []string, q flowapi.Query) (answers []*flowapi.Flows, missing []string) {
	return flowapi.Sources(a.source).Flows(ctx, nodes, q)
}
