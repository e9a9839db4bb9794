package lease

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

var (
	first  = netip.MustParsePrefix("192.0.2.10/24")
	second = netip.MustParsePrefix("192.0.2.77/24")
	router = netip.MustParseAddr("192.0.2.1")
	start  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// world has one interface, one server and one clock.
type world struct {
	now             time.Time
	addrs           []netip.Prefix
	gateway         netip.Addr
	extend, acquire func() (Answer, error)
	warned          []string
}

func (w *world) Extend(context.Context, string, Lease) (Answer, error)  { return w.extend() }
func (w *world) Acquire(context.Context, string, Lease) (Answer, error) { return w.acquire() }
func (w *world) AllAddrs() (map[int][]netip.Prefix, error) {
	return map[int][]netip.Prefix{7: w.addrs}, nil
}
func (w *world) Links() ([]netdev.Link, error) { return []netdev.Link{{Name: "breth0", Index: 7}}, nil }
func (w *world) Routes(string) ([]netdev.Route, error) {
	return []netdev.Route{
		{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: w.gateway, Link: "breth0", Metric: 100, Source: first.Addr()},
		{Dest: netip.MustParsePrefix("198.51.100.0/24"), NextHop: netip.MustParseAddr("192.0.2.9"), Link: "breth0"},
		{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("192.0.2.9"), Link: "breth0", Metric: 20, Protocol: 186}, // of BGP
	}, nil
}
func (w *world) ReplaceAddr(_ string, p netip.Prefix, _ netdev.AddrOptions) error {
	w.addrs = append(w.addrs, p)
	return nil
}
func (w *world) DeleteAddr(_ string, p netip.Prefix) error {
	w.addrs = slices.DeleteFunc(w.addrs, func(a netip.Prefix) bool { return a == p })
	return nil
}
func (w *world) ReplaceRoute(r netdev.Route) error {
	if r.Dest.Bits() != 0 || r.Metric != 100 || r.Source.IsValid() {
		return errors.New("another route: " + r.String())
	}
	w.gateway = r.NextHop
	return nil
}

func gives(address netip.Prefix, by netip.Addr) func() (Answer, error) {
	return func() (Answer, error) { return Answer{address, by, time.Hour}, nil }
}

func fails(err error) func() (Answer, error) { return func() (Answer, error) { return Answer{}, err } }

// follow has a lease of an hour.
func follow(t *testing.T) (*world, *Follower) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lease.json")
	nic := netdev.Link{Name: "eth0", Index: 3, MAC: []byte{2, 0, 0, 0, 0, 1}}
	if err := Capture(file, t.TempDir(), nic, map[netip.Prefix]time.Duration{first: time.Hour}, start); err != nil {
		t.Fatal(err)
	}
	w := &world{now: start, addrs: []netip.Prefix{first}, gateway: router, extend: gives(first, router), acquire: fails(errors.New("not asked for"))}
	f, err := Open(file, Deps{
		Client: w, Links: w, Now: func() time.Time { return w.now }, Logger: slog.New(slog.DiscardHandler),
		Warn: func(_ Lease, reason, _ string) { w.warned = append(w.warned, reason) },
	})
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	return w, f
}

func TestFollower_ExtendsAtHalfOfTheTime(t *testing.T) {
	w, f := follow(t)
	for range 3 {
		next, err := f.pass(t.Context())
		if err != nil || next != 30*time.Minute {
			t.Fatalf("again in %s, %v", next, err)
		}
		w.now = w.now.Add(next)
	}
	if want := start.Add(2 * time.Hour); !f.lease.Ends.Equal(want) || len(w.warned) != 0 || len(w.addrs) != 1 || w.gateway != router {
		t.Errorf("ends %s, want %s; %v %v %s", f.lease.Ends, want, w.warned, w.addrs, w.gateway)
	}
	saved, err := Open(f.file, f.deps)
	if err != nil || saved == nil || !saved.lease.Ends.Equal(f.lease.Ends) {
		t.Errorf("after a restart: %+v, %v", saved, err)
	}
}

