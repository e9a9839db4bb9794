package uplink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

const (
	device  = "0000:03:00.0"
	nicName = "wan0"
	nicMTU  = 9000
	nicAddr = "192.0.2.7/24"
)

var errKilled = errors.New("the agent is killed")

// machine is a namespace with a NIC, whose driver makes a new netdev with each mode. Changes are counted, and the agent is
// killed at the killAt-th, before it has happened or after.
type machine struct {
	*testing.T
	ns          *netdev.NS
	path, peer  string
	name        string // of the netdev
	mode        string
	made, modes int
	file        string
	dead        bool // in switchdev mode no packet passes
	attached    bool

	changes, killAt int
	after           bool
	paused          int
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t, mode: "legacy", attached: true, file: filepath.Join(t.TempDir(), "uplink.json")}
	path := netdevtest.NewNS(t)
	ns, err := netdev.Open(path)
	nodetest.Must(t, err)
	t.Cleanup(func() { ns.Close() })
	m.ns, m.path, m.peer = ns, path, netdevtest.NewNS(t)
	m.netdev(nicName, nicMTU)
	nodetest.Must(t, ns.SetLink(nicName, netdev.Settings{State: netdev.Up}))
	nodetest.Must(t, ns.ReplaceAddr(nicName, netip.MustParsePrefix(nicAddr), netdev.AddrOptions{}))
	nodetest.Must(t, ns.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("192.0.2.1"), Link: nicName}))
	return m
}

// netdev makes the NIC's; its cable is in another namespace.
func (m *machine) netdev(name string, mtu int) {
	m.Helper()
	m.made++
	far := fmt.Sprint("far", m.made)
	nodetest.Must(m.T, m.ns.AddVeth(netdev.Veth{Name: name, MTU: mtu, Peer: netdev.Peer{Path: m.peer, Name: far}}))
	outside, err := netdev.Open(m.peer)
	nodetest.Must(m.T, err)
	defer outside.Close()
	nodetest.Must(m.T, outside.SetLink(far, netdev.Settings{State: netdev.Up}))
	m.name = name
}

// do is one change that a kill may come before or after.
func (m *machine) do(f func() error) error {
	m.changes++
	if m.changes == m.killAt && !m.after {
		panic(errKilled)
	}
	err := f()
	if m.changes == m.killAt {
		panic(errKilled)
	}
	return err
}

// change is an agent's until it is killed.
func (m *machine) change(ctx context.Context, boot string) (err error) {
	mover := m.agent(boot)
	defer func() {
		if killed := recover(); killed != nil {
			err = killed.(error)
		}
	}()
	return mover.Change(ctx, toSwitchdev())
}

// host is what an agent sees of the machine.
type host struct {
	node.Local
	m *machine
}

func (h host) SetLink(name string, s netdev.Settings) error {
	return h.m.do(func() error { return h.Local.SetLink(name, s) })
}
func (h host) MoveLink(move netdev.Move) error {
	return h.m.do(func() error {
		if move.To == "" { // the test's thread is not in the namespace
			move.To = h.m.path
		}
		err := h.Local.MoveLink(move)
		if err == nil {
			h.m.name = move.Name
		}
		return err
	})
}
func (h host) ReplaceAddr(link string, p netip.Prefix, o netdev.AddrOptions) error {
	return h.m.do(func() error { return h.Local.ReplaceAddr(link, p, o) })
}
func (h host) ReplaceRoute(r netdev.Route) error {
	return h.m.do(func() error { return h.Local.ReplaceRoute(r) })
}
func (h host) Sysctl(key, value string) error {
	return h.m.do(func() error { return h.Local.Sysctl(key, value) })
}

func (m *machine) SetEswitchMode(_, mode string) error {
	return m.do(func() error {
		if m.attached {
			m.Error("the mode changes under a port of the bridge")
		}
		if mode == m.mode {
			return nil
		}
		nodetest.Must(m.T, m.ns.DeleteLink(m.name))
		m.mode = mode
		m.modes++
		m.netdev(fmt.Sprint("eth", m.made), 1500)
		return nil
	})
}

// The gateway's part.

func (m *machine) Pause() func() {
	m.paused++
	return func() { m.paused-- }
}

