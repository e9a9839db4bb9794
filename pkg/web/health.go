package web

import (
	"context"
	"errors"
	"net/url"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Health is the status, with each part of the network.
type Health struct {
	*answer.Status
	// Rollout is how many pods of each workload have its newest version.
	Rollout []Rollout `json:"rollout,omitempty"`
	// Agents are those of the nodes.
	Agents Agents `json:"agents"`
	// Pairs are hosts with a DPU.
	Pairs []Pair `json:"pairs,omitempty"`
	// Certificates are the problems that are about certificates and tokens.
	Certificates []answer.Problem `json:"certificates,omitempty"`
}

// Rollout is a workload that may be amid a change of its version.
type Rollout struct {
	Name    string `json:"name"`
	Updated int    `json:"updated"`
	All     int    `json:"all"`
	// Unseen: the change is so new that its controller has not begun with it.
	Unseen bool `json:"unseen,omitempty"`
}

// Agents counts nodes.
type Agents struct {
	// Nodes are all; Reported have a NodeOffload, which their agents write, and Serving one with an address for the relay.
	Nodes    int `json:"nodes"`
	Reported int `json:"reported"`
	Serving  int `json:"serving"`
	// Relay is set where a relay is: how many agents have answered it last, and which did not.
	Relay *RelayAgents `json:"relay,omitempty"`
}

// RelayAgents are the agents as the relay knows them.
type RelayAgents struct {
	Answered int      `json:"answered"`
	Failed   []string `json:"failed,omitempty"`
}

// Pair is a host and its DPU.
type Pair struct {
	Host string `json:"host"`
	// State is "ready", or what is wrong.
	State string `json:"state"`
}

func healthView(ctx context.Context, f Facts, _ url.Values) (*View, error) {
	s, err := f.Snapshot(ctx, Want{Resources: answer.StatusResources()})
	if err != nil {
		return nil, err
	}
	s = s.Only(answer.StatusResources()...)
	status, err := answer.NewStatus(s)
	if err != nil {
		return nil, err
	}
	h := &Health{Status: status}
	for _, read := range []func(*snapshot.Snapshot) error{h.rollout, h.agents, h.pairs} {
		if err := read(s); err != nil {
			return nil, err
		}
	}
	h.certificates()
	v := of(h, "status")
	traffic, err := f.Traffic(ctx)
	switch {
	case err == nil:
		h.Agents.Relay = &RelayAgents{Answered: traffic.Agents, Failed: traffic.Failed}
	case !errors.Is(err, ErrNoRelay):
		v.Missing = append(v.Missing, "agents: "+err.Error())
	}
	return v, nil
}

func (h *Health) rollout(s *snapshot.Snapshot) error {
	deployments, err := snapshot.Objects[appsv1.Deployment](s, snapshot.Deployments)
	if err != nil {
		return err
	}
	sets, err := snapshot.Objects[appsv1.StatefulSet](s, snapshot.StatefulSets)
	if err != nil {
		return err
	}
	daemons, err := snapshot.Objects[appsv1.DaemonSet](s, snapshot.DaemonSets)
	if err != nil {
		return err
	}
	add := func(name string, updated, all int32, seen, generation int64) {
		if all > 0 {
			h.Rollout = append(h.Rollout, Rollout{name, int(updated), int(all), seen < generation})
		}
	}
	for _, d := range deployments {
		add(d.Name, d.Status.UpdatedReplicas, d.Status.Replicas, d.Status.ObservedGeneration, d.Generation)
	}
	for _, d := range sets {
		add(d.Name, d.Status.UpdatedReplicas, d.Status.Replicas, d.Status.ObservedGeneration, d.Generation)
	}
	for _, d := range daemons {
		add(d.Name, d.Status.UpdatedNumberScheduled, d.Status.DesiredNumberScheduled, d.Status.ObservedGeneration, d.Generation)
	}
	return nil
}

func (h *Health) agents(s *snapshot.Snapshot) error {
	offloads, err := snapshot.Objects[v1alpha1.NodeOffload](s, snapshot.NodeOffloads)
	if err != nil {
		return err
	}
	h.Agents = Agents{Nodes: h.Nodes.All, Reported: len(offloads)}
	for i := range offloads {
		if offloads[i].Status.Agent != nil {
			h.Agents.Serving++
		}
	}
	return nil
}

// pairs are the worst first.
func (h *Health) pairs(s *snapshot.Snapshot) error {
	if h.DPUs.All == 0 {
		return nil
	}
	topology, err := answer.NewTopology(s, "")
	if err != nil {
		return err
	}
	for _, node := range topology.Nodes {
		if node.DPU != "" {
			h.Pairs = append(h.Pairs, Pair{node.Node, node.DPU})
		}
	}
	slices.SortStableFunc(h.Pairs, func(a, b Pair) int { return one(a.State == dpuReady) - one(b.State == dpuReady) })
	return nil
}

// dpuReady is the state of a DPU without a problem.
const dpuReady = "ready"

// certificates are known by the Events about them: Secrets are not read.
func (h *Health) certificates() {
	for _, p := range h.Problems {
		if slices.Contains([]string{"certificate-expires", "DPUTokenExpires", "ChassisTaken"}, p.See) {
			h.Certificates = append(h.Certificates, p)
		}
	}
}
