package setup

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// Change is what is to be done about one PF, or about OVS when PF is empty.
// Either there are steps, or it is Refused with the reason, or it is as wanted.
type Change struct {
	// Policy is empty when the original state is what is wanted.
	Policy  string
	PF      string
	Steps   []Step
	Refused string
	// State is what a Refused change is called; empty: PolicyRefused.
	State v1alpha1.PolicyState
	// Hold are the VFs that no pod may get during the steps.
	Hold []string
	// NoLAG says that the NIC is refused for the bond that has its port.
	NoLAG bool
	// Note is said of a change that needs no steps.
	Note string
	// DryRun says that the steps are only shown, and Then what follows once links exist.
	DryRun bool
	Then   string
}

// unfinished reports whether a policy has steps to apply.
func (c Change) unfinished() bool { return c.Policy != "" && !c.DryRun && len(c.Steps) > 0 }

// Plan is pure. Links that do not exist yet, such as representors, are the
// next plan's matter.
func Plan(s State, wants map[string]Want) []Change {
	changes := planGone(s)
	applied, leaving := true, false
	for i := range s.PFs {
		c, ok := planPF(s, &s.PFs[i], wants)
		if !ok {
			continue
		}
		applied = applied && !c.unfinished()
		leaving = leaving || c.Policy == "" && c.Refused != ""
		changes = append(changes, c)
	}
	c, ok := planOVS(s, wants)
	switch {
	case ok && c.Policy != "" && applied: // ovs-vswitchd starts once, when its ports exist
		changes = append(changes, c)
	case ok && c.Policy == "" && !leaving:
		// First, because hw-tc-offload stays on as long as a link has rules of OVS.
		// Pods that still have VFs keep their offload.
		changes = append([]Change{c}, changes...)
	}
	return changes
}

// planPF is false for a PF that no policy selects or has changed.
func planPF(s State, pf *vf.PF, wants map[string]Want) (Change, bool) {
	want, wanted := wants[pf.Name]
	saved, has := s.Saved.PFs[pf.Name]
	c := Change{PF: pf.Name}
	switch {
	case wanted:
		c = planApply(s, pf, want)
	case has:
		c = planRestore(s, pf, saved)
	}
	c = planUnit(s, pf, want, c)
	return c, wanted || has || len(c.Steps) > 0
}

// planGone removes the units of NICs that have gone: each boot would wait for them.
func planGone(s State) (changes []Change) {
	for _, device := range slices.Sorted(maps.Keys(s.Units)) {
		if !slices.ContainsFunc(s.PFs, func(pf vf.PF) bool { return pf.Name == device }) {
			changes = append(changes, Change{PF: device, Steps: []Step{removeUnit{device}}})
		}
	}
	return changes
}

// bnxt is the driver that wants VFs before the mode.
const bnxt = "bnxt_en"

// target is the state of a PF to reach.
type target struct {
	numVFs int
	mode   vf.Mode
	hwTC   func(link string) *bool
}

func planApply(s State, pf *vf.PF, want Want) Change {
	c := Change{Policy: want.Policy, PF: pf.Name, DryRun: want.DryRun, Note: want.Note}
	if c.Refused = want.Refused; c.Refused != "" {
		return c
	}
	t := target{want.NumVFs, want.Mode, func(string) *bool { return want.HWTC }}
	if c.Refused = unsupported(pf, t); c.Refused != "" {
		return c
	}
	steps := t.steps(pf)
	if len(steps) == 0 {
		return c
	}
	if c.Refused = notLAG(s, pf, t); c.Refused != "" {
		c.NoLAG = true
		return c
	}
	if steps = want.afterBoot(s, pf).admit(s, pf, &c, steps); c.Refused != "" {
		return c
	}
	if saved, has := s.Saved.PFs[pf.Name]; !has || saved.Boot != s.Boot {
		original := originalOf(pf, s.Boot, s.DPU)
		original.UplinkChange, original.Drain = want.UplinkChange, want.Drain
		steps = append([]Step{savePF{pf.Name, original}}, steps...)
	}
	c.Steps, c.Hold, c.Then = steps, affectedVFs(pf, steps), laterFeatures(want, steps)
	return c
}

