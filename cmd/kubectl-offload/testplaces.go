package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// places reads the flows of a test's nodes while its cases run.
type places struct {
	from    agents
	nodes   []string
	devices conncheck.Devices
	witness *conncheck.Witness
	// missing is what could not be read, by node. A node that has answered once is not missing.
	missing     map[string]string
	stop, ended chan struct{}
}

// readEvery is shorter than the ten seconds for which a flow lives without a packet.
const readEvery = 3 * time.Second

// expectations are the values of --expect.
func expectations() map[string]conncheck.Expected {
	return map[string]conncheck.Expected{"": {}, "hardware": {Hardware: true}, "software": {Because: offload.ReasonOutput}}
}

// watch begins to read the nodes of a test whose pods are there. The flows of a host with a DPU are with the DPU, and are
// not read.
func (o *testOptions) watch(ctx context.Context, at conncheck.Place, env conncheck.Env) (*places, error) {
	s, err := o.snapshot(ctx, snapshot.Pods, snapshot.NodeOffloads)
	if err != nil {
		return nil, err
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	offloads, err := snapshot.Objects[v1alpha1.NodeOffload](s, snapshot.NodeOffloads)
	if err != nil {
		return nil, err
	}
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	p := &places{
		from: agents{cluster, pods}, devices: conncheck.NewDevices(pods, offloads), witness: conncheck.NewWitness(env),
		missing: map[string]string{}, stop: make(chan struct{}), ended: make(chan struct{}),
	}
	for resource, why := range s.Missing {
		p.missing[string(resource)] = why
	}
	for _, node := range p.from.nodes() {
		if node == at.NodeA || node == at.NodeB {
			p.nodes = append(p.nodes, node)
			p.missing[node] = fmt.Sprintf("node/%s: its agent has not answered", node)
		}
	}
	go func() {
		defer close(p.ended)
		for {
			p.read(ctx)
			select {
			case <-ctx.Done():
				return
			case <-p.stop:
				return
			case <-time.After(readEvery):
			}
		}
	}()
	return p, nil
}

// read gives the moment of each node's dump, as the node's clock says.
func (p *places) read(ctx context.Context) map[string]time.Time {
	taken := map[string]time.Time{}
	for _, node := range p.nodes {
		got, err := p.from.of(node).Flows(ctx, flowapi.Query{Namespace: conncheck.Namespace, Limit: flowapi.MaxLimit})
		if err != nil {
			if _, never := p.missing[node]; never {
				p.missing[node] = fmt.Sprintf("node/%s: %v", node, err)
			}
			continue
		}
		delete(p.missing, node)
		taken[node] = got.Taken
		for i := range got.Flows {
			got.Flows[i].Node = node
		}
		p.witness.Add(got.Flows)
	}
	return taken
}

// end waits for a dump of each node that is younger than the last case, and compares.
func (p *places) end(ctx context.Context, cases []conncheck.Case, results []conncheck.Result, instead conncheck.Expected) (missing []string) {
	close(p.stop)
	<-p.ended
	last := p.read(ctx)
	for range patience {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(flowapi.MinPeriod):
		}
		for node, taken := range p.read(ctx) {
			if taken.After(last[node]) {
				delete(last, node)
			}
		}
		if len(last) == 0 {
			break
		}
	}
	p.witness.Judge(cases, results, p.devices, instead)
	for _, of := range slices.Sorted(maps.Keys(p.missing)) {
		missing = append(missing, p.missing[of])
	}
	return missing
}
