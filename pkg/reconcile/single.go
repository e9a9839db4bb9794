package reconcile

import (
	"context"
	"sync"
	"time"
)

// Single is a loop of one key: events ask for a pass, and passes follow each other until one succeeds.
type Single struct {
	loop *Loop[string]

	mu    sync.Mutex
	began time.Time     // the newest pass
	took  time.Duration // the newest pass that has ended
	due   time.Time     // of the timer; zero: none
	timer *time.Timer
}

// NewSingle makes a Single whose key is cfg.Name; nothing runs before Run. The pass is made at the start and each hour.
func NewSingle(cfg Config, pass func(ctx context.Context) error) *Single {
	s := &Single{}
	s.loop = New(cfg, func(ctx context.Context, _ []string) (map[string]error, error) {
		s.mu.Lock()
		s.began = time.Now()
		s.mu.Unlock()
		err := pass(ctx)
		s.mu.Lock()
		s.took = time.Since(s.began)
		s.mu.Unlock()
		return map[string]error{cfg.Name: err}, nil
	})
	s.loop.MarkAllWith(func() []string { return []string{cfg.Name} })
	return s
}

// Mark asks for a pass now, or for one more if one is running.
func (s *Single) Mark() { s.loop.MarkAll() }

// MarkSpaced asks for a pass that begins settle from now or later, and interval after the beginning of the newest one or
// later. It changes nothing when a pass is due before that.
func (s *Single) MarkSpaced(settle, interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := time.Now().Add(settle)
	if earliest := s.began.Add(interval); earliest.After(due) {
		due = earliest
	}
	if !s.due.IsZero() && !due.Before(s.due) {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.due = due
	s.timer = time.AfterFunc(time.Until(due), func() {
		s.mu.Lock()
		s.due = time.Time{}
		s.mu.Unlock()
		s.Mark()
	})
}

// MarkRested asks for a pass now, or after a rest that is times as long as the newest pass and at most most: a burst of
// events costs a part of a processor only.
func (s *Single) MarkRested(times int, most time.Duration) {
	s.mu.Lock()
	took := s.took
	s.mu.Unlock()
	s.MarkSpaced(0, took+min(time.Duration(times)*took, most))
}

// Run makes passes until ctx ends.
func (s *Single) Run(ctx context.Context) error {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer != nil {
			s.timer.Stop()
		}
	}()
	return s.loop.Run(ctx)
}
