package node

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Step is one change of the host.
type Step = reconcile.Step[*Host]

// SetLink changes the settings of a link.
type SetLink struct {
	Name string
	netdev.Settings
}

// Rename needs the link to be down.
type Rename struct {
	Index  int
	Of, To string
}

// LeaveDatapath takes a link out of the kernel's datapath of Open vSwitch while no ovs-vswitchd runs.
type LeaveDatapath struct{ Link string }

// AddAddr adds an address without duplicate address detection.
type AddAddr struct {
	Link string
	Addr netip.Prefix
}

// DeleteAddr removes an address.
type DeleteAddr AddAddr

// AddMasquerade adds an address that is never a source by the kernel's own choice.
type AddMasquerade AddAddr

// AddRoute adds a route or replaces the one to the same destination.
type AddRoute struct{ netdev.Route }

// DeleteRoute removes a route.
type DeleteRoute struct{ netdev.Route }

// PinNeighbor adds a permanent neighbour.
type PinNeighbor struct{ netdev.Neighbor }

// SetSysctl writes one sysctl.
type SetSysctl struct{ Key, Value string }

// AwaitPort waits until ovs-vswitchd has opened a port.
type AwaitPort struct {
	Owner contract.Owner
	Name  string
}

// Commit makes rows all that the owner has in the Open_vSwitch database.
type Commit struct {
	Owner contract.Owner
	Rows  []ovsdb.Row
}

func (a SetLink) String() string {
	text := "set link " + a.Name
	if a.MTU != 0 {
		text += fmt.Sprintf(" mtu %d", a.MTU)
	}
	if a.NoMaster {
		text += " nomaster"
	}
	if a.Bond != "" {
		text += " bond " + a.Bond
	}
	if a.MAC != nil {
		text += " mac " + a.MAC.String()
	}
	if a.Alias != "" {
		text += fmt.Sprintf(" alias %q", a.Alias)
	}
	if a.NoAlias {
		text += " noalias"
	}
	switch a.State {
	case netdev.Up:
		text += " up"
	case netdev.Down:
		text += " down"
	}
	return text
}
func (a Rename) String() string        { return fmt.Sprintf("rename link %s to %s", a.Of, a.To) }
func (a LeaveDatapath) String() string { return "take " + a.Link + " out of the datapath" }
func (a AddAddr) String() string       { return fmt.Sprintf("add address %s to %s", a.Addr, a.Link) }
func (a DeleteAddr) String() string    { return fmt.Sprintf("delete address %s of %s", a.Addr, a.Link) }
func (a AddMasquerade) String() string {
	return fmt.Sprintf("add masquerade address %s to %s", a.Addr, a.Link)
}
func (a AddRoute) String() string    { return "add route " + a.Route.String() }
func (a DeleteRoute) String() string { return "delete route " + a.Route.String() }
func (a PinNeighbor) String() string { return fmt.Sprintf("pin neighbour %s of %s", a.Addr, a.Link) }
func (a SetSysctl) String() string   { return "set " + a.Key + "=" + a.Value }
func (a AwaitPort) String() string   { return "await port " + a.Name }
func (a Commit) String() string {
	text := "commit rows of " + a.Owner.String() + ":"
	for i, row := range a.Rows {
		if i == 0 || row.ID != a.Rows[i-1].ID {
			text += " " + row.ID
		}
	}
	return text
}

// Apply implements Step.
func (a SetLink) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.SetLink(a.Name, a.Settings)
}

// Apply implements Step.
func (a Rename) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.MoveLink(netdev.Move{Index: a.Index, Name: a.To})
}

// Apply implements Step.
func (a LeaveDatapath) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.LeaveDatapath(a.Link)
}

// Apply implements Step.
func (a AddAddr) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.ReplaceAddr(a.Link, a.Addr, netdev.AddrOptions{NoDAD: true})
}

// Apply implements Step.
func (a DeleteAddr) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.DeleteAddr(a.Link, a.Addr)
}

// Apply implements Step.
func (a AddMasquerade) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.ReplaceAddr(a.Link, a.Addr, netdev.AddrOptions{NoDAD: true, Deprecated: true})
}

// Apply implements Step.
func (a AddRoute) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.ReplaceRoute(a.Route)
}

// Apply implements Step.
func (a DeleteRoute) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.DeleteRoute(a.Route)
}

// Apply implements Step.
func (a PinNeighbor) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.ReplaceNeighbor(a.Neighbor)
}

// Apply implements Step.
func (a SetSysctl) Apply(_ context.Context, h *Host) error {
	return h.Deps.Netns.Sysctl(a.Key, a.Value)
}

// Apply implements Step.
func (a Commit) Apply(ctx context.Context, h *Host) error { return h.Commit(ctx, a) }

// Apply returns ovs-vswitchd's complaint, if that is what it answers.
func (a AwaitPort) Apply(ctx context.Context, h *Host) error {
	ctx, cancel := context.WithTimeout(ctx, StepTimeout)
	defer cancel()
	var complaint *string
	err := h.Deps.DB.WaitRow(ctx, vswitch.InterfaceTable, a.Owner.String(), a.Name, func(row any) bool {
		iface, ok := row.(*vswitch.Interface)
		if !ok {
			return false
		}
		complaint = iface.Error
		return iface.Error != nil || iface.Ofport != nil && *iface.Ofport > 0
	})
	if err != nil {
		return fmt.Errorf("ovs-vswitchd has not opened %s: %w", a.Name, err)
	}
	if complaint != nil {
		return fmt.Errorf("ovs-vswitchd: %s", *complaint)
	}
	return nil
}
