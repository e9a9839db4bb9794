package offload

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Counted is the traffic that a series of samples has found by Compare. It only grows: flows that end leave theirs, and flows
// that move to another place bring none along. Two looks at a series differ by the traffic between them.
type Counted struct {
	// Since is the first sample of the series. What its flows had carried before is not counted.
	Since time.Time
	Total Share
	// Pods are those with a port in the newest sample.
	Pods map[types.NamespacedName]PodCounted

	outside map[cause]Count
}

// PodCounted is the traffic of one pod, to it and from it. Drops are counted in Traffic, too.
type PodCounted struct {
	Traffic Share
	Drops   Count
}

// Add goes on with what a sample found since the one before it. Without a delta, or a series to go on with, the sample begins a
// new series. The former one stays as it is.
func (c *Counted) Add(sample Sample, d *Delta) *Counted {
	out := &Counted{Since: sample.At, Pods: map[types.NamespacedName]PodCounted{}, outside: map[cause]Count{}}
	if c == nil || d == nil {
		return out
	}
	out.Since, out.Total, out.outside = c.Since, c.Total, maps.Clone(c.outside)
	out.Total.Add(d.Total)
	for _, of := range d.Causes {
		k := cause{of.Reason, of.Detail}
		sum := out.outside[k]
		sum.Add(of.Count)
		out.outside[k] = sum
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.Pod == (contract.Owner{}) {
			continue
		}
		name := types.NamespacedName{Namespace: p.Pod.Namespace, Name: p.Pod.Name}
		pod, ok := out.Pods[name]
		if !ok {
			pod = c.Pods[name]
		}
		pod.Traffic.Add(p.From)
		pod.Traffic.Add(p.To)
		pod.Drops.Add(p.Drops)
		out.Pods[name] = pod
	}
	return out
}

// Outside is the traffic that was not in hardware, the most packets first.
func (c *Counted) Outside() []Cause {
	of := make(map[cause]*Count, len(c.outside))
	for k, n := range c.outside {
		of[k] = &n
	}
	return causes(of)
}
