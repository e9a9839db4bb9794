package node

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: a change after a rest is looked at at once, a burst a few times, the
// last change of it too; the time in passes is a part of the whole.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pass = 50 * time.Millisecond
		var p pace
		marks, changed, seen := make(chan struct{}, 1), 0, 0
		mark := func() {
			select {
			case marks <- struct{}{}:
			default:
			}
		}
		passes := 0
		go func() {
			for range marks {
				p.begin()
				seen = changed
				time.Sleep(pass)
				p.end()
				passes++
			}
		}()
		defer close(marks)
		changed = 1
		p.ask(mark)
		synctest.Wait()
		if seen != 1 {
			t.Error("the first change waits")
		}
		for range 2000 {
			time.Sleep(time.Millisecond)
			changed++
			p.ask(mark)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if seen != changed {
			t.Errorf("change %d of %d is the last that was looked at", seen, changed)
		}
		if passes < 5 || passes > 12 {
			t.Errorf("%d passes of %s for 2 s of changes", passes, pass)
		}
	})
}
