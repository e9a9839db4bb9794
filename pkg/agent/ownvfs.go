package agent

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/dpu"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// ownVFs are the VFs of the node itself, and the purposes of all its VFs.
type ownVFs struct {
	*machine
	settings vf.Settings
	// reserved counts, by PF, the VFs that an OffloadPolicy reserves.
	reserved func() map[string]int
	// holder gives the pod that has a VF, or "".
	holder func(device string) string
}

func newOwnVFs(m *machine, settings vf.Settings) *ownVFs {
	return &ownVFs{m, settings, func() map[string]int { return nil }, func(string) string { return "" }}
}

// purposes are those of the VFs of the newest inventory.
func (o *ownVFs) purposes() vf.Purposes {
	return o.settings.Purposes(o.devices.Inventory(), o.reserved(), o.holder)
}

func (o *ownVFs) notForPods() map[string]bool { return o.purposes().NotForPods() }

// find gives the VF that the node itself has for a purpose; "" when no VF is to have it.
func (o *ownVFs) find(purpose vf.Purpose) (string, error) {
	device, err := o.purposes().Own(purpose)
	if errors.Is(err, vf.ErrNoInventory) || errors.Is(err, vf.ErrNoVF) { // the NIC may come back
		err = fmt.Errorf("%w: %w", reconcile.ErrNotReady, err)
	}
	return device, err
}

// management is the VF of the management port. A node that has no such VF, as others of the cluster may, has an
// internal port.
func (o *ownVFs) management() (*node.VF, error) {
	f, err := o.withRepresentor(vf.ForManagement)
	if err != nil {
		return nil, fmt.Errorf("management port: %w", err)
	}
	return f, nil
}

// gateway is the VF that has the node's address; without one, the gateway bridge's own interface has it.
func (o *ownVFs) gateway() (*node.VF, error) { return o.withRepresentor(vf.ForGateway) }

func (o *ownVFs) withRepresentor(purpose vf.Purpose) (*node.VF, error) {
	device, err := o.find(purpose)
	if errors.Is(err, vf.ErrNoVF) {
		return nil, nil
	}
	if err != nil || device == "" {
		return nil, err
	}
	v, err := o.devices.VF(device)
	if err = cmp.Or(err, v.Problem); err != nil {
		return nil, err
	}
	return &node.VF{Device: device, Representor: v.Representor}, nil
}

// claim is the VF of the management port on a host with a DPU, and its claim for the DPU; former is the annotation as
// it is.
func (o *ownVFs) claim(former string) (*node.VF, error) {
	device, err := o.find(vf.ForManagement)
	if err == nil && device == "" {
		return nil, nil
	}
	var v vf.Handle
	if err == nil {
		v, err = o.devices.VF(device)
	}
	var claim string
	if err == nil {
		claim, err = dpu.ClaimManagement(v, former)
	}
	if err != nil {
		return nil, fmt.Errorf("management port: %w", err)
	}
	return &node.VF{Device: device, Claim: claim}, nil
}

// links is another text when a link of these VFs is another one.
func (o *ownVFs) links(inv vf.Inventory) string {
	text := ""
	for _, purpose := range []vf.Purpose{vf.ForManagement, vf.ForGateway} {
		device, err := o.find(purpose)
		if err != nil || device == "" {
			continue
		}
		_, v, _ := inv.VF(device)
		text += " " + device
		if v != nil && v.Netdev != nil {
			text += fmt.Sprint(" ", v.Netdev.Name, v.Netdev.Index)
		}
		if v != nil && v.Representor != nil {
			text += fmt.Sprint(" ", v.Representor.Name, v.Representor.Index)
		}
	}
	return text
}
