package setup

import (
	"maps"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// State is everything that a planner looks at, as it was at one moment.
type State struct {
	PFs   []vf.PF
	Bonds []vf.Bond
	// DPU says that the host has a DPU, which has the eswitch and OVS.
	DPU bool
	// InUse says who has a VF, by its PCI address.
	InUse map[string]string
	// OVS is nil while it does not run.
	OVS *OVS
	// Boot is the host's boot id.
	Boot  string
	Saved Checkpoint
	// Node is the node's name.
	Node string
	Users
	// Undone are changes of an uplink that cut the node off, by PCI address.
	Undone map[string]uplink.Undone
	// Units are the host's units by PCI address; nil: the host has no systemd.
	Units map[string]string
}

// Users are the pods that have the node's network.
type Users struct {
	// Pods are those that a change of the uplink interrupts, and a drain moves.
	Pods []string
	// Cordoned says that no new pods come.
	Cordoned bool
	// Idle says that no pod of the node has its network yet, as after a boot.
	Idle bool
}

// OVS is its configuration, and whether a supervisor would start ovs-vswitchd
// again.
type OVS struct {
	offload.Observed
	Supervised bool
	// Unsupervised is why the host's services could not be asked.
	Unsupervised error
}

// Checkpoint is what undoes the changes.
type Checkpoint struct {
	PFs map[string]Original `json:"pfs,omitempty"` // by PCI address
	// OVS has the former values of other_config; "" is an absent key.
	OVS map[string]string `json:"ovs,omitempty"`
	// Reserved counts VFs of PFs. It undoes nothing, but has to be loaded before
	// the policies are.
	Reserved map[string]int `json:"reserved,omitempty"`
	// Units has the boot in which a PF's unit was written.
	Units map[string]string `json:"units,omitempty"`
}

func (c Checkpoint) clone() Checkpoint {
	return Checkpoint{PFs: maps.Clone(c.PFs), OVS: maps.Clone(c.OVS), Reserved: maps.Clone(c.Reserved), Units: maps.Clone(c.Units)}
}

// isReset says that a boot of the host has reset a PF that was set up in an earlier boot.
func (c Checkpoint) isReset(boot string) bool {
	for _, pf := range c.PFs {
		if pf.Boot != boot {
			return true
		}
	}
	return false
}

// Original is a PF before the first change of a boot of the host.
type Original struct {
	Boot   string          `json:"boot"`
	Uplink string          `json:"uplink,omitempty"`
	NumVFs int             `json:"numVFs"`
	Mode   vf.Mode         `json:"mode"`
	HWTC   map[string]bool `json:"hwTCOffload,omitempty"` // by link
	// UplinkChange and Drain are the policy's, for the way back.
	UplinkChange v1alpha1.UplinkChange `json:"uplinkChange,omitempty"`
	Drain        v1alpha1.Drain        `json:"drain,omitempty"`
}

func originalOf(pf *vf.PF, boot string, dpu bool) Original {
	if dpu {
		return Original{Boot: boot, Uplink: uplinkName(pf), NumVFs: pf.NumVFs}
	}
	o := Original{Boot: boot, Uplink: uplinkName(pf), NumVFs: pf.NumVFs, Mode: pf.Eswitch.Mode, HWTC: map[string]bool{}}
	for _, link := range links(pf) {
		if link.HWTC != nil {
			o.HWTC[link.Name] = *link.HWTC
		}
	}
	return o
}

// links are the ports of the PF's eswitch that are on this host.
func links(pf *vf.PF) []vf.Netdev {
	var out []vf.Netdev
	if up := pf.Uplink(); up != nil {
		out = append(out, *up)
	}
	for i := range pf.VFs {
		if r := pf.VFs[i].Representor; r != nil {
			out = append(out, r.Netdev)
		}
	}
	return out
}
