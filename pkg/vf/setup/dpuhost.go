package setup

import (
	"context"
	"errors"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// On a host with a DPU a policy sets the number of VFs. The eswitch and OVS are the DPU's: its firmware and its system have
// them in switchdev mode and with offload, and the host's kernel knows neither.

const noteDPU = "the number of VFs is set; the eswitch and Open vSwitch are those of the DPU"

// onDPUHost is what of a policy concerns a host with a DPU. What the policy asks for and the DPU cannot have is refused.
func (w Want) onDPUHost(p *v1alpha1.OffloadPolicy) Want {
	isFalse := func(setting *bool) bool { return setting != nil && !*setting }
	switch {
	case w.Mode == vf.Legacy:
		w.Refused = "eswitchMode is legacy, and the eswitch is that of the host's DPU, which needs switchdev mode"
	case isFalse(p.Spec.HWTCOffload):
		w.Refused = "hwTCOffload is false, and the representors are on the host's DPU: set it there"
	case isFalse(p.Spec.OVSHWOffload):
		w.Refused = "ovsHWOffload is false, and Open vSwitch is on the host's DPU: set it there"
	}
	w.Mode, w.HWTC, w.OVS, w.UplinkChange, w.Note = "", nil, false, "", noteDPU
	return w
}

// DPUOVS is the OVSControl of a host with a DPU.
type DPUOVS struct{}

var errDPUs = errors.New("Open vSwitch and the eswitch are those of the DPU") //nolint:staticcheck // a name

// Observe is OVSControl's.
func (DPUOVS) Observe() *OVS { return nil }

// Merge is OVSControl's.
func (DPUOVS) Merge(context.Context, map[string]string) error { return errDPUs }

// Restart is OVSControl's.
func (DPUOVS) Restart(context.Context) error { return errDPUs }

// DeleteRules is OVSControl's.
func (DPUOVS) DeleteRules() error { return errDPUs }

// DPUUplinks is the Uplinks of a host with a DPU.
type DPUUplinks struct{}

// Change is Uplinks'.
func (DPUUplinks) Change(context.Context, uplink.Change) error { return errDPUs }

// Resume is Uplinks'.
func (DPUUplinks) Resume(context.Context) error { return nil }

// Undone is Uplinks'.
func (DPUUplinks) Undone() map[string]uplink.Undone { return nil }
