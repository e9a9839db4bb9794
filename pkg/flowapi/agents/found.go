package agents

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// Place is a cluster that may have the Nodes of DPUs.
type Place struct {
	From    snapshot.Lister
	Cluster *sysdump.Cluster
}

// Found are the agents of the pods of a snapshot, and of DPUs.
type Found struct {
	byexec.Agents
	s *snapshot.Snapshot
	// Unknown are DPUs whose host is not known, and hosts whose DPU is not.
	Unknown []string
}

// Find finds the agents of a cluster, among which that of node has to be. It looks for DPUs in places if node, or any node for "", may have one.
func Find(ctx context.Context, s *snapshot.Snapshot, node string, in func() ([]Place, error)) (*Found, error) {
	places, err := in()
	if err != nil {
		return nil, err
	}
	found := &Found{Agents: byexec.Agents{Cluster: places[0].Cluster}, s: s}
	if found.Pods, err = snapshot.Objects[corev1.Pod](s, snapshot.Pods); err != nil || node != "" && found.Has(node) {
		return found, err
	}
	if found.Unknown, err = AddDPUs(ctx, &found.Agents, places); err != nil {
		return nil, err
	}
	nodes, err := snapshot.Objects[corev1.Node](s, snapshot.Nodes)
	for _, n := range nodes {
		switch dpu := found.DPU(n.Name); {
		case dpu != "":
			s.SetDPU(n.Name, dpu)
		case contract.IsDPUHost(&n) && node == "":
			found.Unknown = append(found.Unknown, fmt.Sprintf("node/%s: %s", n.Name, withDPU))
		}
	}
	if err == nil && node != "" && !found.Has(node) {
		err = answer.ErrNotFound{Object: "agent of node " + node + ": " + withDPU}
	}
	return found, err
}

// withDPU is why a host has no flows.
const withDPU = "no agent with its flows is known: where its DPU is a Node of another cluster, give --dpu-context or --dpu-kubeconfig"

// AddDPUs adds the agents on DPUs, which may be in several places.
func AddDPUs(ctx context.Context, to *byexec.Agents, places []Place) (missing []string, err error) {
	for _, place := range places {
		system := place.Cluster.Namespace
		found := snapshot.ReadLists(ctx, place.From, system, map[snapshot.Resource][]snapshot.Selected{snapshot.Pods: {{Namespace: system, Labels: "app=" + byexec.DPUApp}}})
		if why := found.Missing[snapshot.Pods]; why != "" {
			missing = append(missing, "pods of DPUs: "+why)
			continue
		}
		of := byexec.Agents{Cluster: place.Cluster}
		if of.Pods, err = snapshot.Objects[corev1.Pod](found, snapshot.Pods); err != nil {
			return nil, err
		}
		missing = append(missing, to.AddDPUs(ctx, of)...)
	}
	return missing, nil
}

// WithFlows are the nodes with flows of a namespace, or of any for "".
func (f *Found) WithFlows(_ context.Context, namespace string) (nodes, missing []string, err error) {
	nodes, err = web.WithPods(f.s, f.Nodes(), namespace)
	return nodes, f.Unknown, err
}

// Asked are the agents of nodes, which give all pods to a caller who may run commands in their pods.
func (f *Found) Asked(string) flowapi.Sources {
	return func(node string) flowapi.Source { return f.Of(node) }
}
