package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// Links is what is needed of a namespace; *netdev.NS has it.
type Links interface {
	finder
	MoveLink(m netdev.Move) error
	SetLink(name string, s netdev.Settings) error
	SetAltNames(index int, names []string) error
	MoveRDMA(device, to string) error
}

type finder interface {
	Link(name string) (netdev.Link, error)
	Links() ([]netdev.Link, error)
}

// Netns is an open network namespace.
type Netns interface {
	Links
	io.Closer
}

// PF sets the MAC that a VF's driver will find; *devlink.Devices does it. Some
// drivers take it from the PF's link, some from the devlink port of the
// representor, which tells it as well.
type PF interface {
	FunctionMAC(representor string) (net.HardwareAddr, error)
	SetVFMAC(pf string, vf int, mac net.HardwareAddr) error
	SetFunctionMAC(representor string, mac net.HardwareAddr) error
}

// Ethtool reads and sets what ethtool(8) changes of a link in the node's namespace;
// *netdev.Devices does it.
type Ethtool interface {
	Ethtool(link string) (netdev.Ethtool, error)
	SetEthtool(link string, want netdev.Ethtool) error
}

// Deps is what a Mover acts on.
type Deps struct {
	Ledger *ledger.Ledger
	Host   Links
	// PF is nil on a host whose DPU sets the MAC.
	PF      PF
	Ethtool Ethtool
	Open    func(path string) (Netns, error)
	// Inode is netdev.Inode.
	Inode func(path string) (uint64, error)
	// Present says whether the device is on its bus, and which netdevs it has in
	// the node's namespace.
	Present func(device string) (present bool, netdevs []string, err error)
	// Use says what the node itself does with the device, "" for nothing.
	Use func(device string) (string, error)
	// RDMA gives the device's RDMA devices in the node's namespace.
	RDMA func(device string) ([]string, error)
	// Exclusive says whether each namespace has RDMA devices of its own.
	Exclusive func() (bool, error)
	// Strays are namespaces to which the kernel takes the netdevs of one that
	// ends, where that is not the node's.
	Strays []string
	Log    *slog.Logger
}

// Mover is safe for concurrent use.
type Mover struct {
	Deps
	mu    sync.Mutex
	locks map[string]*sync.Mutex // by device
}

// Target is what the netdev is to be in the pod.
type Target struct {
	Name string
	MAC  net.HardwareAddr
	MTU  int
}

const (
	// settle is how long a driver may take to let a MAC be set: iavf starts anew
	// when the PF has set one, and waits for its PF for 2.5 s in each try.
	settle = 10 * time.Second
	// settleEthtool is for settings that many drivers refuse for good.
	settleEthtool = 2 * time.Second
	pause         = 100 * time.Millisecond
)

// New makes a Mover.
func New(d Deps) *Mover { return &Mover{Deps: d, locks: map[string]*sync.Mutex{}} }

