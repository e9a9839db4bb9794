package uplink

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// bonded is a host with a bond of two NICs, of which the driver of the first makes a new netdev with each mode. Changes
// are counted, and the agent is killed at the killAt-th.
type bonded struct {
	*testing.T
	*netdevtest.FakeNS
	fake  *netdevtest.Fake
	file  string
	name  string // of the first NIC's netdev
	mode  string
	dead  bool // in switchdev mode no packet passes
	after bool
	// netd is quicker than the agent to give the bond a new port.
	netd bool
	// silent is how many times the agent observes a port that came back before the switch answers.
	silent          int
	made            int
	changes, killAt int
}

func newBonded(t *testing.T) *bonded {
	t.Helper()
	fake := netdevtest.NewFake()
	ns, err := fake.Open("")
	nodetest.Must(t, err)
	b := &bonded{T: t, FakeNS: ns, fake: fake, mode: "legacy", name: nicName, file: filepath.Join(t.TempDir(), "uplink.json")}
	fake.AddLink("", netdev.Link{Name: "bond0", Type: "bond", Up: true, Carrier: true, MTU: nicMTU, LACP: &netdev.LACP{Aggregator: 1}})
	nodetest.Must(t, ns.ReplaceAddr("bond0", netip.MustParsePrefix(nicAddr), netdev.AddrOptions{}))
	for _, port := range []string{nicName, "wan1"} {
		fake.AddLink("", netdev.Link{Name: port, Parent: device, MTU: nicMTU, Carrier: true})
		nodetest.Must(t, ns.SetLink(port, netdev.Settings{Bond: "bond0"}))
	}
	return b
}

// Links adds what the switch has answered.
func (b *bonded) Links() ([]netdev.Link, error) {
	links, err := b.FakeNS.Links()
	for i, l := range links {
		if l.Master == 0 {
			continue
		}
		links[i].LACP = &netdev.LACP{Aggregator: 1, Negotiated: true, Distributing: true}
		if l.Name == b.name && b.made > 0 && b.silent > 0 {
			b.silent--
			links[i].LACP = &netdev.LACP{Aggregator: 2}
		}
	}
	return links, err
}

func (b *bonded) do(f func() error) error {
	b.changes++
	if b.changes == b.killAt && !b.after {
		panic(errKilled)
	}
	err := f()
	if b.changes == b.killAt {
		panic(errKilled)
	}
	return err
}

func (b *bonded) SetLink(name string, s netdev.Settings) error {
	return b.do(func() error { return b.FakeNS.SetLink(name, s) })
}
func (b *bonded) MoveLink(m netdev.Move) error {
	return b.do(func() error {
		b.name = m.Name
		return b.FakeNS.MoveLink(m)
	})
}
func (b *bonded) Sysctl(key, value string) error {
	return b.do(func() error { return b.FakeNS.Sysctl(key, value) })
}
func (b *bonded) SysctlValue(string) (string, error) { return "0", nil }

func (b *bonded) isPort(name string) bool {
	bond, err := b.Link("bond0")
	nodetest.Must(b.T, err)
	link, err := b.Link(name)
	return err == nil && link.Up && link.Master == bond.Index
}

func (b *bonded) SetEswitchMode(_, mode string) error {
	return b.do(func() error {
		if b.isPort(b.name) || !b.isPort("wan1") {
			b.Errorf("mode %s: port %t, the other one %t", mode, b.isPort(b.name), b.isPort("wan1"))
		}
		if mode == b.mode {
			return nil
		}
		nodetest.Must(b.T, b.DeleteLink(b.name))
		b.mode, b.name = mode, fmt.Sprint("eth", b.made)
		b.made++
		if b.netd {
			b.name = nicName
		}
		b.fake.AddLink("", netdev.Link{Name: b.name, Parent: device, MTU: 1500, Carrier: true, Up: !b.netd})
		if b.netd {
			return b.FakeNS.SetLink(b.name, netdev.Settings{Bond: "bond0"})
		}
		return nil
	})
}

