package agent

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnready_WarnsOfWhatLasts: a reason that passes within the pause is no Event, and one that stays is one Event.
func TestUnready_WarnsOfWhatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warned []string
		changes := 0
		u := &unready{pause: time.Minute, warn: func(reason string) { warned = append(warned, reason) }, changed: func() { changes++ }}
		step := func(err error, wait time.Duration) {
			u.set(err)
			time.Sleep(wait)
			synctest.Wait()
		}
		step(errors.New("begins"), 30*time.Second)
		for range 3 {
			step(errors.New("gateway interface ens1 is absent"), 50*time.Second)
		}
		if want := []string{"gateway interface ens1 is absent"}; !slices.Equal(warned, want) || u.problem() != want[0] || changes != 2 {
			t.Errorf("warned %q, problem %q, %d changes", warned, u.problem(), changes)
		}
		step(nil, 2*time.Minute)
		step(errors.New("short"), 10*time.Second)
		step(nil, 2*time.Minute)
		if len(warned) != 1 || u.problem() != "" {
			t.Errorf("warned %q, problem %q", warned, u.problem())
		}
	})
}
