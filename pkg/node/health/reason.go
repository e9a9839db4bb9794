package health

import (
	"sync"
	"time"
)

// Pause spares users what heals by itself, as a start does.
const Pause = time.Minute

// Reason knows why a node is not set up, and reports the reason to users when it has lasted.
type Reason struct {
	Pause   time.Duration
	Warn    func(reason string)
	Changed func()

	mu     sync.Mutex
	reason string
	timer  *time.Timer
}

// Set takes the reason, nil for none.
func (r *Reason) Set(err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reason == reason {
		return
	}
	r.reason = reason
	if r.timer != nil {
		r.timer.Stop()
	}
	if reason != "" {
		r.timer = time.AfterFunc(r.Pause, func() { r.Warn(reason) })
	}
	r.Changed()
}

// Problem is the reason, "" for none.
func (r *Reason) Problem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason
}
