package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func isUrgent(key string) bool { return strings.HasPrefix(key, "pod") }

// Without UrgentWith, which is the control, the keys keep the order of their marks.
func TestQueue_UrgentKeysPassOthers(t *testing.T) {
	for _, c := range []struct {
		urgent func(string) bool
		want   [][]string
	}{
		{isUrgent, [][]string{{"pod-1", "pod-2"}, {"policy-1", "service"}, {"policy-2"}, {"all"}}},
		{func(string) bool { return false }, [][]string{{"policy-1", "service"}, {"pod-1", "policy-2"}, {"pod-2"}, {"all"}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			cfg := Defaults("test")
			cfg.BatchSize = 2
			loop := New(cfg, r.reconcile)
			loop.UrgentWith(c.urgent)
			loop.MarkAllWith(func() []string { return []string{"all", "policy-2"} })
			loop.MarkAll()
			loop.Mark("policy-1", "service", "pod-1", "policy-2", "pod-2")
			ctx, cancel := context.WithCancel(t.Context())
			go loop.Run(ctx)
			synctest.Wait()
			cancel()
			synctest.Wait()
			if diff := cmp.Diff(c.want, r.seen()); diff != "" {
				t.Errorf("batches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueue_LaterQueuesAreServedAtTheTenthBatch(t *testing.T) {
	q := queues[string]{rank: map[string]rank{}}
	q.add("pass", rankPass)
	for i := range 40 {
		q.add(fmt.Sprint("pod-", i), rankUrgent)
		q.add(fmt.Sprint("policy-", i), rankEvent)
	}
	var taken []string
	for keys := q.take(1); keys != nil; keys = q.take(1) {
		taken = append(taken, keys...)
	}
	if len(taken) != 81 || q.len() != 0 {
		t.Fatalf("%d keys taken, %d left", len(taken), q.len())
	}
	if at := slices.Index(taken, "pass"); at != 10 {
		t.Errorf("the pass comes at %d, want 10", at)
	}
	if at := slices.Index(taken, "policy-1"); at != 22 {
		t.Errorf("the second policy comes at %d, want 22", at)
	}
	if at := slices.Index(taken, "pod-39"); at > 46 {
		t.Errorf("the last pod comes at %d", at)
	}
}

func TestQueue_KeyMovesForwardOnly(t *testing.T) {
	q := queues[string]{rank: map[string]rank{}}
	q.add("a", rankPass)
	q.add("b", rankPass)
	if !q.add("b", rankUrgent) || q.add("b", rankPass) {
		t.Error("b does not move forward, or it moves back")
	}
	if got := q.take(2); !slices.Equal(got, []string{"b"}) {
		t.Errorf("first %v, want b", got)
	}
	q.add("b", rankPass) // its old place is still in the queue
	if got := append(q.take(5), q.take(5)...); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("then %v, want a and b once each", got)
	}
}

func TestLoop_PutOffKeyIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		var loop *Loop[string]
		r.fail = func(keys []string) (map[string]error, error) {
			if len(keys) < 2 || loop.UrgentWaiting() {
				return nil, nil
			}
			loop.Mark("pod") // comes while the batch runs
			return map[string]error{keys[1]: fmt.Errorf("%w: a pod waits", ErrPutOff)}, nil
		}
		loop = New(Defaults("test"), r.reconcile)
		loop.UrgentWith(isUrgent)
		loop.OnFailure(func(key string, _ int, err error) { t.Errorf("%s failed: %v", key, err) })
		loop.Mark("a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		go loop.Run(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"a", "b"}, {"pod"}, {"b"}}, r.seen()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}
