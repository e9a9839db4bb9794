// Package reconcile runs a function over dirty keys until each has succeeded.
//
// It knows nothing of what a key means. Events mark keys; a worker takes a
// batch of them and calls the function; what fails comes back after a back-off
// that doubles up to a minute and is never dropped. A batch that fails as a
// whole is repeated key by key, so that one bad object never holds back its
// neighbours. A key is never worked on twice at once: marked while it is being
// worked on, it runs once more afterwards.
//
// Data flow: informer or database event -> Mark -> batch -> Func -> done, back-off
// or waiting. Waiting keys (ErrNotReady) have no timer: the missing fact's event
// marks them. Every key is marked at the start and once an hour, which makes
// start-up, repair and garbage collection the same code as an ordinary event.
//
// Keys wait in three queues: urgent keys, other keys that an event marked, and keys
// of a pass over all. A batch has keys of one queue only. The first queue that is
// not empty is served, and each tenth batch at the latest comes from a later one.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrNotReady is wrapped by errors that say which fact is missing. The event
// that brings the fact marks the key, so it is not tried again before.
var ErrNotReady = errors.New("not ready")

// ErrInvalid is wrapped by errors that only a change of the key's object can mend. The
// object's event marks the key, so it is not tried again before.
var ErrInvalid = errors.New("part of the object is refused")

// ErrPutOff is wrapped by the error of a key that its batch did not work on, because
// urgent keys wait. The key is dirty as before; nothing failed.
var ErrPutOff = errors.New("put off")

// Config holds the limits of a loop.
type Config struct {
	// Name labels metrics and logs.
	Name string
	// BatchSize is the most keys of one call; Workers the calls at the same time.
	BatchSize, Workers int
	// MinBackoff and MaxBackoff bound the wait after a failure.
	MinBackoff, MaxBackoff time.Duration
	// FullPass is the time between two passes over all keys.
	FullPass   time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Defaults is one worker, batches of ten, back-off from 100 ms to a minute and
// a full pass each hour, logging and registering nowhere.
func Defaults(name string) Config {
	return Config{
		Name: name, BatchSize: 10, Workers: 1,
		MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Minute, FullPass: time.Hour,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
}

// Func handles one batch. Keys in failed are tried again; err means that the
// batch failed as a whole.
type Func[K comparable] func(ctx context.Context, keys []K) (failed map[K]error, err error)

// Loop is a set of dirty keys and the workers that clean them.
type Loop[K comparable] struct {
	cfg       Config
	reconcile Func[K]
	all       func() []K
	urgent    func(K) bool
	onFailure func(K, int, error)
	metrics   *metrics

	mu       sync.Mutex
	wake     chan struct{}
	dirty    queues[K]
	running  map[K]rank // where the key goes when its batch ends
	failures map[K]int
	waiting  map[K]struct{}
	invalid  map[K]struct{}
	retries  map[K]*time.Timer // at most one for each key
}

// New makes a loop; nothing runs before Run.
func New[K comparable](cfg Config, f Func[K]) *Loop[K] {
	return &Loop[K]{
		cfg: cfg, reconcile: f, metrics: newMetrics(cfg),
		all:       func() []K { return nil },
		urgent:    func(K) bool { return false },
		onFailure: func(K, int, error) {},
		wake:      make(chan struct{}, 1),
		dirty:     queues[K]{rank: map[K]rank{}},
		running:   map[K]rank{},
		failures:  map[K]int{},
		waiting:   map[K]struct{}{},
		invalid:   map[K]struct{}{},
		retries:   map[K]*time.Timer{},
	}
}

// MarkAllWith says where all keys come from, for the first and the hourly pass.
func (l *Loop[K]) MarkAllWith(all func() []K) { l.all = all }

// UrgentWith says which keys go before all others. It is asked when a key is marked,
// also by several goroutines at once.
func (l *Loop[K]) UrgentWith(urgent func(K) bool) { l.urgent = urgent }

// UrgentWaiting says that urgent keys wait for a worker.
func (l *Loop[K]) UrgentWaiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dirty.has(rankUrgent)
}

// OnFailure is called for each failure of a key with the number of failures in a row, for an
// ErrInvalid with the number 0, and for the success that ends them with a nil error.
func (l *Loop[K]) OnFailure(f func(key K, failures int, err error)) { l.onFailure = f }

// Mark makes keys dirty. It may be called at any time from any goroutine.
func (l *Loop[K]) Mark(keys ...K) {
	for _, key := range keys {
		l.mark(key, l.rankOf(key))
	}
}

// MarkAll makes every key dirty, behind the keys that events have marked.
func (l *Loop[K]) MarkAll() {
	for _, key := range l.all() {
		l.mark(key, rankPass)
	}
}

func (l *Loop[K]) rankOf(key K) rank {
	if l.urgent(key) {
		return rankUrgent
	}
	return rankEvent
}

func (l *Loop[K]) mark(key K, r rank) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if then, busy := l.running[key]; busy {
		l.running[key] = min(then, r)
		return
	}
	l.markLocked(key, r)
}

