package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// way is how a policy lets users of a NIC be interrupted.
type way struct {
	UplinkChange v1alpha1.UplinkChange
	Drain        v1alpha1.Drain
	// Turn says that the node is one of those that may change now.
	Turn bool
	// Reason names the policy and its generation.
	Reason string
	// NICs are all that change in this way on the node, by PCI address.
	NICs []string
}

// afterBoot is the way of a NIC that was set up before the host has booted, on a node whose pods have no network yet.
// No pod is interrupted, so the NIC waits neither for a drain nor for a turn.
func (w way) afterBoot(s State, pf *vf.PF) way {
	if saved, has := s.Saved.PFs[pf.Name]; has && saved.Boot != s.Boot && s.Idle {
		w.Drain, w.Turn = v1alpha1.DrainNone, true
	}
	return w
}

// admit gives the steps that may be applied now. Otherwise the Change says why not: first what waiting does not end,
// then whose turn it is, then which pods are in the way.
func (w way) admit(s State, pf *vf.PF, c *Change, steps []Step) []Step {
	steps, pods := w.users(s, pf, c, steps)
	switch {
	case c.Refused != "":
	case !w.Turn && interrupts(steps) && (len(pods) == 0 || w.Drain == v1alpha1.DrainEvict):
		c.State, c.Refused = v1alpha1.PolicyWaiting, waits
		return nil
	case len(pods) > 0:
		slices.Sort(pods)
		c.State, c.Refused = v1alpha1.PolicyDrainNeeded, interrupted+strings.Join(atMost(slices.Compact(pods), "more"), "; ")
	}
	if c.Refused != "" && w.UplinkChange == v1alpha1.UplinkAtBoot {
		c.State, c.Refused = v1alpha1.PolicyRebootNeeded, "a reboot of the host makes the change; now it would interrupt "+strings.TrimPrefix(c.Refused, interrupted)
	}
	return steps
}

// users gives the pods that the steps would interrupt, and the steps with the node's own uplink in mind. Of other users the
// Change has the first.
func (w way) users(s State, pf *vf.PF, c *Change, steps []Step) (_ []Step, pods []string) {
	steps = slices.Clone(steps)
	for i, step := range steps {
		if c.Refused != "" {
			break
		}
		number, isNumber := step.(setVFs)
		mode, isMode := step.(setMode)
		if isMode || isNumber && number.N == 0 {
			pods = append(pods, w.vfUsers(s, pf, c)...)
		}
		use := uplinkInUse(pf)
		if use == "" || c.Refused != "" || !isMode && !reopens(pf, step) {
			continue
		}
		if isMode {
			steps[i] = moveMode{setMode: mode, From: pf.Eswitch.Mode, Reason: w.Reason}
			w.uplink(s, pf, c, use)
		} else {
			w.reopened(c, use)
		}
		if !c.DryRun {
			pods = append(pods, w.drained(s)...)
		}
	}
	return steps, pods
}

// reopens says that the driver closes the PF's netdev and opens it again in a step. bnxt_en does when VFs are removed, in
// both modes: bnxt_sriov_disable calls bnxt_restore_pf_fw_resources, and bnxt_vf_reps_destroy for representors.
func reopens(pf *vf.PF, step Step) bool {
	number, isNumber := step.(setVFs)
	return isNumber && number.N == 0 && pf.Driver == bnxt
}

// reopened says why VFs of a NIC that the node uses cannot be removed. The netdev stays, with all that is built on it.
func (w way) reopened(c *Change, use string) {
	switch w.UplinkChange {
	case v1alpha1.UplinkInPlace:
	case v1alpha1.UplinkAtBoot:
		c.Refused = use
	default:
		c.Refused = "the driver " + bnxt + " closes the NIC for a moment when VFs are removed, which would interrupt " + use +
			": set uplinkChange of the policy to InPlace or AtBoot"
	}
}

const interrupted = "the change would interrupt "

const waits = "other nodes change first: maxUnavailable of the policy limits how many change at a time"

// interrupts says that a step takes something from the node's pods for a moment.
func interrupts(steps []Step) bool {
	return slices.ContainsFunc(steps, func(step Step) bool {
		switch step := step.(type) {
		case setVFs:
			return step.N == 0
		case setMode, moveMode, restartOVS:
			return true
		}
		return false
	})
}

// uplink says why the NIC's mode cannot change while the node uses the NIC.
func (w way) uplink(s State, pf *vf.PF, c *Change, use string) {
	undone, tried := s.Undone[pf.Name]
	switch {
	case w.UplinkChange == v1alpha1.UplinkAtBoot:
		c.Refused = use
	case w.UplinkChange != v1alpha1.UplinkInPlace:
		c.Refused = "a change of the eswitch's mode would interrupt " + use +
			": set uplinkChange of the policy to InPlace or AtBoot, or set the mode when the host boots"
	case tried && undone.Reason == w.Reason:
		c.State = v1alpha1.PolicyFailed
		c.Refused = "the change was undone, and is tried again when the policy changes or the host boots: " + undone.Error
	case bondOf(s, pf) != nil:
		if why := w.inBond(s, pf, bondOf(s, pf)); why != "" {
			c.Refused = use + ": " + why + ": set uplinkChange of the policy to AtBoot"
		}
	case !movable(pf):
		c.Refused = use + ", which the agent cannot restore: set uplinkChange of the policy to AtBoot"
	}
}

// movable says that all that the node has built on the NIC is restored after a change of its mode.
func movable(pf *vf.PF) bool {
	return !slices.ContainsFunc(pf.Ports, func(port vf.Netdev) bool {
		return port.Use != "" && !strings.HasPrefix(port.Use, "has address") && port.Master != ovsDatapath
	})
}

// ovsDatapath is the link that has all ports of the kernel's datapath.
const ovsDatapath = "ovs-system"

// drained gives what is to leave the node before its uplink changes.
func (w way) drained(s State) []string {
	switch {
	case w.Drain == v1alpha1.DrainNone:
		return nil
	case !s.Cordoned:
		return append([]string{"pods of the node, which is not cordoned"}, s.Pods...)
	}
	return s.Pods
}

// uplinkInUse says what the node does with the NIC's own ports.
func uplinkInUse(pf *vf.PF) string {
	for i := range pf.Ports {
		if port := &pf.Ports[i]; port.Use != "" {
			return fmt.Sprintf("%s, which %s", port.Name, port.Use)
		}
	}
	return ""
}

// vfUsers gives the pods that have VFs. A drain does not end other users. The kernel would wait for a VFIO user as well,
// and the write to sriov_numvfs would hang.
func (w way) vfUsers(s State, pf *vf.PF, c *Change) (pods []string) {
	var others []string
	for i := range pf.VFs {
		v := &pf.VFs[i]
		switch who := s.InUse[v.Name]; {
		case who != "":
			pods = append(pods, fmt.Sprintf("%s, which has VF %d (%s)", who, v.Index, v.Name))
		case v.InUseBy() != "":
			others = append(others, fmt.Sprintf("VF %d (%s) is in use: %s", v.Index, v.Name, v.InUseBy()))
		case v.Vfio():
			others = append(others, fmt.Sprintf("VF %d (%s) is bound to %s and may be in use", v.Index, v.Name, v.Driver))
		}
	}
	if len(others) > 0 {
		c.Refused = strings.Join(atMost(others, "more"), "; ")
	}
	return pods
}
