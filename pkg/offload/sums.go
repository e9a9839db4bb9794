package offload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Detail says whose traffic has series of its own, beside the node's.
type Detail string

// The details, the one with the fewest series first. DetailOutside adds pods with a VF and much traffic outside hardware.
const (
	DetailOff       Detail = "off"
	DetailNamespace Detail = "namespace"
	DetailOutside   Detail = "outside"
	DetailAll       Detail = "all"
)

// ParseDetail takes the four values above.
func ParseDetail(text string) (Detail, error) {
	all := []Detail{DetailOff, DetailNamespace, DetailOutside, DetailAll}
	if !slices.Contains(all, Detail(text)) {
		return "", fmt.Errorf("%q is not one of %s, %s, %s and %s", text, all[0], all[1], all[2], all[3])
	}
	return Detail(text), nil
}

// Limits of the series. Further namespaces and pods count in the node's series only.
const (
	maxNamespaces  = 128
	maxPods        = 512
	maxOutsidePods = 32
)

// namespaceRetention is how long a namespace without a pod keeps its sum, so that the restart of its only pod does not
// reset the counter. outsideRetention is how long a pod of DetailOutside keeps its series.
const (
	namespaceRetention = time.Hour
	outsideRetention   = 15 * time.Minute
)

// outsideShare is the part of a pod's packets that is much.
const outsideShare = .1

// sums is the traffic since the agent's start.
type sums struct {
	detail     Detail
	now        time.Time
	total      Share
	outside    map[Reason]uint64
	namespaces map[string]*sum
	pods       map[types.NamespacedName]*sum
}

// sum is the traffic of a namespace or of a pod.
type sum struct {
	Share
	// seen is the last sample with a port. outside is the last in which much of a VF's traffic was outside hardware.
	seen, outside time.Time
}

func newSums(detail Detail) sums {
	return sums{detail: detail, outside: map[Reason]uint64{}, namespaces: map[string]*sum{}, pods: map[types.NamespacedName]*sum{}}
}

func (s *sums) update(sample Sample, d *Delta) {
	s.now = sample.At
	for i := range sample.Report.Ports {
		s.see(sample.Report.Ports[i].Pod)
	}
	maps.DeleteFunc(s.namespaces, func(_ string, sum *sum) bool { return s.now.Sub(sum.seen) > namespaceRetention })
	maps.DeleteFunc(s.pods, func(_ types.NamespacedName, sum *sum) bool { return sum.seen.Before(s.now) })
	if d == nil {
		return
	}
	s.total.Add(d.Total)
	for _, of := range d.Causes {
		s.outside[of.Reason] += of.Packets
	}
	for i := range d.Ports {
		s.add(&d.Ports[i])
	}
}

// see keeps the sums of a port's pod.
func (s *sums) see(pod contract.Owner) {
	if pod == (contract.Owner{}) || s.detail == DetailOff {
		return
	}
	keep(s.namespaces, pod.Namespace, s.now, maxNamespaces)
	if s.detail != DetailNamespace {
		keep(s.pods, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, s.now, maxPods)
	}
}

func keep[K comparable](of map[K]*sum, key K, now time.Time, limit int) {
	if of[key] == nil && len(of) < limit {
		of[key] = &sum{}
	}
	if of[key] != nil {
		of[key].seen = now
	}
}

func (s *sums) add(p *PortDelta) {
	both := p.From
	both.Add(p.To)
	if namespace := s.namespaces[p.Pod.Namespace]; namespace != nil {
		namespace.Add(both)
	}
	pod := s.pods[types.NamespacedName{Namespace: p.Pod.Namespace, Name: p.Pod.Name}]
	if pod == nil {
		return
	}
	pod.Add(both)
	if ratio, ok := both.Ratio(); ok && p.Function && ratio < 1-outsideShare {
		pod.outside = s.now
	}
}

// shown are the pods with series of their own, in no order.
func (s *sums) shown() []types.NamespacedName {
	pods := slices.Collect(maps.Keys(s.pods))
	if s.detail == DetailAll {
		return pods
	}
	pods = slices.DeleteFunc(pods, func(pod types.NamespacedName) bool { return s.now.Sub(s.pods[pod].outside) > outsideRetention })
	software := func(pod types.NamespacedName) uint64 { return s.pods[pod].Sum().Packets - s.pods[pod].Hardware.Packets }
	slices.SortFunc(pods, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(software(b), software(a)), strings.Compare(a.String(), b.String()))
	})
	return pods[:min(len(pods), maxOutsidePods)]
}
