package gateway

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace_BurstNeedsFewPasses: a change after a rest is looked at at once, a burst a few times, the
// last change of it too; the time in passes is a part of the whole.
func TestPace_BurstNeedsFewPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pass = 50 * time.Millisecond
		var p pace
		marks := make(chan struct{}, 1)
		var changed, seen, passes atomic.Int32
		mark := func() {
			select {
			case marks <- struct{}{}:
			default:
			}
		}
		go func() {
			for range marks {
				p.begin()
				seen.Store(changed.Load())
				time.Sleep(pass)
				p.end()
				passes.Add(1)
			}
		}()
		defer close(marks)
		changed.Store(1)
		p.ask(mark)
		synctest.Wait()
		if seen.Load() != 1 {
			t.Error("the first change waits")
		}
		for range 2000 {
			time.Sleep(time.Millisecond)
			changed.Add(1)
			p.ask(mark)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if seen.Load() != changed.Load() {
			t.Errorf("change %d of %d is the last that was looked at", seen.Load(), changed.Load())
		}
		if n := passes.Load(); n < 5 || n > 15 { // without a pace, 40
			t.Errorf("%d passes of %s for 2 s of changes", n, pass)
		}
	})
}
