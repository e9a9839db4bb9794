package nodeoffload

import (
	"fmt"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// Facts is all that is known of a node. Nil pointers are not known yet.
type Facts struct {
	Versions  v1alpha1.Versions
	Inventory *vf.Inventory
	Claims    []ledger.Claim
	// Damaged are the devices whose record cannot be read, with the reason.
	Damaged map[string]error
	// Reserved are the VFs that pods do not get, by PCI address.
	Reserved map[string]bool
	Settings *offload.Settings
	Report   *offload.Report
	// Endpoint is where the relay finds the agent; nil: nowhere.
	Endpoint *v1alpha1.AgentEndpoint
	Policies []v1alpha1.PolicyResult
	// Problems are what other parts know.
	Problems []string
	// Away is why the DPU of this host says nothing of its traffic now.
	Away string
}

// Bounds of the object: a node has at most 110 pods by default, but hundreds
// of VFs, and problems tend to come in crowds.
const (
	maxDevices  = 32
	maxUsed     = 256
	maxTraffic  = 16 // the worst: others change often, and each change is a write to etcd. The agent serves all (pkg/flowapi)
	maxProblems = 16
	maxReasons  = 3
	maxPolicies = 64
)

// Status is pure.
func Status(f Facts) v1alpha1.NodeOffloadStatus {
	s := v1alpha1.NodeOffloadStatus{Versions: f.Versions, Agent: f.Endpoint}
	used := map[string]bool{}
	for _, c := range f.Claims {
		used[c.Device] = true
	}
	problems := slices.Clone(f.Problems)
	if f.Away != "" {
		problems = append(problems, f.Away)
	}
	if f.Inventory != nil {
		problems = append(problems, f.Inventory.Problems...)
		for i := range f.Inventory.PFs {
			pf := &f.Inventory.PFs[i]
			if !offloads(pf) {
				continue
			}
			d := device(pf, used, f.Reserved)
			s.DeviceCount++
			add(&s.VFs, d.VFs)
			for _, p := range d.Problems {
				problems = append(problems, pf.Name+": "+p)
			}
			if len(s.Devices) < maxDevices {
				s.Devices = append(s.Devices, d)
			}
		}
	}
	s.UsedVFs, s.UsedVFsOmitted = usedVFs(f.Claims, f.Inventory)
	problems = append(problems, damaged(f.Damaged)...)
	s.Policies = f.Policies[:min(len(f.Policies), maxPolicies)]
	problems = append(problems, policyProblems(s.Policies)...)
	s.Offload, s.Reason = state(f, s.DeviceCount)
	s.Problems = problems[:min(len(problems), maxProblems)]
	if len(problems) > 0 {
		s.Problem = problems[0]
	}
	if f.Report != nil {
		traffic(&s, f.Report)
	}
	return s
}

// offloads leaves out what has no switch and so nothing to offload to.
func offloads(pf *vf.PF) bool { return pf.Eswitch.Mode != vf.NoSwitch }

func device(pf *vf.PF, used, reserved map[string]bool) v1alpha1.Device {
	d := v1alpha1.Device{
		Name: pf.Name, Product: pf.ProductName, Driver: pf.Driver, NUMA: pf.NUMA,
		Mode: string(pf.Eswitch.Mode), MaxVFs: pf.TotalVFs, Limit: pf.Class.Limit,
		Problems: pf.Problems[:min(len(pf.Problems), maxProblems)],
	}
	if up := pf.Uplink(); up != nil {
		d.Uplink, d.Link = up.Name, up.Link()
		if up.HWTC != nil {
			d.HWTCOffload = map[bool]string{true: "on", false: "off"}[*up.HWTC]
		}
	}
	for i := range pf.VFs {
		v := &pf.VFs[i]
		d.VFs.Total++
		switch {
		case used[v.Name]:
			d.VFs.Used++
		case reserved[v.Name]: // the management port's has addresses
			d.VFs.Reserved++
		case v.InUseBy() != "":
			d.VFs.Used++
		default:
			d.VFs.Free++
		}
	}
	return d
}

func add(sum *v1alpha1.VFCount, n v1alpha1.VFCount) {
	sum.Total += n.Total
	sum.Used += n.Used
	sum.Reserved += n.Reserved
	sum.Free += n.Free
}

// usedVFs takes the claims in the order of their devices.
func usedVFs(claims []ledger.Claim, inventory *vf.Inventory) (list []v1alpha1.UsedVF, omitted int) {
	for _, c := range claims[:min(len(claims), maxUsed)] {
		used := v1alpha1.UsedVF{Device: c.Device, Pod: c.Pod.String(), Interface: c.Interface, Resource: c.Resource, Phase: string(c.Phase)}
		if inventory != nil {
			if pf, v, ok := inventory.VF(c.Device); ok && offloads(pf) {
				used.PF = pf.Name
				if v.Representor != nil {
					used.Representor = v.Representor.Name
				}
			}
		}
		list = append(list, used)
	}
	return list, len(claims) - len(list)
}

func damaged(records map[string]error) (problems []string) {
	for device, err := range records {
		problems = append(problems, fmt.Sprintf("%s: %s", device, err))
	}
	slices.Sort(problems)
	return problems
}

func policyProblems(results []v1alpha1.PolicyResult) (problems []string) {
	for _, r := range results {
		switch r.State {
		case v1alpha1.PolicyApplied, v1alpha1.PolicyPending, v1alpha1.PolicyPlanned:
			continue
		}
		what := "policy " + r.Policy
		if r.Policy == "" {
			what = "going back to the original state"
		}
		if r.Device != "" {
			what += " on " + r.Device
		}
		problems = append(problems, fmt.Sprintf("%s: %s: %s", what, r.State, r.Message))
	}
	return problems
}

func state(f Facts, devices int) (v1alpha1.OffloadState, string) {
	switch {
	case f.Inventory == nil:
		return v1alpha1.OffloadOff, "the devices are not known yet"
	case devices == 0:
		return v1alpha1.OffloadNone, "no NIC with an embedded switch: nothing to offload to"
	}
	if reason := offReason(f); reason != "" {
		return v1alpha1.OffloadOff, reason
	}
	return v1alpha1.OffloadOn, ""
}

// offReason goes from what concerns the node to the single NIC, so that the
// reason is the one to remove first; "" when nothing is in the way.
func offReason(f Facts) string {
	switchdev, hwTC := false, false
	for i := range f.Inventory.PFs {
		pf := &f.Inventory.PFs[i]
		switchdev = switchdev || pf.Switchdev()
		up := pf.Uplink()
		hwTC = hwTC || pf.Switchdev() && (up == nil || up.HWTC == nil || *up.HWTC)
	}
	switch {
	case !switchdev:
		return v1alpha1.OffNoSwitchdev
	case f.Settings == nil:
		return "the settings of OVS are not known yet"
	case !f.Settings.HWOffload:
		return v1alpha1.OffHWOffload
	case f.Settings.RestartDue:
		return v1alpha1.OffRestartDue
	case f.Settings.Policy == offload.PolicySkipHW:
		return v1alpha1.OffTCPolicy
	case f.Settings.NoRecirculation:
		return v1alpha1.OffKernel
	case !hwTC:
		return v1alpha1.OffUplink
	}
	return ""
}
