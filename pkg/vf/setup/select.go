package setup

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// Want is what a policy makes of a PF.
type Want struct {
	Policy string
	NumVFs int
	// Mode is empty on a host with a DPU, which has the eswitch.
	Mode vf.Mode
	// HWTC is hw-tc-offload of the uplink and the representors; nil: as it is.
	HWTC *bool
	// OVS says that OVS is to offload.
	OVS      bool
	Reserved int
	// DryRun plans without a change.
	DryRun bool
	// Refused says what of the policy this node cannot have, Note what of it is set elsewhere.
	Refused, Note string
	way
}

// Select gives each PF the policy that is to have it: of several the oldest, so
// that a new one takes nothing away. Notes tell of policies that select the
// node and get nothing on it, or not all that they select.
//
// A PF that was set up keeps the name that it had: drivers and udev may give its
// uplink another one with the mode, or none for a while.
func Select(policies []*v1alpha1.OffloadPolicy, node map[string]string, s State) (map[string]Want, []v1alpha1.PolicyResult) {
	policies = slices.SortedFunc(slices.Values(policies), func(a, b *v1alpha1.OffloadPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	wants := map[string]Want{}
	var notes []v1alpha1.PolicyResult
	for _, p := range policies {
		note := func(device string, state v1alpha1.PolicyState, format string, args ...any) {
			notes = append(notes, v1alpha1.PolicyResult{Policy: p.Name, Device: device, State: state, Message: fmt.Sprintf(format, args...)})
		}
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.NodeSelector)
		if err != nil {
			note("", v1alpha1.PolicyFailed, "nodeSelector: %s", err)
			continue
		}
		if !selector.Matches(labels.Set(node)) {
			continue
		}
		matched := false
		var nics []string
		for i := range s.PFs {
			pf := &s.PFs[i]
			if !matches(p.Spec.PFSelector, pf, s.Saved.PFs[pf.Name].Uplink) {
				continue
			}
			matched = true
			if older, taken := wants[pf.Name]; taken {
				note(pf.Name, v1alpha1.PolicyConflict, "policy %s is older and has this NIC", older.Policy)
				continue
			}
			want := wantOf(p, s.Node)
			if s.DPU {
				want = want.onDPUHost(p)
			}
			wants[pf.Name] = want
			nics = append(nics, pf.Name)
		}
		for _, name := range nics {
			want := wants[name]
			want.NICs = nics
			wants[name] = want
		}
		if !matched {
			note("", v1alpha1.PolicyPending, "no NIC of the node matches pfSelector")
		}
	}
	return wants, notes
}

func wantOf(p *v1alpha1.OffloadPolicy, node string) Want {
	w := Want{Policy: p.Name, NumVFs: p.Spec.NumVFs, Mode: vf.Switchdev, HWTC: p.Spec.HWTCOffload,
		Reserved: p.Spec.ReservedVFs, DryRun: p.Spec.DryRun}
	w.way = way{
		UplinkChange: p.Spec.UplinkChange, Drain: p.Spec.Drain, Reason: fmt.Sprintf("%s/%d", p.Name, p.Generation),
		Turn: p.Spec.DryRun || slices.Contains(p.Status.Changing, node),
	}
	if p.Spec.EswitchMode == string(vf.Legacy) {
		w.Mode = vf.Legacy
	} else if w.HWTC == nil {
		on := true
		w.HWTC = &on
	}
	w.OVS = w.HWTC != nil && *w.HWTC
	if p.Spec.OVSHWOffload != nil {
		w.OVS = *p.Spec.OVSHWOffload
	}
	return w
}

// matches is false for an empty selector: the API server refuses an empty selector, and a policy for every NIC of every
// node is certainly a mistake.
func matches(s v1alpha1.PFSelector, pf *vf.PF, formerUplink string) bool {
	if len(s.Vendors)+len(s.Devices)+len(s.PCIAddresses)+len(s.Names) == 0 || !pf.PCI.IsValid() {
		return false
	}
	in := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return in(s.Vendors, pf.Vendor.String()) && in(s.Devices, pf.Product.String()) &&
		in(s.PCIAddresses, pf.PCI.String()) && (in(s.Names, uplinkName(pf)) || formerUplink != "" && in(s.Names, formerUplink))
}

func uplinkName(pf *vf.PF) string {
	if up := pf.Uplink(); up != nil {
		return up.Name
	}
	return ""
}

// reservedOf counts the VFs of each PF, from the lowest number on, that pods do
// not get.
func reservedOf(wants map[string]Want, saved Checkpoint) map[string]int {
	out := map[string]int{}
	for pf := range saved.PFs { // a NIC that is not back yet keeps what it had
		if n := saved.Reserved[pf]; n > 0 {
			out[pf] = n
		}
	}
	for pf, want := range wants {
		n := want.Reserved
		if want.DryRun {
			n = saved.Reserved[pf]
		}
		delete(out, pf)
		if n > 0 {
			out[pf] = n
		}
	}
	return out
}
