// Package lease follows the DHCP lease of the node's address after the address has moved from the NIC to the gateway
// bridge: the host's own DHCP client does not get the answers there.
//
// Place in the data flow:
//
//	before the takeover: addresses of the NIC, systemd-networkd's lease -> Capture -> a file
//	the file -> Follower -> DHCP requests on the interface with the address -> addresses and routes of that interface
//	         -> Events of the Node
//
// The Follower asks as the host's client did: with its client identifier and MAC, so that the server gives the same
// address. An address that the server gives in place of the former one is added to the interface; the former one goes
// when its lease ends. A lease that ends without an answer is reported, and the address stays: a node without an
// address is lost for sure. Leases of IPv6 are not followed.
package lease

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// Lease is what the server has given.
type Lease struct {
	MAC contract.MAC `json:"mac"`
	// ClientID is that of the host's client, in hexadecimal digits; "": the client sent none.
	ClientID string       `json:"clientID,omitempty"`
	Address  netip.Prefix `json:"address"`
	Router   netip.Addr   `json:"router,omitzero"`
	Ends     time.Time    `json:"ends"`
	// Former are addresses that the server has replaced, until their leases end.
	Former map[netip.Prefix]time.Time `json:"former,omitempty"`
}

// Answer is what a server says.
type Answer struct {
	Address netip.Prefix
	Router  netip.Addr
	Time    time.Duration
}

// ErrRefused is a server's answer to a request for an address that it gives to others.
var ErrRefused = errors.New("the DHCP server refuses the address")

// Client asks servers.
type Client interface {
	// Extend asks for more time for the lease.
	Extend(ctx context.Context, link string, l Lease) (Answer, error)
	// Acquire asks for a lease, whichever the server gives.
	Acquire(ctx context.Context, link string, l Lease) (Answer, error)
}

// Links is what is asked about interfaces, and changed; netdev.NS has it.
type Links interface {
	Observer
	Changer
}

// Observer reads.
type Observer interface {
	AllAddrs() (map[int][]netip.Prefix, error)
	Links() ([]netdev.Link, error)
	Routes(link string) ([]netdev.Route, error)
}

// Changer changes.
type Changer interface {
	ReplaceAddr(link string, prefix netip.Prefix, o netdev.AddrOptions) error
	DeleteAddr(link string, prefix netip.Prefix) error
	ReplaceRoute(r netdev.Route) error
}

// Capture saves the lease of an uplink before its addresses move. An uplink without a lease gets no file, and loses a
// former one. run is the host's /run.
func Capture(file, run string, link netdev.Link, lifetimes map[netip.Prefix]time.Duration, now time.Time) error {
	for prefix, left := range lifetimes {
		if !prefix.Addr().Is4() || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		id, err := clientID(run, link)
		if err != nil {
			return err
		}
		return durable.Save(file, Lease{MAC: contract.MAC(link.MAC), ClientID: id, Address: prefix, Ends: now.Add(left)})
	}
	return Forget(file)
}

// clientID is what the host's client calls itself: systemd-networkd writes it down, NetworkManager uses the MAC.
func clientID(run string, link netdev.Link) (string, error) {
	index := fmt.Sprint(link.Index)
	text, err := os.ReadFile(filepath.Join(run, "systemd/netif/leases", index))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading systemd-networkd's lease: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "CLIENTID="); ok {
			if _, err := hex.DecodeString(id); err != nil {
				return "", fmt.Errorf("client identifier of systemd-networkd's lease: %w", err)
			}
			return id, nil
		}
	}
	if _, err := os.Stat(filepath.Join(run, "NetworkManager/devices", index)); err == nil {
		return "01" + hex.EncodeToString(link.MAC), nil
	}
	return "", nil
}

// Deps is what a Follower acts on.
type Deps struct {
	Client Client
	Links  Links
	// Warn reports to users, with the name of an Event and a text.
	Warn   func(l Lease, reason, message string)
	Now    func() time.Time
	Logger *slog.Logger
}

// Follower keeps one lease.
type Follower struct {
	file     string
	deps     Deps
	lease    Lease
	reported stage
}

// Open reads the file; nil when there is no lease to follow.
func Open(file string, deps Deps) (*Follower, error) {
	f := &Follower{file: file, deps: deps}
	if found, err := durable.Load(file, &f.lease); err != nil || !found {
		return nil, err
	}
	return f, nil
}

// Run follows the lease until ctx ends. It asks at once: the answer shows that the way through the bridge works.
func (f *Follower) Run(ctx context.Context) error {
	for {
		next, err := f.pass(ctx)
		if err != nil && ctx.Err() == nil {
			f.deps.Logger.Warn("following the DHCP lease", "address", f.lease.Address.String(), "error", err, "again", next.Round(time.Second).String())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(next):
		}
	}
}

