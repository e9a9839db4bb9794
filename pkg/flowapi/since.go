package flowapi

import (
	"cmp"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// Since is what a summary has more than an earlier one of the same node. Seconds is 0 where nothing was counted between them, as after
// the first dump of an agent that has begun anew.
func Since(before, after *Summary) *Summary {
	switch {
	case after.Seconds > 0: // it says so itself
		return after
	case after.CountedSince.IsZero():
		return sinceFormer(before, after)
	}
	from := before.Taken
	if !before.CountedSince.Equal(after.CountedSince) {
		before, from = &Summary{}, after.CountedSince
	}
	took := after.Taken.Sub(from)
	if took <= 0 {
		return after
	}
	out := begin(after, took)
	out.Total = grown(after.Total, after.Counted, before.Counted)
	out.Outside = nil
	for _, now := range after.CountedOutside {
		now.Count = more(now.Count, countOf(before.CountedOutside, now))
		now.Flows = countOf(after.Outside, now).Flows
		out.Outside = append(out.Outside, now)
	}
	slices.SortStableFunc(out.Outside, func(a, b offload.Cause) int { return cmp.Compare(b.Packets, a.Packets) })
	was := byName(before)
	for i := range out.Pods {
		pod := &out.Pods[i]
		former := was[podName(pod)]
		pod.Traffic = grown(pod.Traffic, pod.Counted, former.Counted)
		flows := pod.Drops.Flows
		pod.Drops = more(pod.CountedDrops, former.CountedDrops)
		pod.Drops.Flows = flows
	}
	return out
}

// begin is a copy of a summary whose packets may be changed.
func begin(after *Summary, took time.Duration) *Summary {
	out := *after
	out.Seconds, out.Pods, out.Outside = took.Seconds(), slices.Clone(after.Pods), slices.Clone(after.Outside)
	return &out
}

// grown is what is counted now and was not before, with the flows of now.
func grown(flows, now, before offload.Share) offload.Share {
	for _, at := range offload.Places() {
		n := more(*now.At(at), *before.At(at))
		n.Flows = flows.At(at).Flows
		*flows.At(at) = n
	}
	return flows
}

// more is what a count has more than an earlier one; if it has gone back, as that of a pod with the same name, it has begun anew.
func more(now, before offload.Count) offload.Count {
	if now.Packets < before.Packets || now.Bytes < before.Bytes {
		return now
	}
	return offload.Count{Flows: now.Flows, Packets: now.Packets - before.Packets, Bytes: now.Bytes - before.Bytes}
}

func countOf(causes []offload.Cause, of offload.Cause) offload.Count {
	for _, c := range causes {
		if c.Reason == of.Reason && c.Detail == of.Detail {
			return c.Count
		}
	}
	return offload.Count{}
}

func podName(p *PodSummary) string { return p.Namespace + "/" + p.Name }

func byName(s *Summary) map[string]PodSummary {
	out := make(map[string]PodSummary, len(s.Pods))
	for i := range s.Pods {
		out[podName(&s.Pods[i])] = s.Pods[i]
	}
	return out
}

// sinceFormer is Since of agents of former versions, which give the life of each flow alone. Flows that have ended meanwhile took
// their packets along: what is less counts as nothing.
func sinceFormer(before, after *Summary) *Summary {
	took := after.Taken.Sub(before.Taken)
	if took <= 0 {
		return after
	}
	out := begin(after, took)
	out.Total = less(after.Total, before.Total)
	for i, now := range out.Outside {
		out.Outside[i].Count = fewer(now.Count, countOf(before.Outside, now))
	}
	was := byName(before)
	for i := range out.Pods {
		pod := &out.Pods[i]
		former := was[podName(pod)]
		pod.Traffic, pod.Drops = less(pod.Traffic, former.Traffic), fewer(pod.Drops, former.Drops)
	}
	return out
}

func less(a, b offload.Share) offload.Share {
	for _, at := range offload.Places() {
		*a.At(at) = fewer(*a.At(at), *b.At(at))
	}
	return a
}

func fewer(a, b offload.Count) offload.Count {
	return offload.Count{Flows: a.Flows, Packets: a.Packets - min(a.Packets, b.Packets), Bytes: a.Bytes - min(a.Bytes, b.Bytes)}
}
