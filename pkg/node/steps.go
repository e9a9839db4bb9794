package node

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// Step is one change of the host, safe to repeat. Its text names it in errors,
// logs and tests.
type Step interface {
	fmt.Stringer
	apply(ctx context.Context, m *machine) error
}

type setLink struct {
	Name string
	netdev.Settings
}

// rename needs the link to be down.
type rename struct {
	Index  int
	Of, To string
}

type addAddr struct {
	Link string
	Addr netip.Prefix
}

type deleteAddr addAddr

// addMasquerade adds an address that is never a source by the kernel's own choice.
type addMasquerade addAddr

type addRoute struct{ netdev.Route }

type deleteRoute struct{ netdev.Route }

type pinNeighbor struct{ netdev.Neighbor }

type setSysctl struct{ Key, Value string }

type save struct{ Checkpoint }

type forget struct{}

// commit makes rows all that the owner has in the Open_vSwitch database.
type commit struct {
	Owner contract.Owner
	Rows  []ovsdb.Row
}

// awaitPort waits until ovs-vswitchd has opened a port.
type awaitPort struct{ Name string }

// verify waits until the probes of the checkpoint succeed again.
type verify struct{ Probes []string }

func (a setLink) String() string {
	text := "set link " + a.Name
	if a.MTU != 0 {
		text += fmt.Sprintf(" mtu %d", a.MTU)
	}
	if a.MAC != nil {
		text += " mac " + a.MAC.String()
	}
	if a.Alias != "" {
		text += fmt.Sprintf(" alias %q", a.Alias)
	}
	switch a.State {
	case netdev.Up:
		text += " up"
	case netdev.Down:
		text += " down"
	}
	return text
}
func (a rename) String() string     { return fmt.Sprintf("rename link %s to %s", a.Of, a.To) }
func (a addAddr) String() string    { return fmt.Sprintf("add address %s to %s", a.Addr, a.Link) }
func (a deleteAddr) String() string { return fmt.Sprintf("delete address %s of %s", a.Addr, a.Link) }
func (a addMasquerade) String() string {
	return fmt.Sprintf("add masquerade address %s to %s", a.Addr, a.Link)
}
func (a addRoute) String() string    { return "add route " + a.Route.String() }
func (a deleteRoute) String() string { return "delete route " + a.Route.String() }
func (a pinNeighbor) String() string { return fmt.Sprintf("pin neighbour %s of %s", a.Addr, a.Link) }
func (a setSysctl) String() string   { return "set " + a.Key + "=" + a.Value }
func (a save) String() string {
	return fmt.Sprintf("save checkpoint of %s (verified %t, index %d)", a.Interface, a.Verified, a.Index)
}
func (forget) String() string      { return "remove checkpoint" }
func (a awaitPort) String() string { return "await port " + a.Name }
func (a verify) String() string    { return fmt.Sprintf("verify %q", a.Probes) }

func (a commit) String() string {
	text := "commit rows of " + a.Owner.String() + ":"
	for i, row := range a.Rows {
		if i == 0 || row.ID != a.Rows[i-1].ID {
			text += " " + row.ID
		}
	}
	return text
}

func (a setLink) apply(_ context.Context, m *machine) error {
	return m.deps.Host.SetLink(a.Name, a.Settings)
}
func (a rename) apply(_ context.Context, m *machine) error {
	return m.deps.Host.MoveLink(netdev.Move{Index: a.Index, Name: a.To})
}
func (a addAddr) apply(_ context.Context, m *machine) error {
	return m.deps.Host.ReplaceAddr(a.Link, a.Addr, netdev.AddrOptions{NoDAD: true})
}
func (a deleteAddr) apply(_ context.Context, m *machine) error {
	return m.deps.Host.DeleteAddr(a.Link, a.Addr)
}
func (a addMasquerade) apply(_ context.Context, m *machine) error {
	return m.deps.Host.ReplaceAddr(a.Link, a.Addr, netdev.AddrOptions{NoDAD: true, Deprecated: true})
}
func (a addRoute) apply(_ context.Context, m *machine) error {
	return m.deps.Host.ReplaceRoute(a.Route)
}
func (a deleteRoute) apply(_ context.Context, m *machine) error {
	return m.deps.Host.DeleteRoute(a.Route)
}
func (a pinNeighbor) apply(_ context.Context, m *machine) error {
	return m.deps.Host.ReplaceNeighbor(a.Neighbor)
}
func (a setSysctl) apply(_ context.Context, m *machine) error {
	return m.deps.Host.Sysctl(a.Key, a.Value)
}
func (a save) apply(_ context.Context, m *machine) error {
	return saveCheckpoint(m.cfg.Checkpoint, a.Checkpoint)
}
func (forget) apply(_ context.Context, m *machine) error { return removeCheckpoint(m.cfg.Checkpoint) }

func (a commit) apply(ctx context.Context, m *machine) error { return m.commit(ctx, a) }

func (a awaitPort) apply(ctx context.Context, m *machine) error { return m.awaitPort(ctx, a.Name) }

func (a verify) apply(ctx context.Context, m *machine) error { return m.verify(ctx, a.Probes) }
