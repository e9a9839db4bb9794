package gateway

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

const (
	nicDevice   = "0000:03:00.0"
	otherDevice = "0000:04:00.0"
)

// plug gives the host a NIC, with the node's addresses or without.
func (b *bench) plug(t *testing.T, name, device string, addressed bool) {
	t.Helper()
	b.host.fake.AddLink("", netdev.Link{Name: name, Up: true, MTU: 1500, Parent: device})
	if !addressed {
		return
	}
	for _, addr := range []netip.Prefix{nodeV4, nodeV6} {
		nodetest.Must(t, b.host.FakeNS.ReplaceAddr(name, addr, netdev.AddrOptions{}))
	}
	nodetest.Must(t, b.host.FakeNS.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("172.18.0.1"), Link: name}))
}

// newPCIBench is a settled node whose uplink eth0 is a PCI device.
func newPCIBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.ovnController()
	nodetest.Must(t, b.host.DeleteLink("eth0"))
	b.plug(t, "eth0", nicDevice, true)
	converge(t, b.setup(t))
	b.expectOn(t, "breth0")
	return b
}

// expectOn checks that this link has the node's addresses.
func (b *bench) expectOn(t *testing.T, link string) {
	t.Helper()
	addrs, err := b.host.Addrs(link)
	if err != nil || !slices.Contains(addrs, nodeV4) || !slices.Contains(addrs, nodeV6) {
		t.Errorf("%s has the addresses %v, %v", link, addrs, err)
	}
}

// boot replaces the host's NIC by others, and OVS has to begin again.
func (b *bench) boot(t *testing.T) {
	t.Helper()
	b.removeSwitchLinks()
	nodetest.Must(t, b.host.DeleteLink("eth0"))
}

func (b *bench) ports() (names []string) {
	for _, row := range b.db.Rows("Node/n1") {
		names = append(names, row.ID)
	}
	return names
}

// TestSetup_UplinkWithAnotherNameIsFound: the NIC has another name after a boot, and another NIC has the former one.
func TestSetup_UplinkWithAnotherNameIsFound(t *testing.T) {
	for _, taken := range []bool{false, true} {
		b := newPCIBench(t)
		b.boot(t)
		b.plug(t, "eno1", nicDevice, true)
		if taken {
			b.plug(t, "eth0", otherDevice, false)
		}
		b.makeSwitchLinks()
		s := b.setup(t)
		converge(t, s)
		b.expectOn(t, "breth0")
		if ports := b.ports(); !slices.Contains(ports, "eno1") || slices.Contains(ports, "eth0") {
			t.Errorf("former name taken %t: the bridge has the ports %v", taken, ports)
		}
		before := b.host.changes
		converge(t, s)
		if got := b.host.changes - before; got != 2 {
			t.Errorf("a pass over a settled node makes %d changes", got)
		}
		nodetest.Must(t, s.Cleanup(t.Context()))
		b.expectOn(t, "eno1")
	}
}

// TestSetup_FormerNameMayStayConfigured: the settings name the uplink as it was called. A NIC that has this name now is
// another one, and refused.
func TestSetup_FormerNameMayStayConfigured(t *testing.T) {
	b := newPCIBench(t)
	b.cfg.GatewayInterface = "eth0"
	b.boot(t)
	b.plug(t, "eno1", nicDevice, true)
	b.makeSwitchLinks()
	s := b.setup(t)
	converge(t, s)
	b.expectOn(t, "breth0")
	b.plug(t, "eth0", otherDevice, false)
	if err := s.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "eno1 is taken over already") {
		t.Errorf("another NIC with the name: %v", err)
	}
}

// TestSetup_AnotherNICIsNotTakenForUplink: the uplink is gone, and a NIC with its name is left alone.
func TestSetup_AnotherNICIsNotTakenForUplink(t *testing.T) {
	b := newPCIBench(t)
	b.boot(t)
	b.plug(t, "eth0", otherDevice, false)
	b.makeSwitchLinks()
	s := b.setup(t)
	err := s.pass(t.Context())
	if err == nil || !strings.Contains(err.Error(), "eth0 is another NIC than before (0000:04:00.0, was 0000:03:00.0): "+reconcile.ErrNotReady.Error()) {
		t.Errorf("%v", err)
	}
	if err := s.FailBack(t.Context()); err == nil {
		t.Error("fails back to another NIC")
	}
	nodetest.Must(t, s.Cleanup(t.Context()))
	if addrs, err := b.host.Addrs("eth0"); err != nil || len(addrs) > 0 {
		t.Errorf("the other NIC has %v, %v", addrs, err)
	}
	if c, err := loadCheckpoint(b.cfg.Checkpoint); c != nil || err != nil || len(b.ports()) > 0 {
		t.Errorf("left: %+v, %v, %v", c, err, b.ports())
	}
}
