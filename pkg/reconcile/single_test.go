package reconcile

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSingle_SpacedPassesBeginApart: a burst of events is one pass, a later event waits for the interval, and an earlier
// date takes the place of a later one. Mark waits for nothing.
func TestSingle_SpacedPassesBeginApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var began []time.Duration
		s := NewSingle(Defaults("test"), func(context.Context) error {
			began = append(began, time.Since(start))
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = s.Run(ctx) }()
		synctest.Wait()
		for range 3 {
			s.MarkSpaced(time.Second, 10*time.Second)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(19700 * time.Millisecond)
		s.MarkSpaced(time.Second, time.Minute)
		s.MarkSpaced(time.Second, 5*time.Second)
		time.Sleep(10 * time.Second)
		s.Mark()
		synctest.Wait()
		want := []time.Duration{0, 10 * time.Second, 21 * time.Second, 30 * time.Second}
		if len(began) != len(want) {
			t.Fatalf("passes at %v, want %v", began, want)
		}
		for i := range want {
			if began[i] != want[i] {
				t.Errorf("passes at %v, want %v", began, want)
			}
		}
	})
}

// TestSingle_RestedPassesTakeAPartOfTheTime: an event after a rest is seen at once, a burst in a few passes, its last
// event too.
func TestSingle_RestedPassesTakeAPartOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 50 * time.Millisecond
		var event, seen, passes atomic.Int32
		s := NewSingle(Defaults("test"), func(context.Context) error {
			seen.Store(event.Load())
			passes.Add(1)
			time.Sleep(took)
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = s.Run(ctx) }()
		time.Sleep(time.Minute)
		event.Store(1)
		s.MarkRested(4, time.Second)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if seen.Load() != 1 {
			t.Error("the first event waits")
		}
		for range 2000 {
			time.Sleep(time.Millisecond)
			event.Add(1)
			s.MarkRested(4, time.Second)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if seen.Load() != event.Load() {
			t.Errorf("event %d of %d is the last that was seen", seen.Load(), event.Load())
		}
		if n := passes.Load(); n < 5 || n > 15 { // without a rest, 40
			t.Errorf("%d passes of %s for 2 s of events", n, took)
		}
	})
}

// TestSingle_FailedPassIsRepeated until it succeeds.
func TestSingle_FailedPassIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var passes atomic.Int32
		s := NewSingle(Defaults("test"), func(context.Context) error {
			if passes.Add(1) < 4 {
				return errors.New("not yet")
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = s.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		if got := passes.Load(); got != 4 {
			t.Errorf("%d passes, want 4", got)
		}
	})
}
