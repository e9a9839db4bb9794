package health

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestReason_WarnsOfWhatLasts: a reason that passes within the pause is no Event, and one that stays is one Event.
func TestReason_WarnsOfWhatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warned []string
		changes := 0
		r := &Reason{Pause: time.Minute, Warn: func(reason string) { warned = append(warned, reason) }, Changed: func() { changes++ }}
		step := func(err error, wait time.Duration) {
			r.Set(err)
			time.Sleep(wait)
			synctest.Wait()
		}
		step(errors.New("begins"), 30*time.Second)
		for range 3 {
			step(errors.New("gateway interface ens1 is absent"), 50*time.Second)
		}
		if want := []string{"gateway interface ens1 is absent"}; !slices.Equal(warned, want) || r.Problem() != want[0] || changes != 2 {
			t.Errorf("warned %q, problem %q, %d changes", warned, r.Problem(), changes)
		}
		step(nil, 2*time.Minute)
		step(errors.New("short"), 10*time.Second)
		step(nil, 2*time.Minute)
		if len(warned) != 1 || r.Problem() != "" {
			t.Errorf("warned %q, problem %q", warned, r.Problem())
		}
	})
}
