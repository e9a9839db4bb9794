package netdev

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrNotFound says that there is no such link.
var ErrNotFound = errors.New("no such link")

// ErrExists says that another link has the name.
var ErrExists = errors.New("link exists")

// MaxName is the longest name that a link can have.
const MaxName = unix.IFNAMSIZ - 1

// Link is what the kernel says of one network device.
type Link struct {
	Name  string
	Index int
	// Type is the kernel's kind: veth, bridge, tun, openvswitch; "device" for hardware.
	Type string
	MAC  net.HardwareAddr
	// PermanentMAC is the hardware's own, nil where it has none.
	PermanentMAC net.HardwareAddr
	MTU          int
	// Up is the administrative state, Carrier the operational one.
	Up, Carrier bool
	// NoARP says that the kernel answers no ARP request that comes in here.
	NoARP bool
	// Alias is free text of at most 255 bytes; we mark our links with it.
	Alias string
	// Master is the index of the bridge or bond that the link is a port of, or 0.
	Master int
	// Lower is the index of the link under a VLAN, or 0.
	Lower int
	// VLAN is the id of a VLAN, or 0.
	VLAN int
	// AltNames are further names that the link can be found by.
	AltNames []string
	// Parent is the device on its bus, such as a PCI address; "" of a link that software has made, and in kernels
	// before 5.14.
	Parent string
	// LACP is nil of a link that is neither a bond nor the port of one.
	LACP *LACP
}

// Veth asks for a pair of links. MTU goes to both ends; Near is for the near one, whose MAC is the kernel's choice.
type Veth struct {
	Name, Alias string
	MTU         int
	Peer        Peer
	Near        Settings
}

// Peer is the far end of a pair: it is made inside the namespace at Path and never appears in another one.
type Peer struct {
	Path string // "": the same namespace
	Name string
	MAC  net.HardwareAddr
}

// State is an administrative state to set.
type State int

// The states; the zero value leaves the link as it is.
const (
	Keep State = iota
	Up
	Down
)

// AliasPrefix begins each alias that the agent gives a link.
const AliasPrefix = "ovn-offload "

// Settings are the attributes of a link to set; zero values are left alone.
type Settings struct {
	MTU   int
	MAC   net.HardwareAddr
	Alias string
	// NoAlias removes the alias.
	NoAlias bool
	// NoLinkLocal keeps the kernel from making an IPv6 link-local address, and so from sending anything by itself;
	// effective before the link goes up.
	NoLinkLocal bool
	// NoARP keeps the kernel from answering here for addresses that it has on other links, as it does otherwise.
	NoARP bool
	// NoFlags clears NOARP, PROMISC and ALLMULTI, which go along with a link into another namespace.
	NoFlags bool
	State   State
	// Bond makes the link a port of a bond, which sets it up. The link has to be down.
	Bond string
	// NoMaster takes the link out of its bond or bridge.
	NoMaster bool
}

// Link finds a link by name; ErrNotFound when it is absent.
func (n *NS) Link(name string) (Link, error) {
	l, err := find(n, name)
	if err != nil {
		return Link{}, err
	}
	return fromNetlink(l), nil
}

// Links lists all links of the namespace.
func (n *NS) Links() ([]Link, error) {
	links, err := retryDump(n.dumpLinks)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	return links, nil
}

// dumpLinks is the library's LinkList without the VFs of each PF, on a socket of its own: an ADD lists no links.
func (n *NS) dumpLinks() ([]Link, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	answers, err := n.RouteRequest(request, unix.RTM_NEWLINK)
	if err != nil {
		return nil, err
	}
	links := make([]Link, len(answers))
	for i, answer := range answers {
		l, err := netlink.LinkDeserialize(nil, answer)
		if err != nil {
			return nil, err
		}
		links[i] = fromNetlink(l)
	}
	return links, nil
}

// AddVeth makes a pair with both ends named and addressed, in one message; alias and settings come after it, for the
// kernel ignores them in a new link. A name in use at either end is ErrExists. A pair without its settings is removed.
func (n *NS) AddVeth(v Veth) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = v.Name, v.MTU
	link := netlink.NewVeth(attrs)
	link.PeerName, link.PeerHardwareAddr = v.Peer.Name, v.Peer.MAC
	if v.Peer.Path != "" {
		peer, err := netns.GetFromPath(v.Peer.Path)
		if err != nil {
			return fmt.Errorf("opening namespace %s: %w", v.Peer.Path, err)
		}
		defer func() { _ = peer.Close() }()
		link.PeerNamespace = netlink.NsFd(peer)
	}
	err := n.handle.LinkAdd(link)
	if errors.Is(err, os.ErrExist) {
		err = ErrExists
	}
	if err != nil {
		return fmt.Errorf("adding veth %s with peer %s: %w", v.Name, v.Peer.Name, err)
	}
	v.Near.Alias = v.Alias
	if err := set(link, n, v.Near); err != nil {
		return errors.Join(err, n.DeleteLink(v.Name))
	}
	return nil
}

