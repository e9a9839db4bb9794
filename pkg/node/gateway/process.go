package gateway

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// absentAfter is longer than a restart of ovs-vswitchd takes whose image is at hand: flows of the kernel's datapath and of
	// the NIC go on meanwhile. It is shorter than the time after which a Node is NotReady.
	absentAfter = 10 * time.Second
	// lookEvery is how often the process is looked for.
	lookEvery = time.Second
)

// switchProcess knows since when there is no process of ovs-vswitchd.
type switchProcess struct {
	runs func() bool // nil: not known, as if it ran
	late atomic.Bool // at the last look the process had been absent for absentAfter
}

// absent says that there has been no process for absentAfter, and is none.
func (p *switchProcess) absent() bool { return p.late.Load() && !p.runs() }

// follow looks for the process until ctx ends, and calls changed when the answer of absent has changed.
func (p *switchProcess) follow(ctx context.Context, changed func()) {
	if p.runs == nil {
		return
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	seen := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if p.runs() {
				seen = now
			}
			if late := now.Sub(seen) >= absentAfter; late != p.late.Swap(late) {
				changed()
			}
		}
	}
}
