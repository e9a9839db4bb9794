package plug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// DB is the node's Open_vSwitch database; *ovsdb.DB is one.
type DB interface {
	Commit(ctx context.Context, wants ...ovsdb.Want) (ovsdb.Result, error)
	WaitRow(ctx context.Context, table, owner, id string, ok func(row any) bool) error
	Owners() []string
	Rows(owner string) []ovsdb.Row
	Generation() uint64
}

// OVS is the Plugger of a machine that has the integration bridge itself.
type OVS struct {
	DB DB
	// Bridge is OVN's integration bridge.
	Bridge string
	// Host has the representors; it is needed for ports with devices only.
	Host Links
	// Functions sets, on a DPU, the MAC that the driver of a function will find; nil
	// where the machine that has the function does it.
	Functions FunctionMACs
	// Boot is the machine's boot id. Of a row of a former boot, the flows are gone; "" asks for none.
	Boot string
}

// Links is what is needed of a network namespace; *netdev.NS is one.
type Links interface {
	Link(name string) (netdev.Link, error)
	SetLink(name string, s netdev.Settings) error
}

// FunctionMACs is the switch's side of functions, by their representors;
// *devlink.Devices is one.
type FunctionMACs interface {
	FunctionMAC(representor string) (net.HardwareAddr, error)
	SetFunctionMAC(representor string, mac net.HardwareAddr) error
}

// Ready says why no port can be plugged now.
func (o *OVS) Ready() error {
	if o.DB.Generation() == 0 {
		return errors.New("the Open_vSwitch database is not connected")
	}
	return nil
}

// Plug adds the port's rows. A representor gets its MTU after it has become a
// port, and comes up last: then nothing of the last pod's is left of it.
func (o *OVS) Plug(ctx context.Context, p Port) (link string, err error) {
	if p.VF != nil {
		if p.VF.Representor == "" {
			return "", cmp.Or(p.VF.Problem, fmt.Errorf("VF %s has no representor", p.VF.Device))
		}
		p.Link = p.VF.Representor
		if err := o.evict(ctx, p); err != nil {
			return "", err
		}
	}
	want := wanted(p, o.Bridge, o.Boot)
	representor, err := o.recordMAC(p, want)
	if err != nil {
		return "", err
	}
	if now, ok := find(o.DB, p.Pod); ok && now.boot != "" && now.boot != o.Boot {
		// ovn-controller says of a new row only when its flows are there.
		if err := commit(ctx, o.DB, ovsdb.Want{Owner: p.Pod.String()}); err != nil {
			return "", fmt.Errorf("removing port %s of a former boot: %w", now.Link, err)
		}
	}
	if err := commit(ctx, o.DB, want); err != nil {
		return "", fmt.Errorf("adding port %s to %s: %w", p.Link, o.Bridge, err)
	}
	if p.VF != nil {
		err = o.raise(p, representor)
	}
	return p.Link, err
}

// raise sets a port's representor up. On a DPU its function has the pod's MAC first; a
// representor that is up was given its MAC before. So one that the NIC has replaced
// meanwhile, as in a reset, goes down again for the next try.
func (o *OVS) raise(p Port, was netdev.Link) error {
	if o.Functions != nil && !was.Up {
		if err := o.Functions.SetFunctionMAC(p.Link, p.MAC); err != nil && p.VF.VFIO { // a netdev takes the MAC by itself
			return err
		}
	}
	err := o.Host.SetLink(p.Link, netdev.Settings{MTU: p.MTU, NoLinkLocal: true, NoARP: true, State: netdev.Up})
	if err != nil || o.Functions == nil {
		return err
	}
	now, err := o.Host.Link(p.Link)
	if err == nil && now.Index != was.Index {
		err = errors.Join(fmt.Errorf("the NIC has replaced representor %s", p.Link), o.Host.SetLink(p.Link, netdev.Settings{State: netdev.Down}))
	}
	return err
}

// evict removes a port that another pod has on the representor: whoever has the
// device has the representor.
func (o *OVS) evict(ctx context.Context, p Port) error {
	ports, err := o.Plugged()
	if err != nil {
		return err
	}
	for _, other := range ports {
		if other.Link == p.Link && other.Pod != p.Pod {
			if err := o.Unplug(ctx, other); err != nil {
				return err
			}
		}
	}
	return nil
}

// Wait waits for ovn-controller.
func (o *OVS) Wait(ctx context.Context, p Port) error {
	var last *ovsPort
	err := o.DB.WaitRow(ctx, "Interface", p.Pod.String(), p.Link, func(row any) bool {
		iface, ok := row.(*vswitch.Interface)
		if !ok {
			return false
		}
		now := fromInterface(p.Pod, iface)
		last = &now
		return now.flows && now.UID == p.UID || now.problem != ""
	})
	if err == nil && last != nil && last.problem != "" {
		return fmt.Errorf("ovs-vswitchd: %s", last.problem)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.lacking(p.Pod), err)
	}
	return nil
}

// lacking says what Wait waits for.
func (o *OVS) lacking(pod contract.Owner) string {
	switch now, ok := find(o.DB, pod); {
	case !ok:
		return "its Interface row is gone"
	case !now.open:
		return "ovs-vswitchd has not opened " + now.Link
	}
	return "ovn-controller has not set " + installedKey
}

// Check looks into the rows only.
func (o *OVS) Check(p Plugged) error {
	switch now, ok := find(o.DB, p.Pod); {
	case !ok:
		return errors.New("its Interface row is gone")
	case now.problem != "":
		return fmt.Errorf("ovs-vswitchd: %s", now.problem)
	case !now.flows:
		return fmt.Errorf("ovn-controller has not set %s", installedKey)
	}
	return nil
}

// Unplug removes the port's rows. A representor goes down first, and is not
// there where its NIC is not.
func (o *OVS) Unplug(ctx context.Context, p Plugged) error {
	now, ok := find(o.DB, p.Pod)
	if !ok || now.Sandbox != p.Sandbox {
		return nil
	}
	if now.Representor {
		err := o.Host.SetLink(now.Link, netdev.Settings{State: netdev.Down})
		if err != nil && !errors.Is(err, netdev.ErrNotFound) {
			return fmt.Errorf("removing the port of %s: %w", p.Pod, err)
		}
		if err := o.restoreMAC(now); err != nil {
			return fmt.Errorf("removing the port of %s: %w", p.Pod, err)
		}
	}
	if err := commit(ctx, o.DB, ovsdb.Want{Owner: p.Pod.String()}); err != nil {
		return fmt.Errorf("removing the port of %s: %w", p.Pod, err)
	}
	return nil
}

// Plugged reads the replica of the database. A replica that goes away while it
// is read would show a part of the ports.
func (o *OVS) Plugged(pods ...contract.Owner) ([]Plugged, error) {
	generation := o.DB.Generation()
	if err := o.Ready(); err != nil {
		return nil, err
	}
	var list []Plugged
	for _, pod := range podsOf(o.DB, pods...) {
		if p, ok := find(o.DB, pod); ok {
			list = append(list, p.Plugged)
		}
	}
	if o.DB.Generation() != generation {
		return nil, errors.New("the Open_vSwitch database went away meanwhile")
	}
	return list, nil
}