// planRestore forgets the original state only when it is restored. A reboot has undone
// the changes of another boot.
func planRestore(s State, pf *vf.PF, saved Original) Change {
	c := Change{PF: pf.Name}
	if saved.Boot != s.Boot {
		c.Steps = []Step{forgetPF{pf.Name}}
		return c
	}
	steps := target{saved.NumVFs, saved.Mode, func(link string) *bool {
		if on, known := saved.HWTC[link]; known {
			return &on
		}
		return nil
	}}.steps(pf)
	back := Want{way: way{UplinkChange: saved.UplinkChange, Drain: saved.Drain, Turn: true, Reason: "back", NICs: slices.Collect(maps.Keys(s.Saved.PFs))}}
	if steps = back.admit(s, pf, &c, steps); c.Refused != "" {
		return c
	}
	if len(steps) == 0 {
		steps = []Step{forgetPF{pf.Name}}
	}
	c.Steps, c.Hold = steps, affectedVFs(pf, steps)
	return c
}

func (t target) steps(pf *vf.PF) []Step {
	var steps []Step
	vfs := func(n int) { steps = append(steps, setVFs{pf.PCI, n}) }
	remove := func() {
		if pf.NumVFs > 0 {
			vfs(0)
		}
	}
	create := func() {
		if t.numVFs > 0 {
			vfs(t.numVFs)
		}
	}
	sameMode, sameVFs := t.mode == "" || pf.Eswitch.Mode == t.mode, pf.NumVFs == t.numVFs
	switch {
	case sameMode && sameVFs:
		return t.features(pf)
	case sameMode:
		remove()
		create()
	case pf.Driver == bnxt && t.mode == vf.Switchdev:
		if !sameVFs {
			remove()
			create()
		}
		steps = append(steps, setMode{pf.PCI, t.mode})
	default:
		remove()
		steps = append(steps, setMode{pf.PCI, t.mode})
		create()
	}
	return steps
}

// features switches the uplink on first and off last: mlx5 keeps it on for the
// rules of any representor, which get no new ones once they are off.
func (t target) features(pf *vf.PF) []Step {
	var on, off []Step
	for _, link := range links(pf) {
		want := t.hwTC(link.Name)
		switch {
		case want == nil || link.HWTC == nil || *link.HWTC == *want:
		case *want:
			on = append(on, setHWTC{link.Name, true})
		default:
			off = append([]Step{setHWTC{link.Name, false}}, off...)
		}
	}
	return append(on, off...)
}

// unsupported says which part of the target the NIC does not support.
func unsupported(pf *vf.PF, t target) string {
	switch {
	case t.mode != "" && pf.Eswitch.Mode == vf.Unknown:
		return "the NIC's eswitch is in an unknown mode"
	case pf.TotalVFs == 0:
		return "the NIC cannot have VFs: SR-IOV is off in its firmware or the host's, or it has none"
	case t.numVFs > pf.TotalVFs:
		return fmt.Sprintf("%d VFs are wanted, the NIC can have %d", t.numVFs, pf.TotalVFs)
	}
	return ""
}

// affectedVFs are the VFs that the steps remove, or whose eswitch mode they change.
func affectedVFs(pf *vf.PF, steps []Step) (devices []string) {
	if !slices.ContainsFunc(steps, func(s Step) bool {
		n, number := s.(setVFs)
		_, mode := s.(setMode)
		_, moves := s.(moveMode)
		return mode || moves || number && n.N == 0
	}) {
		return nil
	}
	for i := range pf.VFs {
		devices = append(devices, pf.VFs[i].Name)
	}
	return devices
}

// atMost shortens what a person is to read.
func atMost(list []string, rest string) []string {
	const most = 3
	if n := len(list); n > most {
		return append(slices.Clone(list[:most]), fmt.Sprintf("and %d %s", n-most, rest))
	}
	return list
}
