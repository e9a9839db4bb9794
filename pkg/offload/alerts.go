package offload

import (
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Alerts decides which findings become Events, so that a pod whose traffic stays outside hardware has an Event once in
// a while and not at each sample. Use it from one goroutine.
type Alerts struct {
	// Again is the time after which a lasting finding is raised again.
	Again time.Duration

	open map[contract.Owner]*alert
}

type alert struct {
	raised time.Time
	quiet  int // deltas without a finding
}

// quietEnough is how many deltas without a finding end an alert. Traffic that pauses is no success.
const quietEnough = 2

// Update takes the findings of one delta. Raised are the findings for an Event now; cleared are the pods whose alert has
// ended, because their traffic is in hardware again or has stopped.
func (a *Alerts) Update(now time.Time, findings []Finding) (raised []Finding, cleared []contract.Owner) {
	if a.open == nil {
		a.open = map[contract.Owner]*alert{}
	}
	found := map[contract.Owner]bool{}
	for _, f := range findings {
		if found[f.Pod] {
			continue // another port of the pod; one Event at a time
		}
		found[f.Pod] = true
		known := a.open[f.Pod]
		if known == nil || now.Sub(known.raised) >= a.Again {
			raised = append(raised, f)
			a.open[f.Pod] = &alert{raised: now}
		} else {
			known.quiet = 0
		}
	}
	for pod, known := range a.open {
		if found[pod] {
			continue
		}
		if known.quiet++; known.quiet >= quietEnough {
			cleared = append(cleared, pod)
			delete(a.open, pod)
		}
	}
	return raised, cleared
}