// TestFollower_ServerAbsent: the address stays, users learn of both stages once, and attempts get denser.
func TestFollower_ServerAbsent(t *testing.T) {
	w, f := follow(t)
	w.extend, w.acquire = fails(context.DeadlineExceeded), fails(context.DeadlineExceeded)
	var pauses []time.Duration
	for range 12 {
		next, err := f.pass(t.Context())
		if err == nil {
			t.Fatal("no error")
		}
		pauses = append(pauses, next)
		w.now = w.now.Add(next)
	}
	if pauses[0] != 30*time.Minute || pauses[1] != 15*time.Minute || pauses[11] != shortest {
		t.Errorf("pauses %v", pauses)
	}
	if !slices.Equal(w.warned, []string{"LeaseNotRenewed", "LeaseEnded"}) || !slices.Equal(w.addrs, []netip.Prefix{first}) {
		t.Errorf("warned %v, addresses %v", w.warned, w.addrs)
	}
	w.acquire = gives(first, router)
	if _, err := f.pass(t.Context()); err != nil || len(w.warned) != 2 || !f.lease.Ends.Equal(w.now.Add(time.Hour)) {
		t.Errorf("after the return of the server: %v, %v, ends %s", err, w.warned, f.lease.Ends)
	}
}

// TestFollower_OtherAddress: the server gives another address and router. The former address stays until its lease ends.
func TestFollower_OtherAddress(t *testing.T) {
	w, f := follow(t)
	if _, err := f.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := netip.MustParseAddr("192.0.2.2")
	w.extend, w.acquire = fails(ErrRefused), gives(second, other)
	w.now = w.now.Add(30 * time.Minute)
	if _, err := f.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.addrs, []netip.Prefix{first, second}) || w.gateway != other || !slices.Equal(w.warned, []string{"LeaseChanged"}) {
		t.Errorf("addresses %v, router %s, warned %v", w.addrs, w.gateway, w.warned)
	}
	w.extend = gives(second, other)
	for range 2 {
		w.now = w.now.Add(30 * time.Minute)
		if _, err := f.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(w.addrs, []netip.Prefix{second}) || len(w.warned) != 1 {
		t.Errorf("addresses %v, warned %v", w.addrs, w.warned)
	}
}

func TestFollower_WithoutAddressDoesNotAsk(t *testing.T) {
	w, f := follow(t)
	w.addrs, w.extend = nil, func() (Answer, error) { t.Error("asked"); return Answer{}, nil }
	if next, err := f.pass(t.Context()); err == nil || next != shortest || !strings.Contains(err.Error(), "192.0.2.10/24") {
		t.Errorf("again in %s, %v", next, err)
	}
}

// TestCapture_ClientIdentifier: that of the host's own client, as far as the host tells.
func TestCapture_ClientIdentifier(t *testing.T) {
	nic := netdev.Link{Name: "eth0", Index: 3, MAC: []byte{2, 0, 0, 0, 0, 1}}
	for name, tt := range map[string]struct {
		file, text, want string
		lifetimes        map[netip.Prefix]time.Duration
		none, wrong      bool
	}{
		"systemd-networkd":  {"systemd/netif/leases/3", "# x\nADDRESS=192.0.2.10\nCLIENTID=ffca53095a0002\n", "ffca53095a0002", nil, false, false},
		"another link":      {"systemd/netif/leases/4", "CLIENTID=ff\n", "", nil, false, false},
		"spoiled":           {"systemd/netif/leases/3", "CLIENTID=xx\n", "", nil, false, true},
		"NetworkManager":    {"NetworkManager/devices/3", "[device]\n", "01020000000001", nil, false, false},
		"dhclient":          {"other", "", "", nil, false, false},
		"no lease":          {"other", "", "", map[netip.Prefix]time.Duration{}, true, false},
		"a lease of IPv6":   {"other", "", "", map[netip.Prefix]time.Duration{netip.MustParsePrefix("2001:db8::1/64"): time.Hour}, true, false},
		"link-local's only": {"other", "", "", map[netip.Prefix]time.Duration{netip.MustParsePrefix("169.254.3.4/16"): time.Hour}, true, false},
	} {
		run, file := t.TempDir(), filepath.Join(t.TempDir(), "lease.json")
		path := filepath.Join(run, tt.file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(tt.text), 0o600), os.WriteFile(file, []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if tt.lifetimes == nil {
			tt.lifetimes = map[netip.Prefix]time.Duration{first: time.Hour}
		}
		if err := Capture(file, run, nic, tt.lifetimes, start); (err != nil) != tt.wrong {
			t.Errorf("%s: %v", name, err)
		}
		if tt.wrong {
			continue
		}
		f, err := Open(file, Deps{})
		if err != nil || (f == nil) != tt.none {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		if f != nil && (f.lease.ClientID != tt.want || f.lease.Address != first || f.lease.MAC.String() != contract.MAC(nic.MAC).String()) {
			t.Errorf("%s: %s", name, strconv.Quote(f.lease.ClientID))
		}
	}
}
