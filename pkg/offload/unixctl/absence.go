package unixctl

import (
	"context"
	"sync/atomic"
	"time"
)

// lookEvery is how often a process is looked for.
const lookEvery = time.Second

// Absence knows a daemon without a process for longer than a restart takes.
type Absence struct {
	// Runs says whether there is a process: Client.Runs.
	Runs func() bool
	// After is how long there may be none.
	After time.Duration

	late atomic.Bool // at the last look there had been none for that long
}

// Absent says that there has been no process for After, and is none. It is false before Run.
func (a *Absence) Absent() bool { return a.late.Load() && !a.Runs() }

// Run looks for the process until ctx ends, and calls changed when the answer of Absent has changed.
func (a *Absence) Run(ctx context.Context, changed func()) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	seen := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if a.Runs() {
				seen = now
			}
			if late := now.Sub(seen) >= a.After; late != a.late.Swap(late) {
				changed()
			}
		}
	}
}
