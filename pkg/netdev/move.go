package netdev

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Move says where a link is to go and what it is to be there.
type Move struct {
	// Index finds the link: names are for the taking.
	Index int
	// To is the path of a namespace; "" is the process's own.
	To   string
	Name string
	// MAC and MTU stay as they are where they are zero.
	MAC net.HardwareAddr
	MTU int
}

// noKind keeps the kernel from looking for a module of the link's kind, which
// the library always sends.
const noKind = "\x00"

// MoveLink moves, renames and sets a link in one message, so that no listener sees a
// temporary name. The link is down afterwards if it had to move. A name in use in the
// target, also as an altname of the link itself, is ErrExists. After an error it may be there already, with its old name: the
// kernel moves first.
func (n *NS) MoveLink(m Move) error {
	to, err := target(m.To)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	attrs := netlink.NewLinkAttrs()
	attrs.Index, attrs.Name, attrs.MTU, attrs.HardwareAddr = m.Index, m.Name, m.MTU, m.MAC
	attrs.Namespace = netlink.NsFd(to)
	err = n.handle.LinkModify(&netlink.GenericLink{LinkAttrs: attrs, LinkType: noKind})
	switch {
	case errors.Is(err, os.ErrExist):
		err = ErrExists
	case errors.Is(err, unix.ENODEV):
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("moving link %d to namespace %q as %s: %w", m.Index, m.To, m.Name, err)
	}
	return nil
}

// target opens the namespace at a path; "" is the process's own.
func target(path string) (netns.NsHandle, error) {
	ns, err := netns.GetFromPath(cmp.Or(path, ownPath))
	if err != nil {
		return ns, fmt.Errorf("opening namespace %s: %w", path, err)
	}
	return ns, nil
}

// SetAltNames makes these the link's further names. Such a name that another
// link has would keep the link from ever moving.
func (n *NS) SetAltNames(index int, names []string) error {
	l, err := n.handle.LinkByIndex(index)
	if err != nil {
		return fmt.Errorf("further names of link %d: %w", index, err)
	}
	for _, name := range l.Attrs().AltNames {
		if !slices.Contains(names, name) {
			if err := n.handle.LinkDelAltName(l, name); err != nil {
				return fmt.Errorf("taking name %s from link %s: %w", name, l.Attrs().Name, err)
			}
		}
	}
	for _, name := range names {
		if !slices.Contains(l.Attrs().AltNames, name) {
			err := n.handle.LinkAddAltName(l, name)
			if errors.Is(err, os.ErrExist) {
				err = ErrExists
			}
			if err != nil {
				return fmt.Errorf("giving name %s to link %s: %w", name, l.Attrs().Name, err)
			}
		}
	}
	return nil
}

// Inode tells one namespace from the next one at the same path.
func Inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("namespace %s: %w", path, err)
	}
	return st.Ino, nil
}

// MoveRDMA takes an RDMA device from the namespace of n to another one, in
// exclusive mode. ErrNotFound says that n does not have it.
func (n *NS) MoveRDMA(device, to string) error {
	ns, err := target(to)
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	handle, err := openHandle(n.ns, unix.NETLINK_RDMA)
	if err != nil {
		return fmt.Errorf("opening RDMA netlink: %w", err)
	}
	defer func() { _ = handle.Close() }()
	links, err := retryDump(handle.RdmaLinkList)
	if err != nil {
		return fmt.Errorf("listing RDMA devices: %w", err)
	}
	i := slices.IndexFunc(links, func(l *netlink.RdmaLink) bool { return l.Attrs.Name == device })
	if i < 0 {
		return fmt.Errorf("RDMA device %s: %w", device, ErrNotFound)
	}
	if err := handle.RdmaLinkSetNsFd(links[i], uint32(ns)); err != nil {
		return fmt.Errorf("moving RDMA device %s to namespace %q: %w", device, to, err)
	}
	return nil
}
