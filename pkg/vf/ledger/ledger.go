// Package ledger records which pod has which device, so that no device is allocated twice and each gets its original
// settings back.
//
// Place in the data flow:
//
//	pkg/cni ADD: Take -> Begin -> SetPhase(Attached) -> the device is the pod's
//	pkg/cni DEL, sweeper: Orphan (the pod is deleted, the device not yet detached) -> Release
//	pkg/vf/plugin: Holder, to prefer free devices
//
// Each claim is a file of its own, written before the call returns, and so before the caller changes the device. A claim
// belongs to a sandbox: the kubelet gives a VF to the next pod before the DEL of the last one has run, and this DEL must
// not change the VF. A claim ends when the device is detached, never earlier. Until then the next pod gets ErrBusy, and
// the kubelet tries again.
//
// Memory has the claims that callers have seen. The disk has the same, or a claim whose write failed midway. Both are
// safe: a claim is written before the device changes and removed after the device is restored. A damaged file blocks its
// device until the file is removed, or until the next boot, because the owner of the device is unknown.
package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// Phase is how far an attachment is. Each is written before the work that it
// names begins, so that a crash is followed by the right undoing.
type Phase string

// The phases, in order. The pod of an Orphan is deleted and its device not yet detached.
const (
	Claimed   Phase = "claimed" // nothing was changed yet
	Attaching Phase = "attaching"
	Attached  Phase = "attached"
	Orphan    Phase = "orphan"
)

// Claim says who has a device. Device, Pod, UID, Sandbox and Interface must be
// set by who takes it; the ledger sets Phase and Boot.
type Claim struct {
	// Device is as the kubelet knows it: a PCI address, or such as mlx5_core.sf.2.
	Device   string               `json:"device"`
	Resource string               `json:"resource,omitempty"`
	Pod      types.NamespacedName `json:"pod"`
	UID      types.UID            `json:"uid"`
	// Sandbox is the runtime's container id.
	Sandbox string `json:"sandbox"`
	// Interface is the name inside the pod, and tells a sandbox's claims apart.
	Interface string `json:"interface"`
	// Network is the name of the network configuration.
	Network string `json:"network,omitempty"`
	// Attachment is the interface name with which the runtime names the attachment; "" in records of former versions,
	// where it is Interface.
	Attachment string `json:"attachment,omitempty"`
	// PodNetwork is the interface's network, "" for the cluster's default network.
	PodNetwork string `json:"podNetwork,omitempty"`
	// NetNS is a path, which is used again by other pods; Inode is not.
	NetNS string `json:"netns,omitempty"`
	Inode uint64 `json:"inode,omitempty"`
	// MTU is what the pod's end gets.
	MTU   int   `json:"mtu,omitempty"`
	Phase Phase `json:"phase"`
	// Boot is the boot id of the machine in whose life the claim was made.
	Boot string `json:"boot,omitempty"`
	// Original is nil as long as the device was not looked at.
	Original *Original `json:"original,omitempty"`
}

// AttachmentName is the interface name with which the runtime names the claim's attachment.
func (c Claim) AttachmentName() string { return cmp.Or(c.Attachment, c.Interface) }

// Original is a device as it was before the first change.
type Original struct {
	// Name, MAC, MTU and Up are empty for one without a netdev, as with vfio.
	Name     string   `json:"name,omitempty"`
	MAC      vf.MAC   `json:"mac,omitempty"`
	AltNames []string `json:"altNames,omitempty"`
	// Alias is empty in records of former versions, too.
	Alias string `json:"alias,omitempty"`
	MTU   int    `json:"mtu,omitempty"`
	Up    bool   `json:"up,omitempty"`
	// FunctionMAC is what the PF or devlink said that the function will use.
	FunctionMAC vf.MAC   `json:"functionMAC,omitempty"`
	Driver      string   `json:"driver,omitempty"`
	RDMA        []string `json:"rdma,omitempty"`
	// Ethtool is nil in records of former versions.
	Ethtool *netdev.Ethtool `json:"ethtool,omitempty"`
}

// Reasons for a refusal; a BusyError is an ErrBusy, too.
var (
	ErrBusy    = errors.New("device is in use")
	ErrNotHeld = errors.New("device is not held by this sandbox")
	ErrDamaged = errors.New("record of the device is damaged")
	ErrHeld    = errors.New("device cannot be claimed now")
)

// BusyError names who has the devices that were wanted.
type BusyError struct{ Holders []Claim }

func (e *BusyError) Error() string {
	h := e.Holders[0]
	return fmt.Sprintf("%s is held by pod %s (uid %s, sandbox %s, %s)", h.Device, h.Pod, h.UID, h.Sandbox, h.Phase)
}

