package agent

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

func TestModeOf_LabelAndDevicesDecide(t *testing.T) {
	with := func(functions ...vf.PortName) vf.Inventory {
		var pf vf.PF
		for _, f := range functions {
			pf.Representors = append(pf.Representors, vf.Representor{Function: f})
		}
		return vf.Inventory{PFs: []vf.PF{pf}}
	}
	for name, tc := range map[string]struct {
		label     string
		inventory vf.Inventory
		want      string
	}{
		"nothing":              {"", vf.Inventory{}, ModeFull},
		"own representors":     {"", with(vf.PortName{}), ModeFull},
		"another's":            {"", with(vf.PortName{}, vf.PortName{External: true}), ModeDPU},
		"a host by label":      {contract.DPUHostLabel, vf.Inventory{}, ModeHost},
		"a DPU by label":       {contract.DPULabel, vf.Inventory{}, ModeDPU},
		"label before what is": {contract.DPUHostLabel, with(vf.PortName{External: true}), ModeHost},
	} {
		if got := modeOf(map[string]string{tc.label: ""}, tc.inventory); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
