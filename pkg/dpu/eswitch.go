package dpu

import (
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// Links are the DPU's links of switches that have functions of hosts: the uplinks, and
// the representors of these functions, whichever host of the DPU they belong to.
func Links(inv vf.Inventory, s Serves) (uplinks, guests []string) {
	for i := range inv.PFs {
		pf, own := &inv.PFs[i], s.own()
		before := len(guests)
		for _, v := range pf.VFs {
			if own && v.Representor != nil {
				guests = append(guests, v.Representor.Name)
			}
		}
		for _, r := range pf.Representors {
			// The DPU's own SFs are its own affair; drivers too old to tell hosts apart call the
			// others as they call the DPU's.
			if pf.Switchdev() && (r.Function.External || r.Function.Flavour != netdev.FlavourSF) {
				guests = append(guests, r.Name)
			}
		}
		if len(guests) > before {
			for _, port := range pf.Ports {
				uplinks = append(uplinks, port.Name)
			}
		}
	}
	slices.Sort(uplinks)
	slices.Sort(guests)
	return uplinks, guests
}
