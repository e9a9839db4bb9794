package agent

import (
	"log/slog"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/dpu"
)

// TestPodMTU_FollowsDPU: pods that start after a change of the DPU's underlay get the
// MTU that fits.
func TestPodMTU_FollowsDPU(t *testing.T) {
	m := &podMTU{log: slog.New(slog.DiscardHandler)}
	for _, step := range []struct {
		said, want int
		other      bool
	}{{0, 0, false}, {1400, 1400, false}, {1400, 1400, false}, {8900, 8900, true}, {0, 8900, false}} {
		if other := m.follow(dpu.Health{PodMTU: step.said}); other != step.other || m.get() != step.want {
			t.Errorf("the DPU says %d: %d, another one: %t", step.said, m.get(), other)
		}
	}
	m.configured = 1300
	m.now.Store(1300)
	if m.follow(dpu.Health{PodMTU: 8900}) || m.get() != 1300 {
		t.Errorf("a configured MTU was replaced by %d", m.get())
	}
}
