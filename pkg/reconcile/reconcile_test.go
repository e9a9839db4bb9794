package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// recorder is a Func that notes its batches; fail decides their result.
type recorder struct {
	mu      sync.Mutex
	batches [][]string
	fail    func(keys []string) (map[string]error, error)
}

func (r *recorder) reconcile(_ context.Context, keys []string) (map[string]error, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, slices.Clone(keys))
	if r.fail == nil {
		return nil, nil
	}
	return r.fail(keys)
}

func (r *recorder) seen() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.batches)
}

// start runs a loop inside a synctest bubble until the test ends.
func start(t *testing.T, cfg Config, r *recorder) *Loop[string] {
	t.Helper()
	loop := New(cfg, r.reconcile)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { loop.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	synctest.Wait()
	return loop
}

func TestLoop_BatchesMarkedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		cfg := Defaults("test")
		cfg.BatchSize = 3
		loop := start(t, cfg, r)
		loop.Mark("a", "b", "a", "c", "d", "b")
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"a", "b", "c"}, {"d"}}, r.seen()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

func TestLoop_FailedBatchIsTriedKeyByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{fail: func(keys []string) (map[string]error, error) {
			if slices.Contains(keys, "bad") {
				return nil, errors.New("refused")
			}
			return nil, nil
		}}
		var reported []string
		loop := New(Defaults("test"), r.reconcile)
		loop.OnFailure(func(key string, failures int, err error) { reported = append(reported, fmt.Sprint(key, failures, err)) })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		loop.Mark("a", "bad", "c")
		loop.Run(ctx)
		if diff := cmp.Diff([][]string{{"a", "bad", "c"}, {"a"}, {"bad"}, {"c"}}, r.seen()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"bad1 refused"}, reported); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
	})
}

func TestLoop_BackoffDoublesAndKeepsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		r := &recorder{fail: func([]string) (map[string]error, error) {
			at = append(at, time.Since(begin))
			if len(at) < 13 {
				return map[string]error{"k": errors.New("no")}, nil
			}
			return nil, nil
		}}
		loop := start(t, Defaults("test"), r)
		loop.Mark("k")
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		var waits []time.Duration
		for i := 1; i < len(at); i++ {
			waits = append(waits, at[i]-at[i-1])
		}
		ms := time.Millisecond
		want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms,
			25600 * ms, 51200 * ms, time.Minute, time.Minute}
		if diff := cmp.Diff(want, waits); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
	})
}

// Events during a back-off run the key at once, but leave one timer only.
func TestLoop_EventsDoNotMultiplyRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{fail: func([]string) (map[string]error, error) {
			return map[string]error{"k": errors.New("no")}, nil
		}}
		loop := start(t, Defaults("test"), r)
		for range 30 {
			loop.Mark("k")
			synctest.Wait()
		}
		before := len(r.seen())
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := len(r.seen()) - before; got > 11 {
			t.Errorf("%d attempts in ten minutes at a back-off of one", got)
		}
	})
}

func TestLoop_NotReadyWaitsForItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := false
		r := &recorder{fail: func([]string) (map[string]error, error) {
			if ready {
				return nil, nil
			}
			return map[string]error{"k": fmt.Errorf("%w: no subnet", ErrNotReady)}, nil
		}}
		loop := start(t, Defaults("test"), r)
		loop.Mark("k")
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if got := len(r.seen()); got != 1 {
			t.Fatalf("%d attempts without an event, want 1", got)
		}
		ready = true
		loop.Mark("k")
		synctest.Wait()
		if got := len(r.seen()); got != 2 {
			t.Errorf("%d attempts after the event, want 2", got)
		}
	})
}

func TestLoop_KeyNeverRunsTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		active, most, runs := map[string]int{}, 0, 0
		cfg := Defaults("test")
		cfg.Workers, cfg.BatchSize = 4, 2
		loop := New(cfg, func(_ context.Context, keys []string) (map[string]error, error) {
			mu.Lock()
			for _, key := range keys {
				active[key]++
				most = max(most, active[key])
				runs++
			}
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			for _, key := range keys {
				active[key]--
			}
			mu.Unlock()
			return nil, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			for range 20 {
				loop.Mark("a", "b", "c")
				time.Sleep(3 * time.Millisecond)
			}
		}()
		loop.Run(ctx)
		if most != 1 {
			t.Errorf("a key ran %d times at once", most)
		}
		if runs < 6 {
			t.Errorf("%d runs: marks during a run were lost", runs)
		}
	})
}

func TestLoop_FullPassMarksAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		loop := New(Defaults("test"), r.reconcile)
		loop.MarkAllWith(func() []string { return []string{"x", "y"} })
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Minute)
		defer cancel()
		loop.Run(ctx)
		if diff := cmp.Diff([][]string{{"x", "y"}, {"x", "y"}}, r.seen()); diff != "" {
			t.Errorf("passes (-want +got):\n%s", diff)
		}
	})
}

// TestLoop_InvalidWaitsForItsEvent: it is reported at once, without a retry and not
// as a failure, and again when it is over.
func TestLoop_InvalidWaitsForItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := true
		r := &recorder{}
		r.fail = func([]string) (map[string]error, error) {
			if wrong {
				return map[string]error{"k": fmt.Errorf("%w: a field", ErrInvalid)}, nil
			}
			return nil, nil
		}
		loop := start(t, Defaults("test"), r)
		var reported []string
		loop.OnFailure(func(key string, failures int, err error) { reported = append(reported, fmt.Sprint(key, failures, err)) })
		loop.Mark("k")
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if got := len(r.seen()); got != 1 {
			t.Errorf("%d attempts without an event, want 1", got)
		}
		if got := testutil.ToFloat64(loop.metrics.failing); got != 0 {
			t.Errorf("%v failing keys", got)
		}
		if got := testutil.ToFloat64(loop.metrics.invalid); got != 1 {
			t.Errorf("%v invalid keys, want 1", got)
		}
		wrong = false
		loop.Mark("k")
		synctest.Wait()
		if diff := cmp.Diff([]string{"k0 part of the object is refused: a field", "k0 <nil>"}, reported); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		if got := testutil.ToFloat64(loop.metrics.invalid); got != 0 {
			t.Errorf("%v invalid keys, want 0", got)
		}
	})
}