// Is makes it an ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Ledger is safe for concurrent use. Only one process at a time has it open.
type Ledger struct {
	store   store
	boot    string
	changed func()

	mu      sync.Mutex
	claims  map[string]Claim // by device
	damaged map[string]error // by device
	held    map[string]error // by device
}

// Open reads what is in the directory, making it if needed. Claims of another
// boot are dropped: their sandboxes ended with it, and the kernel has made
// their devices anew. An empty boot id drops nothing.
func Open(dir, boot string) (*Ledger, error) {
	return open(store{dir: dir}, boot)
}

func open(s store, boot string) (*Ledger, error) {
	if err := s.lock(); err != nil {
		return nil, fmt.Errorf("opening ledger %s: %w", s.dir, err)
	}
	l := &Ledger{store: s, boot: boot, changed: func() {}, held: map[string]error{}}
	if err := l.load(); err != nil {
		_ = s.unlock()
		return nil, fmt.Errorf("opening ledger %s: %w", s.dir, err)
	}
	return l, nil
}

func (l *Ledger) load() error {
	found, damaged, err := l.store.load()
	if err != nil {
		return err
	}
	l.claims, l.damaged = map[string]Claim{}, damaged
	if l.store.nextBoot(l.boot) {
		for device := range damaged {
			if err := l.store.shelve(device); err != nil {
				return fmt.Errorf("putting the damaged record of %s aside: %w", device, err)
			}
			delete(damaged, device)
		}
	}
	for _, c := range found {
		if l.boot == "" || c.Boot == "" || c.Boot == l.boot {
			l.claims[c.Device] = c
			continue
		}
		if err := l.store.remove(c.Device); err != nil {
			return fmt.Errorf("dropping claim of %s: %w", c.Device, err)
		}
	}
	return nil
}

// Close lets another process open the ledger.
func (l *Ledger) Close() error { return l.store.unlock() }

// OnChange calls f for each claim that is made, changed or ended. Call it before the ledger is used. f must neither
// block nor use the ledger.
func (l *Ledger) OnChange(f func()) { l.changed = f }

