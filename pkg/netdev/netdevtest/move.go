package netdevtest

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// MoveLink is NS.MoveLink.
func (n *FakeNS) MoveLink(m netdev.Move) error {
	return n.fake.do(n.path, "MoveLink", m.Name, func(s *fakeSpace) error {
		l := s.byIndex(m.Index)
		to := n.fake.spaces[m.To]
		switch {
		case to == nil:
			return fmt.Errorf("opening namespace %s: %w", m.To, os.ErrNotExist)
		case l == nil:
			return fmt.Errorf("moving link %d: %w", m.Index, netdev.ErrNotFound)
		case slices.ContainsFunc(l.AltNames, func(name string) bool { return to.nameInUse(name, l) }),
			to.nameInUse(l.Name, l) && to.nameInUse(m.Name, l):
			return fmt.Errorf("moving link %d to namespace %q as %s: %w", m.Index, m.To, m.Name, netdev.ErrExists)
		case to.nameInUse(m.Name, l) || slices.Contains(l.AltNames, m.Name):
			n.fake.move(l, to, l.Name)
			return fmt.Errorf("moving link %d to namespace %q as %s: %w", m.Index, m.To, m.Name, netdev.ErrExists)
		case l.space == to && l.Up && l.Name != m.Name: // as kernels before 6.2
			return fmt.Errorf("renaming link %d to %s: %w", m.Index, m.Name, unix.EBUSY)
		}
		n.fake.move(l, to, m.Name)
		l.MTU = cmp.Or(m.MTU, l.MTU)
		if m.MAC != nil {
			l.MAC = slices.Clone(m.MAC)
		}
		return nil
	})
}

// SetAltNames is NS.SetAltNames.
func (n *FakeNS) SetAltNames(index int, names []string) error {
	return n.fake.do(n.path, "SetAltNames", "", func(s *fakeSpace) error {
		l := s.byIndex(index)
		if l == nil {
			return fmt.Errorf("further names of link %d: %w", index, netdev.ErrNotFound)
		}
		l.AltNames = nil
		for _, name := range names {
			if s.nameInUse(name, l) {
				return fmt.Errorf("giving name %s to link %s: %w", name, l.Name, netdev.ErrExists)
			}
			l.AltNames = append(l.AltNames, name)
		}
		return nil
	})
}

// MoveRDMA is NS.MoveRDMA.
func (n *FakeNS) MoveRDMA(device, to string) error {
	return n.fake.do(n.path, "MoveRDMA", device, func(*fakeSpace) error {
		if n.fake.rdma[device] != n.path {
			return fmt.Errorf("RDMA device %s: %w", device, netdev.ErrNotFound)
		}
		n.fake.rdma[device] = to
		return nil
	})
}

// AddRDMA puts an RDMA device into a namespace; RDMAIn says where one is.
func (f *Fake) AddRDMA(path, device string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rdma[device] = path
}

// RDMAIn gives the namespace of an RDMA device.
func (f *Fake) RDMAIn(device string) (path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rdma[device]
}

// SetVFMAC is Devices.SetVFMAC; the PF must be there.
func (n *FakeNS) SetVFMAC(pf string, vf int, mac net.HardwareAddr) error {
	return n.fake.onLink(n.path, "SetVFMAC", pf, func(*fakeLink) error {
		n.fake.vfMACs[fmt.Sprintf("%s/%d", pf, vf)] = slices.Clone(mac)
		return nil
	})
}

// SetFunctionMAC is Devices.SetFunctionMAC; the representor must be there.
func (n *FakeNS) SetFunctionMAC(representor string, mac net.HardwareAddr) error {
	return n.fake.onLink(n.path, "SetFunctionMAC", representor, func(*fakeLink) error {
		n.fake.vfMACs[representor] = slices.Clone(mac)
		return nil
	})
}

// FunctionMAC is Devices.FunctionMAC.
func (n *FakeNS) FunctionMAC(representor string) (net.HardwareAddr, error) {
	var mac net.HardwareAddr
	err := n.fake.onLink(n.path, "FunctionMAC", representor, func(*fakeLink) error {
		mac = slices.Clone(n.fake.vfMACs[representor])
		return nil
	})
	return mac, err
}

// FunctionMAC gives what SetFunctionMAC has set.
func (f *Fake) FunctionMAC(representor string) net.HardwareAddr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.vfMACs[representor]
}

// VFMAC gives what SetVFMAC has set.
func (f *Fake) VFMAC(pf string, vf int) net.HardwareAddr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.vfMACs[fmt.Sprintf("%s/%d", pf, vf)]
}

// Ethtool is Devices.Ethtool: what SetEthtool has set.
func (n *FakeNS) Ethtool(link string) (e netdev.Ethtool, err error) {
	err = n.fake.onLink(n.path, "Ethtool", link, func(l *fakeLink) error { e = l.ethtool.Clone(); return nil })
	return e, err
}

// SetEthtool is Devices.SetEthtool.
func (n *FakeNS) SetEthtool(link string, want netdev.Ethtool) error {
	return n.fake.onLink(n.path, "SetEthtool", link, func(l *fakeLink) error {
		want = want.Clone()
		l.ethtool.Rings = cmp.Or(want.Rings, l.ethtool.Rings)
		l.ethtool.Channels = cmp.Or(want.Channels, l.ethtool.Channels)
		if want.Features != nil {
			l.ethtool.Features = want.Features
		}
		return nil
	})
}

// Inode is netdev.Inode.
func (f *Fake) Inode(path string) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	space := f.spaces[path]
	if space == nil {
		return 0, fmt.Errorf("namespace %s: %w", path, os.ErrNotExist)
	}
	return space.inode, nil
}

// RemoveDevice removes a device's link from whichever namespace has it, as when its driver
// goes.
func (f *Fake) RemoveDevice(parent string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, space := range f.spaces {
		for _, l := range slices.Clone(space.links) {
			if l.Parent == parent {
				f.remove(l)
			}
		}
	}
}

// move takes from a link what the kernel does when it changes namespace.
func (f *Fake) move(l *fakeLink, to *fakeSpace, name string) {
	from := l.space
	if from != to {
		from.links = slices.DeleteFunc(from.links, func(x *fakeLink) bool { return x == l })
		from.routes = slices.DeleteFunc(from.routes, func(r netdev.Route) bool { return r.Link == l.Name })
		from.tell(netdev.Event{Kind: netdev.LinkEvent, Link: l.Name, Index: l.Index, Gone: true})
		l.addrs, l.neighbors, l.Up, l.Carrier = nil, nil, false, false
		l.space = to
		to.links = append(to.links, l)
	}
	l.Name = name
	to.tell(netdev.Event{Kind: netdev.LinkEvent, Link: l.Name, Index: l.Index})
}

func (s *fakeSpace) byIndex(index int) *fakeLink {
	for _, l := range s.links {
		if l.Index == index {
			return l
		}
	}
	return nil
}

// nameInUse reports whether another link than this one has the name.
func (s *fakeSpace) nameInUse(name string, but *fakeLink) bool {
	return slices.ContainsFunc(s.links, func(l *fakeLink) bool {
		return l != but && (l.Name == name || slices.Contains(l.AltNames, name))
	})
}