func (m *Mover) lock(device string) (unlock func()) {
	m.mu.Lock()
	l := m.locks[device]
	if l == nil {
		l = &sync.Mutex{}
		m.locks[device] = l
	}
	m.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// Prepare records what the device is like and that it is about to change. The
// claim must be there.
func (m *Mover) Prepare(v vf.Handle, sandbox string) (ledger.Original, error) {
	defer m.lock(v.Device)()
	claim, ok := m.Ledger.Holder(v.Device)
	if !ok || claim.Sandbox != sandbox {
		return ledger.Original{}, fmt.Errorf("preparing %s: %w", v.Device, ledger.ErrNotHeld)
	}
	var o ledger.Original
	if claim.Original == nil {
		var err error
		if o, err = m.look(v); err != nil {
			return o, fmt.Errorf("preparing %s: %w", v.Device, err)
		}
	}
	return m.Ledger.Begin(v.Device, sandbox, o)
}

// look asks the kernel: an inventory may be of the time when the last pod had the
// device, and what it says of that would be taken for the device's own.
func (m *Mover) look(v vf.Handle) (o ledger.Original, err error) {
	o.Driver = v.Driver
	if o.RDMA, err = m.RDMA(v.Device); err != nil {
		return o, err
	}
	if v.Representor != "" && m.PF != nil {
		mac, err := m.PF.FunctionMAC(v.Representor)
		if err != nil {
			return o, err
		}
		o.FunctionMAC = vf.MAC(mac)
	}
	if v.VFIO {
		return o, nil
	}
	link, err := m.inHostNetns(v.Device)
	if err != nil {
		return o, err
	}
	use, err := m.Use(v.Device)
	if err == nil && use != "" {
		err = fmt.Errorf("the node uses it: %s", use)
	}
	if err != nil {
		return o, err
	}
	o.Name, o.MAC, o.MTU, o.Up, o.AltNames = link.Name, vf.MAC(link.MAC), link.MTU, link.Up, link.AltNames
	if !strings.HasPrefix(link.Alias, netdev.AliasPrefix) { // a VF for pods has no alias of the agent: a pod has given it this one
		o.Alias = link.Alias
	}
	settings, err := m.Ethtool.Ethtool(link.Name)
	if err != nil { // most drivers have a part of the settings only
		m.Log.Debug("ethtool settings that are not known", "device", v.Device, "error", err)
	}
	o.Ethtool = &settings
	return o, nil
}

// Attach takes a prepared device to where its claim says. Addresses and the state
// are the caller's.
func (m *Mover) Attach(ctx context.Context, v vf.Handle, sandbox string, t Target) error {
	defer m.lock(v.Device)()
	claim, ok := m.Ledger.Holder(v.Device)
	if !ok || claim.Sandbox != sandbox || claim.Original == nil {
		return fmt.Errorf("attaching %s: %w", v.Device, ledger.ErrNotHeld)
	}
	if inode, err := m.Inode(claim.NetNS); err != nil || inode != claim.Inode {
		return fmt.Errorf("attaching %s: its namespace %s is gone", v.Device, claim.NetNS)
	}
	if err := m.setFunctionMAC(v, t.MAC); err != nil {
		return fmt.Errorf("attaching %s: %w", v.Device, err)
	}
	if v.VFIO {
		return nil
	}
	if err := m.moveIn(ctx, claim, t); err != nil {
		return fmt.Errorf("attaching %s: %w", v.Device, err)
	}
	exclusive, err := m.Exclusive()
	if err == nil && exclusive {
		err = m.moveRDMA(claim) // after the netdev, and so without its events
	}
	if err != nil {
		return fmt.Errorf("attaching %s: %w", v.Device, err)
	}
	return nil
}

// moveRDMA moves what is in the host namespace. An earlier try has moved the rest.
func (m *Mover) moveRDMA(claim ledger.Claim) error {
	devices, err := m.RDMA(claim.Device)
	for _, device := range devices {
		err = errors.Join(err, m.Host.MoveRDMA(device, claim.NetNS))
	}
	return err
}

// setFunctionMAC lets a driver that starts later, such as a guest's, find the
// MAC. A netdev has one of its own, so that a refusal matters with VFIO only.
func (m *Mover) setFunctionMAC(v vf.Handle, mac net.HardwareAddr) error {
	if m.PF == nil {
		return nil
	}
	err := errors.New("its MAC cannot be set: neither the netdev of its PF nor its representor is in this namespace")
	if v.PF != "" {
		err = m.PF.SetVFMAC(v.PF, int(v.Function.Number), mac)
	}
	if err != nil && v.Representor != "" {
		err = m.PF.SetFunctionMAC(v.Representor, mac)
	}
	if err != nil && !v.VFIO {
		m.Log.Debug("MAC on the PF's side", "device", v.Device, "error", err)
		return nil
	}
	return err
}

func (m *Mover) moveIn(ctx context.Context, claim ledger.Claim, t Target) error {
	link, where, err := m.find(claim)
	if err != nil {
		return err
	}
	if where.pod && link.Name == t.Name {
		return m.set(ctx, where, link, t)
	}
	err = where.SetAltNames(link.Index, nil)
	if err == nil { // a MAC might be refused for a while, and comes later
		err = where.MoveLink(netdev.Move{Index: link.Index, To: claim.NetNS, Name: t.Name, MTU: t.MTU})
	}
	if err = errors.Join(err, where.Close()); err != nil {
		return err
	}
	if link, where, err = m.find(claim); err != nil {
		return err
	}
	return m.set(ctx, where, link, t)
}

// set closes the place.
func (m *Mover) set(ctx context.Context, where place, link netdev.Link, t Target) error {
	set := netdev.Settings{}
	if link.MTU != t.MTU {
		set.MTU = t.MTU
	}
	if link.MAC.String() != t.MAC.String() {
		set.MAC = t.MAC
	}
	var err error
	if set.MTU != 0 || set.MAC != nil {
		err = insist(ctx, settle, func() error { return where.SetLink(link.Name, set) })
	}
	return errors.Join(err, where.Close())
}

// insist tries again for a while; no event tells when a driver is ready.
func insist(ctx context.Context, limit time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := f()
		if err == nil || errors.Is(err, netdev.ErrNotFound) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Commit records that the pod has it.
func (m *Mover) Commit(device, sandbox string) error {
	defer m.lock(device)()
	return m.Ledger.SetPhase(device, sandbox, ledger.Attached)
}

// place is the namespace in which a netdev was found.
type place struct {
	Links
	pod    bool
	closer io.Closer // nil: the node's, which stays open
}

func (p place) Close() error {
	if p.closer == nil {
		return nil
	}
	return p.closer.Close()
}

// find looks for the netdev of a claimed device in the host namespace, in the pod, and in the namespaces where the
// kernel may have put it. It is ErrNotFound if none has it.
func (m *Mover) find(claim ledger.Claim) (netdev.Link, place, error) {
	link, err := m.inHostNetns(claim.Device)
	if !errors.Is(err, netdev.ErrNotFound) {
		return link, place{Links: m.Host}, err
	}
	for _, path := range m.elsewhere(claim) {
		space, err := m.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return netdev.Link{}, place{}, err
		}
		link, err := childOf(space, claim.Device)
		if err == nil {
			return link, place{space, path == claim.NetNS, space}, nil
		}
		_ = space.Close()
		if !errors.Is(err, netdev.ErrNotFound) {
			return netdev.Link{}, place{}, err
		}
	}
	return netdev.Link{}, place{}, fmt.Errorf("netdev of %s: %w", claim.Device, netdev.ErrNotFound)
}

// elsewhere gives the namespaces other than the host's that may have a claimed device. The pod's is first, if it exists.
func (m *Mover) elsewhere(claim ledger.Claim) []string {
	if m.NetnsGone(claim) {
		return m.Strays
	}
	return append([]string{claim.NetNS}, m.Strays...)
}

// inHostNetns finds the netdev in the node's namespace.
func (m *Mover) inHostNetns(device string) (netdev.Link, error) {
	_, names, err := m.Present(device)
	switch {
	case err != nil:
		return netdev.Link{}, err
	case len(names) == 0:
		return netdev.Link{}, fmt.Errorf("netdev of %s: %w", device, netdev.ErrNotFound)
	case len(names) > 1:
		return netdev.Link{}, fmt.Errorf("%s has %d netdevs, %s and %s among them", device, len(names), names[0], names[1])
	}
	return m.Host.Link(names[0])
}

func childOf(space Links, device string) (netdev.Link, error) {
	links, err := space.Links()
	if err != nil {
		return netdev.Link{}, err
	}
	for _, l := range links {
		if l.Parent == device {
			return l, nil
		}
	}
	return netdev.Link{}, fmt.Errorf("netdev of %s: %w", device, netdev.ErrNotFound)
}