// Take claims one of the devices, which are those that the kubelet gave the
// pod for a resource, in their order; c.Device is set by it. Attachments of one
// pod never share one. A second call for the same sandbox and interface gives
// the claim that it has, as far as it got.
func (l *Ledger) Take(devices []string, c Claim) (Claim, error) {
	if c.Pod.Name == "" || c.UID == "" || c.Sandbox == "" || c.Interface == "" {
		return Claim{}, fmt.Errorf("claiming one of %v: pod, uid, sandbox and interface must be set", devices)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if had, ok := l.resume(devices, c); ok {
		return had, nil
	}
	busy := &BusyError{}
	var blocked error
	for _, device := range devices {
		if err := cmp.Or(l.damaged[device], l.held[device]); err != nil {
			blocked = err
			continue
		}
		if holder, held := l.claims[device]; held {
			busy.Holders = append(busy.Holders, holder.clone())
			continue
		}
		c.Device, c.Phase, c.Boot, c.Original = device, Claimed, l.boot, nil
		if err := l.put(c); err != nil {
			// Not granted, so no caller will release a claim that may be on the disk.
			return Claim{}, fmt.Errorf("claiming %s: %w", device, errors.Join(err, l.store.remove(device)))
		}
		return c, nil
	}
	switch {
	case len(busy.Holders) > 0:
		return Claim{}, fmt.Errorf("claiming a device for %s: %w", c.Pod, busy)
	case blocked != nil:
		return Claim{}, fmt.Errorf("claiming a device for %s: %w", c.Pod, blocked)
	}
	return Claim{}, fmt.Errorf("claiming a device for %s: none was given", c.Pod)
}

// resume finds what a former try of the same ADD has taken. An orphan is no
// attachment any more: the DEL has begun.
func (l *Ledger) resume(devices []string, c Claim) (Claim, bool) {
	for _, device := range devices {
		had, ok := l.claims[device]
		if ok && had.Sandbox == c.Sandbox && had.Interface == c.Interface && had.UID == c.UID && had.Phase != Orphan {
			return had.clone(), true
		}
	}
	return Claim{}, false
}

// Begin records in one write what the device was and that it is about to change. What
// was kept first is kept for good, and returned.
func (l *Ledger) Begin(device, sandbox string, o Original) (Original, error) {
	var kept Original
	err := l.change(device, sandbox, func(c *Claim) error {
		if c.Original == nil {
			if c.Phase != Claimed {
				return fmt.Errorf("too late to keep its state: it is %s", c.Phase)
			}
			c.Original = &o
		}
		if c.Phase == Claimed {
			c.Phase = Attaching
		}
		kept = *c.clone().Original
		return nil
	})
	return kept, err
}

// SetPhase goes forward only. Changing a device needs its original state kept.
func (l *Ledger) SetPhase(device, sandbox string, p Phase) error {
	order := []Phase{Claimed, Attaching, Attached, Orphan}
	return l.change(device, sandbox, func(c *Claim) error {
		from, to := slices.Index(order, c.Phase), slices.Index(order, p)
		switch {
		case to < from: // -1, unknown, included
			return fmt.Errorf("it is %s and cannot become %s", c.Phase, p)
		case c.Original == nil && (p == Attaching || p == Attached):
			return fmt.Errorf("cannot become %s: its original state was not kept", p)
		}
		c.Phase = p
		return nil
	})
}

// change does nothing when f leaves the claim as it was.
func (l *Ledger) change(device, sandbox string, f func(*Claim) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := l.claim(device, sandbox)
	if err != nil {
		return fmt.Errorf("recording %s: %w", device, err)
	}
	phase, original := c.Phase, c.Original
	if err := f(&c); err != nil {
		return fmt.Errorf("recording %s: %w", device, err)
	}
	if c.Phase == phase && c.Original == original {
		return nil
	}
	if err := l.put(c.clone()); err != nil {
		return fmt.Errorf("recording %s: %w", device, err)
	}
	return nil
}

// Release ends the claim of a detached device. It is ErrNotHeld if the sandbox has no claim, which a DEL can ignore.
func (l *Ledger) Release(device, sandbox string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.claim(device, sandbox); err != nil {
		return fmt.Errorf("releasing %s: %w", device, err)
	}
	if err := l.store.remove(device); err != nil {
		return fmt.Errorf("releasing %s: %w", device, err)
	}
	delete(l.claims, device)
	l.changed()
	return nil
}

func (l *Ledger) claim(device, sandbox string) (Claim, error) {
	if err := l.damaged[device]; err != nil {
		return Claim{}, err
	}
	c, ok := l.claims[device]
	switch {
	case !ok:
		return Claim{}, fmt.Errorf("%w: it has no holder", ErrNotHeld)
	case c.Sandbox != sandbox:
		return Claim{}, fmt.Errorf("%w: pod %s (sandbox %s) holds it", ErrNotHeld, c.Pod, c.Sandbox)
	}
	return c, nil
}

// put changes memory only after the disk.
func (l *Ledger) put(c Claim) error {
	if err := l.store.write(c); err != nil {
		return err
	}
	l.claims[c.Device] = c
	l.changed()
	return nil
}

// Hold keeps devices from being claimed until release, and so from pods while they
// are removed or changed. It is a BusyError when one of them has a claim. The reason
// is for those whose claim is refused meanwhile.
func (l *Ledger) Hold(devices []string, reason string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, device := range devices {
		if c, ok := l.claims[device]; ok {
			return nil, fmt.Errorf("holding %s: %w", device, &BusyError{Holders: []Claim{c.clone()}})
		}
	}
	for _, device := range devices {
		l.held[device] = fmt.Errorf("%w: %s: %s", ErrHeld, device, reason)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, device := range devices {
			delete(l.held, device)
		}
	}, nil
}

// Held says why a device cannot be claimed now, nil when it is not held.
func (l *Ledger) Held(device string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[device]
}

// Holder tells who has a device.
func (l *Ledger) Holder(device string) (Claim, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.claims[device]
	return c.clone(), ok
}

// Claims gives all, in the order of their devices.
func (l *Ledger) Claims() []Claim {
	return l.Where(func(Claim) bool { return true })
}

// Where gives some, in the order of their devices, such as a sandbox's.
func (l *Ledger) Where(match func(Claim) bool) []Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Claim
	for _, c := range l.claims {
		if c = c.clone(); match(c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Claim) int { return cmp.Compare(a.Device, b.Device) })
	return out
}

// Damaged gives the devices that are blocked, with what is wrong.
func (l *Ledger) Damaged() map[string]error {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]error, len(l.damaged))
	for device, err := range l.damaged {
		out[device] = err
	}
	return out
}

// clone keeps what callers do to theirs out of the ledger.
func (c Claim) clone() Claim {
	if c.Original != nil {
		o := *c.Original
		o.MAC, o.FunctionMAC = slices.Clone(o.MAC), slices.Clone(o.FunctionMAC)
		o.AltNames, o.RDMA = slices.Clone(o.AltNames), slices.Clone(o.RDMA)
		if o.Ethtool != nil {
			o.Ethtool = new(o.Ethtool.Clone())
		}
		c.Original = &o
	}
	return c
}
