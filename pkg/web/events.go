package web

import (
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Event is one of Kubernetes.
type Event struct {
	// Last is when it was seen last; Count how often.
	Last   time.Time `json:"last"`
	Count  int32     `json:"count"`
	Type   string    `json:"type"`
	Reason string    `json:"reason"`
	Note   string    `json:"note"`
}

// maxEvents bounds those of a view.
const maxEvents = 20

// eventsOf are those of a pod, the newest first.
func eventsOf(s *snapshot.Snapshot, namespace, pod string) ([]Event, error) {
	all, err := snapshot.Objects[eventsv1.Event](s, snapshot.Events)
	if err != nil {
		return nil, err
	}
	var out []Event
	for _, e := range all {
		if e.Regarding.Kind != "Pod" || e.Regarding.Namespace != namespace || e.Regarding.Name != pod {
			continue
		}
		event := Event{Last: e.EventTime.UTC().Truncate(time.Second), Count: 1, Type: e.Type, Reason: e.Reason, Note: e.Note}
		if e.Series != nil {
			event.Last, event.Count = e.Series.LastObservedTime.UTC().Truncate(time.Second), e.Series.Count
		}
		out = append(out, event)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return b.Last.Compare(a.Last) })
	return out[:min(len(out), maxEvents)], nil
}
