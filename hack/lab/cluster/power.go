package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

// bootRecords are files in which our daemons keep the boot id of the kernel. The kernel of a lab does not boot with
// its machines, so a machine that is switched on finds another id there.
func bootRecords() []string {
	return []string{"/etc/openvswitch/boot-id", "/var/lib/ovn-offload/devices/.boot"}
}

// PowerOff ends a node as when its power is cut: its link goes first, so that its connections do not end for their peers.
// Its disk stays.
func (l *Lab) PowerOff(name string) error {
	m, err := l.find(name)
	if err != nil {
		return err
	}
	if err := l.isNode(name); err != nil {
		return err
	}
	hub, err := l.find(fabric)
	if err != nil {
		return err
	}
	if err := l.unplug(hub, name); err != nil {
		return fmt.Errorf("taking %s off the fabric: %w", name, err)
	}
	if err := m.Kill(); err != nil {
		return err
	}
	return machine.RemoveCgroups(l.cfg.Name, name)
}

// PowerOn starts a node that was switched off; the node boots with its disk. With moved, one of each family, a node with
// systemd has these addresses from now on.
func (l *Lab) PowerOn(ctx context.Context, name string, moved ...netip.Addr) error {
	if err := l.isOff(name); err != nil {
		return err
	}
	if err := l.move(name, moved); err != nil {
		return err
	}
	hub, err := l.find(fabric)
	if err != nil {
		return err
	}
	ca, err := openAuthority(l.path("pki"))
	if err != nil {
		return err
	}
	if err := l.readFingerprints(); err != nil {
		return err
	}
	if err := l.unpackImages(ctx); err != nil { // of a disk that was erased
		return err
	}
	if l.cfg.isVM(name) {
		return l.startVM(name, hub, ca)
	}
	if err := l.forgetBoot(name); err != nil {
		return err
	}
	m, err := l.start(name, ca)
	if err != nil {
		return err
	}
	if err := l.plug(hub, []*machine.Machine{m}); err != nil {
		return err
	}
	if err := l.writeAccess(ca); err != nil {
		return err
	}
	return l.serve(ctx, m)
}

// Erase empties the disk of a node that is off, or one directory of the disk.
func (l *Lab) Erase(name, directory string) error {
	if err := l.isOff(name); err != nil {
		return err
	}
	if l.cfg.ControlPlanes == 1 && slices.Contains(l.cfg.ControlNodes(), name) {
		return fmt.Errorf("erasing %s: its disk is the only one with the cluster's state", name)
	}
	spec := l.spec(name)
	if l.cfg.hasSystemd(name) {
		if directory == "" {
			return os.RemoveAll(spec.Disk())
		}
		return spec.Erase(directory)
	}
	upper := spec.Upper()
	if directory != "" {
		return os.RemoveAll(filepath.Join(upper, filepath.Join("/", directory)))
	}
	// PowerOn unpacks images for a node that has none.
	return errors.Join(os.RemoveAll(l.imported(name)), os.RemoveAll(upper), os.RemoveAll(l.path("machines", name, "snapshots")))
}

// move gives a node with systemd other addresses, of which its kubelet has a certificate.
func (l *Lab) move(name string, addrs []netip.Addr) error {
	if len(addrs) == 0 {
		return nil
	}
	if !l.cfg.hasSystemd(name) || len(addrs) != len(l.cfg.Subnets) {
		return fmt.Errorf("moving %s to %v: want a node with systemd, and %d addresses", name, addrs, len(l.cfg.Subnets))
	}
	if l.cfg.Moved == nil {
		l.cfg.Moved = map[string][]netip.Addr{}
	}
	l.cfg.Moved[name] = addrs
	if err := os.RemoveAll(filepath.Join(l.spec(name).Config(), "kubelet.crt")); err != nil {
		return err
	}
	return l.writeState()
}

func (l *Lab) isNode(name string) error {
	if !slices.Contains(l.cfg.NodeNames(), name) {
		return fmt.Errorf("%s is no node; there are %v", name, l.cfg.NodeNames())
	}
	return nil
}

func (l *Lab) isOff(name string) error {
	if err := l.isNode(name); err != nil {
		return err
	}
	m, err := machine.Find(l.cfg.Name, name)
	if err == nil && m != nil {
		err = fmt.Errorf("%s is on", name)
	}
	return err
}

func (l *Lab) forgetBoot(name string) error {
	for _, record := range bootRecords() {
		path := filepath.Join(l.spec(name).Upper(), record)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := os.WriteFile(path, []byte("before the power was cut\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// unplug takes a machine's link off the fabric. The link of a VM ends with the VM.
func (l *Lab) unplug(hub *machine.Machine, name string) error {
	return inside(hub, func(handle *netlink.Handle, _ netns.NsHandle) error {
		if l.cfg.isVM(name) {
			link, err := handle.LinkByName(name)
			if err != nil {
				return err
			}
			return handle.LinkSetDown(link)
		}
		link, err := handle.LinkByName(l.portOf(name))
		if err != nil {
			return err
		}
		return handle.LinkDel(link)
	})
}
