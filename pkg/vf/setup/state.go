package setup

import (
	"maps"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// State is everything that a planner looks at, as it was at one moment.
type State struct {
	PFs []vf.PF
	// InUse says who has a VF, by its PCI address.
	InUse map[string]string
	// OVS is nil while it does not run.
	OVS *OVS
	// Boot is the host's boot id.
	Boot  string
	Saved Checkpoint
}

// OVS is its configuration, and whether a supervisor would start ovs-vswitchd
// again.
type OVS struct {
	offload.Observed
	Supervised bool
}

// Checkpoint is what undoes the changes.
type Checkpoint struct {
	PFs map[string]Original `json:"pfs,omitempty"` // by PCI address
	// OVS has the former values of other_config; "" is an absent key.
	OVS map[string]string `json:"ovs,omitempty"`
	// Reserved counts VFs of PFs. It undoes nothing, but has to be loaded before
	// the policies are.
	Reserved map[string]int `json:"reserved,omitempty"`
}

func (c Checkpoint) clone() Checkpoint {
	return Checkpoint{PFs: maps.Clone(c.PFs), OVS: maps.Clone(c.OVS), Reserved: maps.Clone(c.Reserved)}
}

// Original is a PF before the first change of a boot of the host.
type Original struct {
	Boot   string          `json:"boot"`
	Uplink string          `json:"uplink,omitempty"`
	NumVFs int             `json:"numVFs"`
	Mode   vf.Mode         `json:"mode"`
	HWTC   map[string]bool `json:"hwTCOffload,omitempty"` // by link
}

func originalOf(pf *vf.PF, boot string) Original {
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