const (
	// shortest is the least time between two attempts, longest the most.
	shortest, longest = 10 * time.Second, 12 * time.Hour
)

// pass asks once, and says when to ask again: after half of the time that is left.
func (f *Follower) pass(ctx context.Context) (next time.Duration, err error) {
	link, err := f.link()
	if err != nil {
		return shortest, err
	}
	answer, err := f.ask(ctx, link)
	if err != nil {
		f.report(err)
		left := f.lease.Ends.Sub(f.deps.Now())
		return min(max(left/2, shortest), longest), err
	}
	if err := f.take(link, answer); err != nil {
		return shortest, err
	}
	f.reported = answered
	return min(max(answer.Time/2, shortest), longest), f.dropFormer(link)
}

// ask extends the lease, or gets another one when the server refuses it or the lease has ended.
func (f *Follower) ask(ctx context.Context, link string) (Answer, error) {
	answer, err := f.deps.Client.Extend(ctx, link, f.lease)
	if err == nil {
		return answer, nil
	}
	if !errors.Is(err, ErrRefused) && f.deps.Now().Before(f.lease.Ends) {
		return Answer{}, err
	}
	return f.deps.Client.Acquire(ctx, link, f.lease)
}

// stage is what users know of a server that does not answer.
type stage int

const (
	answered stage = iota
	waiting
	ended
)

// report tells users once that the server does not answer, and once that the lease has ended.
func (f *Follower) report(err error) {
	stage, ends := waiting, f.lease.Ends.UTC().Format(time.RFC3339)
	if !f.deps.Now().Before(f.lease.Ends) {
		stage = ended
	}
	if f.reported == stage {
		return
	}
	f.reported = stage
	if stage == waiting {
		f.deps.Warn(f.lease, "LeaseNotRenewed", fmt.Sprintf("the DHCP server does not renew the lease of %s, which ends at %s: %v", f.lease.Address, ends, err))
		return
	}
	f.deps.Warn(f.lease, "LeaseEnded", fmt.Sprintf("the DHCP lease of %s ended at %s. The address stays, although the server may give it to another machine: %v",
		f.lease.Address, ends, err))
}

// take makes the answer the lease.
func (f *Follower) take(link string, a Answer) error {
	l := f.lease
	l.Ends = f.deps.Now().Add(a.Time)
	if a.Address != l.Address {
		if err := f.deps.Links.ReplaceAddr(link, a.Address, netdev.AddrOptions{}); err != nil {
			return err
		}
		if l.Former == nil {
			l.Former = map[netip.Prefix]time.Time{}
		}
		l.Former[l.Address] = f.lease.Ends
		delete(l.Former, a.Address)
		f.deps.Warn(l, "LeaseChanged", fmt.Sprintf("the DHCP server gives the node %s in place of %s: reserve an address for MAC %s",
			a.Address, l.Address, l.MAC))
	}
	if err := f.route(link, a); err != nil {
		return err
	}
	l.Address, l.Router = a.Address, a.Router
	f.deps.Logger.Info("the DHCP lease goes on", "address", l.Address.String(), "device", link, "ends", l.Ends)
	f.lease = l
	return durable.Save(f.file, l)
}

// route leads the default routes of the interface to another router, when the server names one. The first answer only
// tells which router the host has.
func (f *Follower) route(link string, a Answer) error {
	if !a.Router.IsValid() || a.Router == f.lease.Router || !f.lease.Router.IsValid() && a.Address == f.lease.Address {
		return nil
	}
	routes, err := f.deps.Links.Routes(link)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.Dest.Bits() != 0 || !r.Dest.Addr().Is4() || r.NextHop == a.Router || !node.IsConfigured(r) {
			continue
		}
		r.NextHop, r.Source, r.Others = a.Router, netip.Addr{}, nil
		if err := f.deps.Links.ReplaceRoute(r); err != nil {
			return err
		}
	}
	return nil
}

// dropFormer removes replaced addresses whose leases have ended.
func (f *Follower) dropFormer(link string) error {
	for prefix, ends := range f.lease.Former {
		if f.deps.Now().Before(ends) {
			continue
		}
		if err := f.deps.Links.DeleteAddr(link, prefix); err != nil {
			return err
		}
		delete(f.lease.Former, prefix)
	}
	return durable.Save(f.file, f.lease)
}

// link is the interface that has the address: the gateway bridge, a gateway VF, or the NIC itself.
func (f *Follower) link() (string, error) {
	addrs, err := f.deps.Links.AllAddrs()
	if err != nil {
		return "", err
	}
	links, err := f.deps.Links.Links()
	if err != nil {
		return "", err
	}
	for _, l := range links {
		if slices.Contains(addrs[l.Index], f.lease.Address) {
			return l.Name, nil
		}
	}
	return "", fmt.Errorf("no interface has %s", f.lease.Address)
}
