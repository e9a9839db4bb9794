package answer

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// TestMeaningOfState_OfEachSetting: one that a later agent names has none.
func TestMeaningOfState_OfEachSetting(t *testing.T) {
	seen := map[string]bool{"": true}
	for _, s := range []v1alpha1.NodeOffloadStatus{
		{Offload: v1alpha1.OffloadOn, Devices: []v1alpha1.Device{{Limit: "no conntrack in its tables"}, {}}},
		{Offload: v1alpha1.OffloadNone, Reason: "no NIC with an embedded switch: nothing to offload to"},
		{Offload: v1alpha1.OffloadOff, Reason: v1alpha1.OffNoSwitchdev},
		{Offload: v1alpha1.OffloadOff, Reason: v1alpha1.OffHWOffload},
		{Offload: v1alpha1.OffloadOff, Reason: v1alpha1.OffRestartDue},
		{Offload: v1alpha1.OffloadOff, Reason: v1alpha1.OffTCPolicy},
		{Offload: v1alpha1.OffloadOff, Reason: v1alpha1.OffKernel},
		{Offload: v1alpha1.OffloadOff, Reason: v1alpha1.OffUplink},
	} {
		got := meaningOfState(&s)
		if seen[got] {
			t.Errorf("%s, %s: %q, which another has or which is empty", s.Offload, s.Reason, got)
		}
		seen[got] = true
	}
	if got := meaningOfState(&v1alpha1.NodeOffloadStatus{Offload: v1alpha1.OffloadOn, Devices: []v1alpha1.Device{{Limit: "no conntrack in its tables"}}}); got != "" {
		t.Errorf("no NIC can: %q", got)
	}
	for _, reason := range []string{"the settings of OVS are not known yet", "of a later agent"} {
		if got := meaningOfState(&v1alpha1.NodeOffloadStatus{Offload: v1alpha1.OffloadOff, Reason: reason}); got != "" {
			t.Errorf("%s: %q", reason, got)
		}
	}
}