func (m *machine) Detach(context.Context, string) (bool, error) {
	return true, m.do(func() error { m.attached = false; return nil })
}

func (m *machine) Attach(_ context.Context, nic string) error {
	return m.do(func() error {
		if m.paused != 1 {
			m.Errorf("%d pauses of the gateway", m.paused)
		}
		m.attached = true
		return nil
	})
}

func (m *machine) Reachable(context.Context) []string {
	if m.broken() != "" {
		return nil
	}
	return []string{"API server"}
}

func (m *machine) Verify(_ context.Context, probes []string) error {
	return m.do(func() error {
		if why := m.broken(); why != "" || !slices.Equal(probes, []string{"API server"}) {
			return fmt.Errorf("%q is not reachable: %s", probes, why)
		}
		if m.paused != 0 {
			m.Error("verified while the gateway pauses")
		}
		return nil
	})
}

// broken says why the node is not reachable.
func (m *machine) broken() string {
	m.Helper()
	link, err := m.ns.Link(nicName)
	if err != nil {
		return err.Error()
	}
	addrs, err := m.ns.Addrs(nicName)
	nodetest.Must(m.T, err)
	routes, err := m.ns.Routes(nicName)
	nodetest.Must(m.T, err)
	hasRoute := slices.ContainsFunc(routes, func(r netdev.Route) bool { return r.Dest.Bits() == 0 })
	switch {
	case !slices.Contains(addrs, netip.MustParsePrefix(nicAddr)), !hasRoute, link.MTU != nicMTU, !link.Up, !m.attached:
		return fmt.Sprintf("%+v %v %v attached %t", link, addrs, routes, m.attached)
	case m.dead && m.mode == "switchdev":
		return "no packet passes"
	}
	return ""
}

// agent is a new life of the agent.
func (m *machine) agent(boot string) *Mover {
	m.Helper()
	m.paused = 0
	mover, err := New(m.file, boot, Deps{
		Netns: host{node.Local{NS: m.ns}, m}, NIC: m, Gateway: m, Logger: slog.New(slog.DiscardHandler),
		Uplink: func(string) (string, error) { return m.name, nil },
	})
	nodetest.Must(m.T, err)
	mover.nameTimeout = 10 * time.Millisecond
	return mover
}

func toSwitchdev() Change {
	return Change{Device: device, From: "legacy", To: "switchdev", Reason: "p/1"}
}

// TestMover_RestoresNewNetdev: the driver makes a netdev with another name and MTU and without addresses.
func TestMover_RestoresNewNetdev(t *testing.T) {
	m := newMachine(t)
	bgp := netdev.Route{Dest: netip.MustParsePrefix("198.51.100.0/24"), NextHop: netip.MustParseAddr("192.0.2.9"), Link: nicName, Protocol: 186}
	nodetest.Must(t, m.ns.ReplaceRoute(bgp))
	mover := m.agent("boot")
	nodetest.Must(t, mover.Change(t.Context(), toSwitchdev()))
	routes, err := m.ns.Routes(nicName)
	nodetest.Must(t, err)
	if slices.ContainsFunc(routes, func(r netdev.Route) bool { return r.Dest == bgp.Dest }) {
		t.Error("a routing daemon's route is back, and it may have been withdrawn meanwhile")
	}
	if why := m.broken(); why != "" || m.mode != "switchdev" || m.paused != 0 || len(mover.Undone()) != 0 {
		t.Errorf("%s; mode %s, %d pauses, undone %v", why, m.mode, m.paused, mover.Undone())
	}
	was := m.changes
	nodetest.Must(t, m.agent("boot").Resume(t.Context()))
	if m.changes != was {
		t.Error("the next agent changes something")
	}
}