func (b *bonded) Pause() func() { return func() {} }
func (b *bonded) Detach(context.Context, string) (bool, error) {
	b.Error("the port of a bond is taken out of a bridge")
	return false, nil
}
func (b *bonded) Attach(context.Context, string) error {
	b.Error("the port of a bond is put into a bridge")
	return nil
}
func (b *bonded) Reachable(context.Context) []string { return []string{"API server"} }
func (b *bonded) Verify(context.Context, []string) error {
	return b.do(func() error {
		if b.dead && b.mode == "switchdev" {
			return fmt.Errorf("no packet passes")
		}
		return nil
	})
}

func (b *bonded) agent() *Mover {
	b.Helper()
	mover, err := New(b.file, "boot", Deps{Netns: b, NIC: b, Gateway: b, Logger: slog.New(slog.DiscardHandler),
		Uplink: func(string) (string, error) { return b.name, nil }})
	nodetest.Must(b.T, err)
	mover.nameTimeout, mover.lacpTimeout = time.Millisecond, 3*time.Second
	return mover
}

func (b *bonded) change(ctx context.Context) (err error) {
	mover := b.agent()
	defer func() {
		if killed := recover(); killed != nil {
			err = killed.(error)
		}
	}()
	return mover.Change(ctx, toSwitchdev())
}

// TestMover_PortOfBondComesBack: the port leaves its bond for the change of the mode, and the other port stays.
func TestMover_PortOfBondComesBack(t *testing.T) {
	for _, netd := range []bool{false, true} {
		b := newBonded(t)
		b.netd = netd
		nodetest.Must(t, b.change(t.Context()))
		if !b.isPort(nicName) || !b.isPort("wan1") || b.mode != "switchdev" {
			t.Errorf("by the network configuration of the host %t: mode %s, %t and %t are ports", netd, b.mode, b.isPort(nicName), b.isPort("wan1"))
		}
	}
}

// TestMover_PortOfBondComesBackAfterKill: whatever the agent has done when it is killed, and also when no packet passes in
// the new mode, the next agent gives the bond its port back.
func TestMover_PortOfBondComesBackAfterKill(t *testing.T) {
	for _, dead := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				b := newBonded(t)
				b.dead, b.killAt, b.after = dead, at, after
				err := b.change(t.Context())
				if b.changes < at {
					if at < 5 {
						t.Fatalf("only %d changes", b.changes)
					}
					break
				}
				b.killAt = 0
				what := fmt.Sprintf("dead %t, kill at %d, after it %t", dead, at, after)
				if err == nil {
					t.Errorf("%s: no error", what)
				}
				if resumed := b.agent().Resume(t.Context()); resumed != nil && !dead {
					t.Errorf("%s: %v", what, resumed)
				}
				if dead != (b.mode == "legacy") && at > 2 || !b.isPort(nicName) || !b.isPort("wan1") {
					t.Errorf("%s: mode %s, %t and %t are ports", what, b.mode, b.isPort(nicName), b.isPort("wan1"))
				}
			}
		}
	}
}

// TestMover_WaitsForLACP: the change ends when the switch has accepted the port again, and not before. A switch that does
// not accept the port gets the former one back.
func TestMover_WaitsForLACP(t *testing.T) {
	b := newBonded(t)
	b.silent = 2
	nodetest.Must(t, b.change(t.Context()))
	if b.silent != 0 || b.mode != "switchdev" {
		t.Errorf("%d observations of a silent switch are left, mode %s", b.silent, b.mode)
	}
	b = newBonded(t)
	b.silent = 1000
	err := b.change(t.Context())
	if err == nil || !strings.Contains(err.Error(), nicName+" has not negotiated LACP with the switch again") || b.mode != "legacy" || !b.isPort(nicName) {
		t.Errorf("%v, mode %s, port %t", err, b.mode, b.isPort(nicName))
	}
}
