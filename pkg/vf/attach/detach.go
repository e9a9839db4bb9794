package attach

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// ErrAway says that a device is on its bus and its netdev nowhere to be seen: a
// namespace that ends takes its time, and one that something holds open does not
// end. The claim stays, and Detach is to be called again.
var ErrAway = errors.New("its netdev is in no namespace that can be seen")

// Detach takes a device out of the pod, makes it what it was, and ends the claim.
// It does nothing to a device that another sandbox holds by now.
func (m *Mover) Detach(ctx context.Context, v vf.Handle, sandbox string) error {
	defer m.lock(v.Device)()
	claim, ok := m.Ledger.Holder(v.Device)
	if !ok || claim.Sandbox != sandbox {
		return nil
	}
	if claim.Phase != ledger.Claimed { // else nothing was changed
		if err := m.Ledger.SetPhase(v.Device, sandbox, ledger.Orphan); err != nil {
			return err
		}
		if err := m.restore(ctx, v, claim); err != nil {
			return fmt.Errorf("detaching %s: %w", v.Device, err)
		}
	}
	return m.Ledger.Release(v.Device, sandbox)
}

func (m *Mover) restore(ctx context.Context, v vf.Handle, claim ledger.Claim) error {
	o := claim.Original
	present, _, err := m.Present(claim.Device)
	if err != nil {
		return err
	}
	if !present {
		return nil // it comes back new
	}
	if err := m.restoreFunctionMAC(v, o); err != nil {
		return err
	}
	if err := m.restoreRDMA(claim); err != nil {
		return err
	}
	if o.Name == "" {
		return nil // it had no netdev
	}
	err = m.takeBack(claim)
	if errors.Is(err, netdev.ErrNotFound) {
		if v.Driver == o.Driver {
			return ErrAway
		}
		return nil // another program has bound it to another driver
	}
	if err != nil {
		return err
	}
	return m.restoreLink(ctx, claim.Device, o)
}

// takeBack takes the netdev out of wherever it is, and gives it its name. If another link has that by now, such as one
// that has come since, the netdev gets the name that the kernel would give it.
func (m *Mover) takeBack(claim ledger.Claim) error {
	err := m.moveToHost(claim, func(netdev.Link) string { return claim.Original.Name })
	if !errors.Is(err, netdev.ErrExists) {
		return err
	}
	m.Log.Warn("former name of this VF is in use", "device", claim.Device, "error", err)
	return m.moveToHost(claim, func(link netdev.Link) string { return fmt.Sprintf("dev%d", link.Index) })
}

// moveToHost leaves a netdev in the host namespace with its old name if the new one is in use.
func (m *Mover) moveToHost(claim ledger.Claim, nameOf func(netdev.Link) string) error {
	link, where, err := m.find(claim)
	if err != nil {
		return err
	}
	defer func() { _ = where.Close() }()
	if err := where.SetAltNames(link.Index, nil); err != nil { // udev keeps the pod's name as one
		return err
	}
	name, mtu := nameOf(link), claim.Original.MTU
	if where.closer == nil && link.Up && link.Name != name { // kernels before 6.2 do not rename it so
		if err := where.SetLink(link.Name, netdev.Settings{State: netdev.Down}); err != nil {
			return err
		}
	}
	if where.closer == nil && link.Name == name && link.MTU == mtu {
		return nil
	}
	return where.MoveLink(netdev.Move{Index: link.Index, Name: name, MTU: mtu})
}

func (m *Mover) restoreLink(ctx context.Context, device string, o *ledger.Original) error {
	link, err := m.inHostNetns(device)
	if err != nil {
		return err
	}
	if o.Ethtool != nil {
		// The pod's settings on a free VF do less harm than a VF that no pod gets.
		if err := insist(ctx, settleEthtool, func() error { return m.Ethtool.SetEthtool(link.Name, *o.Ethtool) }); err != nil {
			m.Log.Warn("ethtool settings that a pod may have changed", "device", device, "error", err)
		}
	}
	set := netdev.Settings{State: netdev.Down, Alias: o.Alias, NoAlias: link.Alias != "" && o.Alias == "", NoFlags: true}
	if o.Up {
		set.State = netdev.Up
	}
	if link.MAC.String() != o.MAC.String() {
		set.MAC = []byte(o.MAC)
	}
	if err := insist(ctx, settle, func() error { return m.Host.SetLink(link.Name, set) }); err != nil {
		return err
	}
	err = m.Host.SetAltNames(link.Index, o.AltNames)
	if errors.Is(err, netdev.ErrExists) { // another link has one of them: the VF is as good without
		m.Log.Warn("further names of this VF that are in use", "device", device, "error", err)
		err = nil
	}
	return err
}

// restoreFunctionMAC comes before the netdev's own: some drivers refuse it else.
func (m *Mover) restoreFunctionMAC(v vf.Handle, o *ledger.Original) error {
	if v.PF == "" && v.Representor == "" {
		return nil
	}
	mac := []byte(o.FunctionMAC)
	if len(mac) == 0 {
		mac = make([]byte, 6) // none
	}
	return m.setFunctionMAC(v, mac)
}

// restoreRDMA runs before the netdev moves, whose events let others look for both. A device that is not in the pod has
// returned with a namespace or was never moved.
func (m *Mover) restoreRDMA(claim ledger.Claim) error {
	if len(claim.Original.RDMA) == 0 {
		return nil
	}
	if exclusive, err := m.Exclusive(); err != nil || !exclusive {
		return err
	}
	for _, path := range m.elsewhere(claim) {
		space, err := m.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, device := range claim.Original.RDMA {
			if moveErr := space.MoveRDMA(device, ""); !errors.Is(moveErr, netdev.ErrNotFound) {
				err = errors.Join(err, moveErr)
			}
		}
		if err = errors.Join(err, space.Close()); err != nil {
			return err
		}
	}
	return nil
}

// NetnsGone reports whether the namespace of a claim is gone, and so its pod's
// sandbox. It is not gone because it cannot be looked at now.
func (m *Mover) NetnsGone(claim ledger.Claim) bool {
	inode, err := m.Inode(claim.NetNS)
	return errors.Is(err, os.ErrNotExist) || err == nil && inode != claim.Inode
}

// ClaimsOf gives the claims of a sandbox's attachment; "" means any.
func (m *Mover) ClaimsOf(sandbox, attachment string) []ledger.Claim {
	return m.Ledger.Where(func(c ledger.Claim) bool {
		return c.Sandbox == sandbox && (attachment == "" || c.AttachmentName() == attachment)
	})
}

// Attached reports whether the device is in the claim's namespace, whole.
func (m *Mover) Attached(claim ledger.Claim) bool {
	if claim.Original == nil || claim.Original.Name == "" {
		return true // nothing that could be seen
	}
	link, where, err := m.find(claim)
	if err != nil {
		return false
	}
	defer func() { _ = where.Close() }()
	return where.pod && link.Name == claim.Interface
}