// SetLink applies the settings in the order master, MTU, MAC, alias, link-local, ARP, state, bond.
func (n *NS) SetLink(name string, s Settings) error {
	l, err := find(n, name)
	if err != nil {
		return err
	}
	return set(l, n, s)
}

// set is SetLink of a link that has its index.
func set(l netlink.Link, n *NS, s Settings) error {
	h := n.handle
	steps := []struct {
		what string
		do   bool
		set  func() error
	}{
		{"no master", s.NoMaster, func() error { return n.handle.LinkSetNoMaster(l) }},
		{"MTU", s.MTU != 0, func() error { return n.handle.LinkSetMTU(l, s.MTU) }},
		{"MAC", s.MAC != nil, func() error { return n.handle.LinkSetHardwareAddr(l, s.MAC) }},
		{"alias", s.Alias != "" || s.NoAlias, func() error { return n.handle.LinkSetAlias(l, s.Alias) }},
		{"IPv6 address mode", s.NoLinkLocal, func() error { return noLinkLocal(n, l) }},
		{"flags", s.NoFlags, func() error { return errors.Join(h.LinkSetARPOn(l), h.SetPromiscOff(l), h.LinkSetAllmulticastOff(l)) }},
		{"ARP", s.NoARP, func() error { return n.handle.LinkSetARPOff(l) }},
		{"state up", s.State == Up, func() error { return n.handle.LinkSetUp(l) }},
		{"state down", s.State == Down, func() error { return n.handle.LinkSetDown(l) }},
		{"bond", s.Bond != "", func() error { return n.joinBond(l, s.Bond) }},
	}
	for _, step := range steps {
		if !step.do {
			continue
		}
		if err := step.set(); err != nil {
			return fmt.Errorf("setting %s of link %s: %w", step.what, l.Attrs().Name, err)
		}
	}
	return nil
}

func (n *NS) joinBond(l netlink.Link, bond string) error {
	master, err := find(n, bond)
	if err != nil {
		return err
	}
	return n.handle.LinkSetMasterByIndex(l, master.Attrs().Index)
}

// DeleteLink removes a link and, of a pair, its peer; absent is fine.
func (n *NS) DeleteLink(name string) error {
	l, err := find(n, name)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = n.handle.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("deleting link %s: %w", name, err)
	}
	return nil
}

func find(n *NS, name string) (netlink.Link, error) {
	l, err := n.handle.LinkByName(name)
	var absent netlink.LinkNotFoundError
	if errors.As(err, &absent) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	return l, nil
}

// noLinkLocal tolerates a kernel without IPv6, which has nothing to disable.
func noLinkLocal(n *NS, l netlink.Link) error {
	const inet6AddrGenModeNone = 1
	err := n.handle.LinkSetIP6AddrGenMode(l, inet6AddrGenModeNone)
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

func fromNetlink(l netlink.Link) Link {
	a := l.Attrs()
	return Link{
		Name:         a.Name,
		Index:        a.Index,
		Type:         l.Type(),
		MAC:          a.HardwareAddr,
		PermanentMAC: a.PermHWAddr,
		MTU:          a.MTU,
		Up:           a.Flags&net.FlagUp != 0,
		Carrier:      a.RawFlags&unix.IFF_RUNNING != 0,
		NoARP:        a.RawFlags&unix.IFF_NOARP != 0,
		Alias:        a.Alias,
		Master:       a.MasterIndex,
		Lower:        lower(l),
		VLAN:         vlan(l),

		AltNames: a.AltNames,
		Parent:   a.ParentDev,
		LACP:     lacp(l),
	}
}

// lower leaves out the links whose other end the kernel gives in the same place.
func lower(l netlink.Link) int {
	if l.Type() != "vlan" {
		return 0
	}
	return l.Attrs().ParentIndex
}

func vlan(l netlink.Link) int {
	if v, ok := l.(*netlink.Vlan); ok {
		return v.VlanId
	}
	return 0
}

// retryDump repeats a listing that the kernel says was changed underneath.
func retryDump[T any](dump func() ([]T, error)) ([]T, error) {
	var list []T
	var err error
	for range 5 {
		if list, err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}
