package main

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// places compares where packets were handled, by the flows of a test's nodes while its cases run.
type places struct {
	watch   *byexec.Watch
	devices conncheck.Devices
	witness *conncheck.Witness
	stop    func()
	// missing is what else could not be read.
	missing []string
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
		watch:   byexec.NewWatch(byexec.Agents{Cluster: cluster, Pods: pods}, conncheck.Namespace, at.NodeA, at.NodeB),
		devices: conncheck.NewDevices(pods, offloads), witness: conncheck.NewWitness(env),
	}
	for _, resource := range slices.Sorted(maps.Keys(s.Missing)) {
		p.missing = append(p.missing, s.Missing[resource])
	}
	p.stop = p.watch.Follow(ctx, readEvery, func(_ string, _ time.Time, flows []flowapi.Flow) { p.witness.Add(flows) })
	return p, nil
}

// end waits for a dump of each node that is younger than the last case, and compares.
func (p *places) end(cases []conncheck.Case, results []conncheck.Result, instead conncheck.Expected) (missing []string) {
	p.stop()
	p.witness.Judge(cases, results, p.devices, instead)
	return append(p.missing, p.watch.Missing()...)
}
