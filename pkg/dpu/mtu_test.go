package dpu

import (
	"log/slog"
	"testing"
)

// TestPodMTU_FollowsDPU: pods that start after a change of the DPU's underlay get the
// MTU that fits.
func TestPodMTU_FollowsDPU(t *testing.T) {
	m := NewPodMTU(0, slog.New(slog.DiscardHandler))
	for _, step := range []struct {
		said, want int
		other      bool
	}{{0, 0, false}, {1400, 1400, false}, {1400, 1400, false}, {8900, 8900, true}, {0, 8900, false}} {
		if other := m.Follow(Health{PodMTU: step.said}); other != step.other || m.Get() != step.want {
			t.Errorf("the DPU says %d: %d, another one: %t", step.said, m.Get(), other)
		}
	}
	m = NewPodMTU(1300, slog.New(slog.DiscardHandler))
	if m.Follow(Health{PodMTU: 8900}) || m.Get() != 1300 {
		t.Errorf("a configured MTU was replaced by %d", m.Get())
	}
}
