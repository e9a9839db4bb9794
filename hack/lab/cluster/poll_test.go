package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPoll_FewTries: what comes soon is seen soon, and a wait of minutes costs a bounded number of tries.
func TestPoll_FewTries(t *testing.T) {
	for name, c := range map[string]struct{ every, after, late time.Duration }{
		"at once":         {lookEvery, 0, 0},
		"soon":            {runEvery, 300 * time.Millisecond, 300 * time.Millisecond},
		"looks for long":  {lookEvery, 2 * time.Minute, lookEvery},
		"runs for long":   {runEvery, 2 * time.Minute, runEvery},
		"never, by looks": {lookEvery, 0, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			not, tries, began := errors.New("not yet"), 0, time.Now()
			err := poll(ctx, c.every, func() error {
				if tries++; c.late < 0 || time.Since(began) < c.after {
					return not
				}
				return nil
			})
			took := time.Since(began)
			if c.late < 0 {
				if !errors.Is(err, not) || took != 4*time.Minute {
					t.Errorf("%s: %v after %s", name, err, took)
				}
			} else if err != nil || took > c.after+c.late {
				t.Errorf("%s: %v after %s", name, err, took)
			}
			if most := 6 + int(took/c.every); tries > most {
				t.Errorf("%s: %d tries in %s, want %d at most", name, tries, took, most)
			}
		})
	}
}
