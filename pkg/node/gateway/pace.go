package gateway

import (
	"sync"
	"time"
)

// calm is the longest time without a pass.
const calm = time.Second

// restFactor is how many times as long as a pass there is none for services after
// it, at most calm: a burst of them costs a part of a processor only.
const restFactor = 4

// pace gathers changes of services: the first is looked at at once, those that
// come during a pass or the rest after it when that is over.
type pace struct {
	mu      sync.Mutex
	started time.Time
	took    time.Duration // the last pass
	rested  time.Time
	waiting bool
}

// begin and end are those of any pass.
func (p *pace) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = time.Now()
	p.rested = p.started.Add(min((restFactor+1)*p.took, calm))
}

func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.took = now.Sub(p.started)
	p.rested = now.Add(min(restFactor*p.took, calm))
}

// ask calls mark now or, once for all who ask meanwhile, after the rest.
func (p *pace) ask(mark func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := time.Until(p.rested)
	switch {
	case p.waiting:
	case wait <= 0:
		mark()
	default:
		p.waiting = true
		time.AfterFunc(wait, func() {
			p.mu.Lock()
			p.waiting = false
			p.mu.Unlock()
			mark()
		})
	}
}
