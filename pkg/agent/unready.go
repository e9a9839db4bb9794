package agent

import (
	"sync"
	"time"
)

// unreadyPause spares users what heals by itself, as a start does.
const unreadyPause = time.Minute

// unready knows why a node is not set up, and reports the reason to users when it has lasted.
type unready struct {
	pause   time.Duration
	warn    func(reason string)
	changed func()

	mu     sync.Mutex
	reason string
	timer  *time.Timer
}

// set takes the reason, nil for none.
func (u *unready) set(err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reason == reason {
		return
	}
	u.reason = reason
	if u.timer != nil {
		u.timer.Stop()
	}
	if reason != "" {
		u.timer = time.AfterFunc(u.pause, func() { u.warn(reason) })
	}
	u.changed()
}

// problem is the reason, "" for none.
func (u *unready) problem() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reason
}