// TestMover_KillAtEachStepLeavesNodeReachable: whatever the agent has done when it is killed, the next one brings the node
// back, without the API server.
func TestMover_KillAtEachStepLeavesNodeReachable(t *testing.T) {
	for _, dead := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				m := newMachine(t)
				m.dead, m.killAt, m.after = dead, at, after
				err := m.change(t.Context(), "boot")
				if m.changes < at {
					break // no step is left
				}
				if err == nil {
					t.Fatalf("kill at %d: no error", at)
				}
				m.killAt = 0
				what := fmt.Sprintf("dead %t, kill at %d, after it %t", dead, at, after)
				if resumed := m.agent("boot").Resume(t.Context()); resumed != nil && !dead {
					t.Errorf("%s: %v", what, resumed)
				}
				if why := m.broken(); why != "" || m.paused != 0 {
					t.Errorf("%s: %s, %d pauses", what, why, m.paused)
				}
				if next := m.agent("boot"); next.saved.Move != nil || dead && len(next.Undone()) == 0 && m.modes > 0 {
					t.Errorf("%s: left %+v", what, next.saved)
				}
			}
		}
	}
}

// TestMover_UndoesWhatCutsNodeOff: the former mode is back, and the reason is remembered until the host boots.
func TestMover_UndoesWhatCutsNodeOff(t *testing.T) {
	m := newMachine(t)
	m.dead = true
	mover := m.agent("boot")
	if err := mover.Change(t.Context(), toSwitchdev()); err == nil || !strings.Contains(err.Error(), "no packet passes") {
		t.Errorf("%v", err)
	}
	if why := m.broken(); why != "" || m.mode != "legacy" {
		t.Errorf("%s in mode %s", why, m.mode)
	}
	if u := m.agent("boot").Undone()[device]; u.Reason != "p/1" || !strings.Contains(u.Error, "no packet passes") {
		t.Errorf("%+v", u)
	}
	if u := m.agent("another boot").Undone(); len(u) != 0 {
		t.Errorf("after a boot %+v", u)
	}
}

// TestMover_ChangesNothingBlindly: without a server that is reachable, nothing would show that the node is cut off.
func TestMover_ChangesNothingBlindly(t *testing.T) {
	m := newMachine(t)
	m.attached = false
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.change(ctx, "boot"); err == nil || m.changes != 0 {
		t.Errorf("%v after %d changes", err, m.changes)
	}
}

// TestResume_ForgetsChangeOfFormerBoot: a boot has undone it.
func TestResume_ForgetsChangeOfFormerBoot(t *testing.T) {
	m := newMachine(t)
	m.killAt, m.after = 2, true // the mode is set
	if err := m.change(t.Context(), "boot"); err == nil {
		t.Fatal("no error")
	}
	m.killAt, m.changes = 0, 0
	next := m.agent("another boot")
	nodetest.Must(t, next.Resume(t.Context()))
	if m.paused != 0 || m.changes != 0 || next.saved.Move != nil {
		t.Errorf("%d pauses, %d changes, %+v", m.paused, m.changes, next.saved)
	}
}

// TestRestore_RoutesByAdvertisementsAreWorseThanNewOnes: the record does not say when such a route ends.
func TestRestore_RoutesByAdvertisementsAreWorseThanNewOnes(t *testing.T) {
	route := func(protocol, metric int) netdev.Route {
		return netdev.Route{Dest: netip.MustParsePrefix("::/0"), NextHop: netip.MustParseAddr("fe80::1"), Link: nicName, Table: node.TableMain, Protocol: protocol, Metric: metric}
	}
	r := record{Link: netdevSettings{Name: nicName}, Routes: []netdev.Route{route(node.ProtocolRA, 1024)}}
	for name, tt := range map[string]struct {
		has  []netdev.Route
		want []node.Step
	}{
		"a new netdev":      {nil, []node.Step{node.AddRoute{Route: route(node.ProtocolPermanent, 1025)}}},
		"the same netdev":   {[]netdev.Route{route(node.ProtocolRA, 1024)}, nil},
		"restored already":  {[]netdev.Route{route(node.ProtocolPermanent, 1025)}, nil},
		"by another router": {[]netdev.Route{{Dest: netip.MustParsePrefix("::/0"), NextHop: netip.MustParseAddr("fe80::2"), Link: nicName, Table: node.TableMain, Protocol: node.ProtocolRA, Metric: 1024}}, []node.Step{node.AddRoute{Route: route(node.ProtocolPermanent, 1025)}}},
	} {
		st := node.State{Links: map[string]netdev.Link{nicName: {Name: nicName, Up: true}}, Routes: tt.has}
		if got := planRestore(st, r); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
