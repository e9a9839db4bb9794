package reconcile

import "testing"

func TestGuard_StopsMassDeletionOnce(t *testing.T) {
	cases := []struct {
		name          string
		stale, total  int
		first, second bool
	}{
		{"nothing", 0, 0, true, true},
		{"few of few", 20, 20, true, true},
		{"a tenth", 100, 1000, true, true},
		{"more than a tenth", 101, 1000, false, true},
		{"everything", 1000, 1000, false, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var g Guard
			if got := g.Allow(1, c.stale, c.total); got != c.first {
				t.Errorf("first pass allowed: %v", got)
			}
			if got := g.Allow(1, c.stale, c.total); got != c.second {
				t.Errorf("second pass allowed: %v", got)
			}
		})
	}
}

func TestGuard_ForgetsWithItsGeneration(t *testing.T) {
	var g Guard
	g.Allow(1, 1000, 1000)
	if g.Allow(2, 1000, 1000) {
		t.Error("what was seen in another generation counts")
	}
}
