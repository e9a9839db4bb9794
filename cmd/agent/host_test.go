package main

import (
	"log/slog"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/dpu"
)

// TestTakeMTU_FollowsDPU: pods that start after a change of the DPU's underlay get the
// MTU that fits.
func TestTakeMTU_FollowsDPU(t *testing.T) {
	a := &agent{opts: options{log: slog.New(slog.DiscardHandler)}}
	for _, step := range []struct {
		said, want int
		other      bool
	}{{0, 0, false}, {1400, 1400, false}, {1400, 1400, false}, {8900, 8900, true}, {0, 8900, false}} {
		if other := a.takeMTU(dpu.Health{PodMTU: step.said}); other != step.other || int(a.podMTU.Load()) != step.want {
			t.Errorf("the DPU says %d: %d, another one: %t", step.said, a.podMTU.Load(), other)
		}
	}
	a.opts.node.MTU = 1300
	a.podMTU.Store(1300)
	if a.takeMTU(dpu.Health{PodMTU: 8900}) || a.podMTU.Load() != 1300 {
		t.Errorf("a configured MTU was replaced by %d", a.podMTU.Load())
	}
}
