package ipam

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// departure says where a pod is being deleted, and since when. It has its addresses until the kubelet says that its
// containers have ended, which a node that does not answer never does.
type departure struct {
	node  string
	since time.Time
}

// depart notes that the pod of a holding is being deleted.
func (p *pods) depart(h *holding, pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil {
		return
	}
	d := departure{pod.Spec.NodeName, pod.DeletionTimestamp.Time} // the end of the grace period
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		d.since = d.since.Add(-time.Duration(*grace) * time.Second)
	}
	p.leaving[h] = d
}

// departing says how many of the addresses that are held in blocks of one family are those of pods that are being deleted;
// "" where there are none.
func (p *pods) departing(family blocks) string {
	held, going, first := uint64(0), 0, (*holding)(nil)
	for _, b := range family {
		held += b.held
	}
	for h, d := range p.leaving {
		at := slices.DeleteFunc(slices.Clone(h.at), func(b *block) bool { return !slices.Contains(family, b) })
		if h.claim != nil || len(at) == 0 { // what a claim has stays the claim's
			continue
		}
		going += len(at)
		if first == nil || cmp.Or(d.since.Compare(p.leaving[first].since), compareOwners(h.owner, first.owner)) < 0 {
			first = h
		}
	}
	if first == nil {
		return ""
	}
	d := p.leaving[first]
	return fmt.Sprintf(": %d of %d addresses are held by pods that are being deleted, the first %s/%s on node %s since %s",
		going, held, first.owner.Namespace, first.owner.Name, d.node, d.since.UTC().Format(time.RFC3339))
}
