package main

import (
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// eswitch tells the node's set-up what the ports of NICs lead to. On a DPU the set-up
// waits for the answer, because the gateway bridge depends on it.
func (a *agent) eswitch() (gateway.Eswitch, error) {
	known := a.devices.Inventory()
	switch {
	case known != nil:
		return a.eswitchOf(*known)
	case a.opts.mode == modeDPU:
		return gateway.Eswitch{DPU: true}, fmt.Errorf("%w: the devices of the DPU are not known yet", reconcile.ErrNotReady)
	}
	return gateway.Eswitch{}, nil
}

func (a *agent) eswitchOf(inv vf.Inventory) (gateway.Eswitch, error) {
	out := gateway.Eswitch{DPU: a.opts.mode == modeDPU, Functions: inv.RepresentorNames()}
	if !out.DPU {
		return out, nil
	}
	serves, err := a.serves()
	if err == nil {
		out.Uplinks, out.Guests = dpu.Links(inv, serves)
	}
	return out, err
}

// eswitchLinks is another text when the answer is another one.
func (a *agent) eswitchLinks(inv vf.Inventory) string {
	links, err := a.eswitchOf(inv)
	return fmt.Sprint(links, err)
}
