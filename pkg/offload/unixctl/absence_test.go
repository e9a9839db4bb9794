package unixctl

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAbsence_IsLongerThanARestart: each process that is seen counts anew.
func TestAbsence_IsLongerThanARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Bool
		var changes int
		a := &Absence{Runs: runs.Load, After: 10 * time.Second}
		runs.Store(true)
		go a.Run(t.Context(), func() { changes++ })
		for _, tt := range []struct {
			runs    bool
			after   time.Duration
			absent  bool
			changes int
		}{
			{true, time.Minute, false, 0},
			{false, 8 * time.Second, false, 0},
			{true, 2 * time.Second, false, 0},
			{false, 8 * time.Second, false, 0},
			{false, 4 * time.Second, true, 1},
			{false, time.Minute, true, 1},
			{true, 0, false, 1}, // at once
			{true, 2 * time.Second, false, 2},
		} {
			runs.Store(tt.runs)
			time.Sleep(tt.after)
			synctest.Wait()
			if a.Absent() != tt.absent || changes != tt.changes {
				t.Errorf("%v with a process %v: absent %v, want %v; %d changes, want %d", tt.after, tt.runs, a.Absent(), tt.absent, changes, tt.changes)
			}
		}
	})
}