func (l *Loop[K]) markLocked(key K, r rank) {
	if l.dirty.add(key, r) {
		l.metrics.depth.Set(float64(l.dirty.len()))
		l.signal()
	}
}

func (l *Loop[K]) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends and returns when every worker has stopped.
func (l *Loop[K]) Run(ctx context.Context) error {
	l.MarkAll()
	var workers sync.WaitGroup
	for range max(1, l.cfg.Workers) {
		workers.Go(func() { l.work(ctx) })
	}
	workers.Go(func() { l.passes(ctx) })
	workers.Wait()
	return ctx.Err()
}

// passes marks everything once each FullPass, a tenth earlier or later so that
// the replicas of a cluster do not keep step.
func (l *Loop[K]) passes(ctx context.Context) {
	for {
		jitter := time.Duration((rand.Float64() - 0.5) / 5 * float64(l.cfg.FullPass))
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.cfg.FullPass + jitter):
			l.MarkAll()
		}
	}
}

func (l *Loop[K]) work(ctx context.Context) {
	for {
		if keys := l.take(); len(keys) > 0 {
			l.batch(ctx, keys)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
	}
}

// take moves the oldest keys of one queue to running.
func (l *Loop[K]) take() []K {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.dirty.take(max(1, l.cfg.BatchSize))
	for _, key := range keys {
		l.running[key] = nowhere
	}
	l.metrics.depth.Set(float64(l.dirty.len()))
	if l.dirty.len() > 0 {
		l.signal() // another worker may go on with the rest
	}
	return keys
}

func (l *Loop[K]) batch(ctx context.Context, keys []K) {
	start := time.Now()
	failed, err := l.reconcile(ctx, keys)
	l.metrics.duration.Observe(time.Since(start).Seconds())
	if err != nil && len(keys) > 1 {
		for _, key := range keys {
			alone, err := l.reconcile(ctx, []K{key})
			l.done(ctx, key, errors.Join(err, alone[key]))
		}
		return
	}
	for _, key := range keys {
		l.done(ctx, key, errors.Join(err, failed[key]))
	}
}

// done puts a key to rest, or brings it back.
func (l *Loop[K]) done(ctx context.Context, key K, err error) {
	if ctx.Err() != nil {
		return
	}
	failures, invalid := l.settle(key, err)
	switch {
	case errors.Is(err, ErrPutOff):
	case err == nil && (failures > 0 || invalid):
		l.cfg.Logger.Info("succeeded again", "loop", l.cfg.Name, "owner", key, "failures", failures)
		l.onFailure(key, failures, nil)
	case err == nil:
	case errors.Is(err, ErrNotReady):
		l.cfg.Logger.Debug("waiting", "loop", l.cfg.Name, "owner", key, "reason", err)
	case errors.Is(err, ErrInvalid):
		if !invalid {
			l.cfg.Logger.Info("part of an object is refused", "loop", l.cfg.Name, "owner", key, "error", err)
		}
		l.onFailure(key, 0, err)
	default:
		l.metrics.failures.Inc()
		l.cfg.Logger.Warn("reconcile failed", "loop", l.cfg.Name, "owner", key, "failures", failures, "error", err)
		l.onFailure(key, failures, err)
	}
}

// settle updates the key's books and returns its failures in a row: after a
// success, those that it ended; invalid says that the key was before. A key that was
// put off goes back to its queue.
func (l *Loop[K]) settle(key K, err error) (failures int, invalid bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := l.running[key]
	delete(l.running, key)
	if errors.Is(err, ErrPutOff) {
		l.markLocked(key, min(again, rankEvent))
		return l.failures[key], false
	}
	_, invalid = l.invalid[key]
	delete(l.invalid, key)
	delete(l.waiting, key)
	if retry := l.retries[key]; retry != nil {
		retry.Stop()
		delete(l.retries, key)
	}
	failures = l.failures[key]
	switch {
	case err == nil:
		delete(l.failures, key)
	case errors.Is(err, ErrNotReady):
		l.waiting[key] = struct{}{}
	case errors.Is(err, ErrInvalid):
		l.invalid[key] = struct{}{}
		delete(l.failures, key)
	default:
		failures++
		l.failures[key] = failures
		l.retries[key] = time.AfterFunc(l.backoff(failures), func() { l.Mark(key) })
	}
	l.metrics.waiting.Set(float64(len(l.waiting)))
	l.metrics.failing.Set(float64(len(l.failures)))
	l.metrics.invalid.Set(float64(len(l.invalid)))
	if again != nowhere {
		l.markLocked(key, again)
	}
	return failures, invalid
}

func (l *Loop[K]) backoff(failures int) time.Duration {
	wait := l.cfg.MinBackoff
	for range failures - 1 {
		if wait *= 2; wait >= l.cfg.MaxBackoff {
			return l.cfg.MaxBackoff
		}
	}
	return wait
}
