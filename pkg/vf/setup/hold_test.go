package setup

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// TestRemovalOfVFs_PodComesMeanwhile: a pod claims a VF after the plan was made, or
// while the VFs are removed.
func TestRemovalOfVFs_PodComesMeanwhile(t *testing.T) {
	for name, tt := range map[string]struct {
		spec v1alpha1.OffloadPolicySpec
		card card
	}{
		"another number": {v1alpha1.OffloadPolicySpec{NumVFs: 4}, card{driver: "mlx5_core", total: 8, vfs: 2, mode: vf.Switchdev, reps: make([]bool, 2)}},
		"another mode":   {v1alpha1.OffloadPolicySpec{NumVFs: 2}, card{driver: "ice", total: 8, vfs: 2, mode: vf.Legacy, reps: make([]bool, 2)}},
	} {
		device := vfName(first, 1)
		for _, before := range []bool{true, false} {
			nic := tt.card
			w := newWorld(t, map[string]*card{first: &nic})
			w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, tt.spec)}
			asked, got := 0, false
			claim := func() {
				if asked++; asked == 1 {
					got = w.claim(device)
				}
			}
			if before {
				w.looked = claim
			} else {
				w.removing = claim
			}
			r := w.pass()
			refused := strings.Contains(r.Results()[0].Message, "pod default/web, which has VF")
			if asked == 0 || got != before || refused != before || (w.cards[first].vfs == 2 && w.cards[first].mode == tt.card.mode) != before {
				t.Errorf("%s, before the steps: %t: asked %d times, the pod has the VF: %t, results %+v, %s", name, before, asked, got, r.Results(), w)
			}
			if !w.claim(device) {
				t.Errorf("%s: the VF is held after the steps", name)
			}
		}
	}
}
