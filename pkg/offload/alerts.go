package offload

import (
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Alerts decides which findings are worth telling, so that a pod whose traffic
// stays outside hardware is told of once in a while and not at each sample.
// It is of one goroutine.
type Alerts struct {
	// Again is when a finding that lasts is told again.
	Again time.Duration

	open map[contract.Owner]*alert
}

type alert struct {
	told  time.Time
	quiet int // deltas without a finding
}

// quietEnough is how many deltas without a finding end an alert: traffic that
// pauses is no success.
const quietEnough = 2

// Update takes the findings of one delta. Raised are to be told now; cleared
// are the pods that were told of and are well again, or silent.
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
		if known == nil || now.Sub(known.told) >= a.Again {
			raised = append(raised, f)
			a.open[f.Pod] = &alert{told: now}
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
