package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

var newV4 = netip.MustParsePrefix("172.18.0.99/16")

// newBootBench is a settled node in its first boot.
func newBootBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.ovnController()
	b.cfg.Zone.ServiceSubnets = nil // no masquerade addresses among the addresses
	nodetest.Must(t, b.host.DeleteLink("eth0"))
	b.plug(t, "eth0", nicDevice, true)
	b.cfg.Boot = "first"
	converge(t, b.setup(t))
	return b
}

// reboot is another boot of the host, whose configuration gives the NIC these addresses. OVS has no transient ports.
func (b *bench) reboot(t *testing.T, addrs ...netip.Prefix) {
	t.Helper()
	b.cfg.Boot = "second"
	b.boot(t)
	for _, q := range quiet() {
		nodetest.Must(t, b.host.FakeNS.Sysctl(node.SysctlKey(q[0], "eth0"), "0"))
	}
	b.plug(t, "eth0", nicDevice, false)
	for _, addr := range addrs {
		nodetest.Must(t, b.host.FakeNS.ReplaceAddr("eth0", addr, netdev.AddrOptions{}))
		if addr.Addr().Is4() {
			nodetest.Must(t, b.host.FakeNS.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("172.18.0.254"), Link: "eth0"}))
		}
	}
	b.db.forgetTransient()
	b.makeSwitchLinks()
}

// forgetTransient is what ovn-daemon does at the first start of a boot.
func (d *fakeDB) forgetTransient() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for owner, rows := range d.rows {
		transient := map[string]bool{}
		for _, row := range rows {
			if port, ok := row.Model.(*vswitch.Port); ok && port.OtherConfig["transient"] == "true" {
				transient[port.Name] = true
			}
		}
		kept := rows[:0:0]
		for _, row := range rows {
			if !transient[row.ID] {
				kept = append(kept, row)
			}
		}
		d.rows[owner] = kept
	}
}

func (b *bench) addrsOf(t *testing.T, link string) []string {
	t.Helper()
	addrs, err := b.host.Addrs(link)
	nodetest.Must(t, err)
	slices.SortFunc(addrs, netip.Prefix.Compare)
	return texts(addrs)
}

// TestBoot_OVSDoesNotTakeNICBeforeAgent: in a node's database only the bridges' own ports outlive a boot.
func TestBoot_OVSDoesNotTakeNICBeforeAgent(t *testing.T) {
	b := newVFBench(t)
	converge(t, b.setup(t))
	b.give()
	converge(t, b.setup(t))
	if ports := b.ports(); !slices.Contains(ports, "eth0") || !slices.Contains(ports, "rep1") {
		t.Fatalf("before the boot the ports are %v", ports)
	}
	b.db.forgetTransient()
	if ports := slices.Compact(b.ports()); !slices.Equal(ports, []string{"breth0"}) {
		t.Errorf("after the boot OVS has the ports %v", ports)
	}
}

// TestBoot_HostsConfigurationWins: the checkpoint of an earlier boot has only what the NIC has not got in this one.
func TestBoot_HostsConfigurationWins(t *testing.T) {
	for name, tt := range map[string]struct{ gives, want []netip.Prefix }{
		"the same":              {[]netip.Prefix{nodeV4, nodeV6}, []netip.Prefix{nodeV4, nodeV6}},
		"another address":       {[]netip.Prefix{newV4, nodeV6}, []netip.Prefix{newV4, nodeV6}},
		"no IPv6 address (yet)": {[]netip.Prefix{newV4}, []netip.Prefix{newV4, nodeV6}},
		"nothing (yet)":         {nil, []netip.Prefix{nodeV4, nodeV6}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBootBench(t)
			b.reboot(t, tt.gives...)
			s := b.setup(t)
			converge(t, s)
			if got := b.addrsOf(t, "breth0"); !slices.Equal(got, texts(tt.want)) {
				t.Errorf("breth0 has %v, want %v", got, tt.want)
			}
			if got := b.addrsOf(t, "eth0"); len(got) > 0 {
				t.Errorf("eth0 has %v", got)
			}
			routes, err := b.host.Routes("breth0")
			nodetest.Must(t, err)
			for _, r := range routes {
				if r.Dest.Bits() == 0 && (r.NextHop == netip.MustParseAddr("172.18.0.254")) != (len(tt.gives) > 0) {
					t.Errorf("a default route is %s", r)
				}
			}
			before := b.host.changes
			converge(t, s)
			if got := b.host.changes - before; got != 2 {
				t.Errorf("a pass over a settled node makes %d changes", got)
			}
			converge(t, b.setup(t)) // an agent that starts again in the same boot
			nodetest.Must(t, s.Cleanup(t.Context()))
			if got := b.addrsOf(t, "eth0"); !slices.Equal(got, texts(tt.want)) {
				t.Errorf("after the clean-up eth0 has %v", got)
			}
		})
	}
}

// TestBoot_LateConfigurationOfHostWins: the NIC gets its address when the bridge has that of the earlier boot already.
func TestBoot_LateConfigurationOfHostWins(t *testing.T) {
	for name, early := range map[string][]netip.Prefix{"nothing before": nil, "IPv6 before": {nodeV6}} {
		t.Run(name, func(t *testing.T) {
			b := newBootBench(t)
			nodetest.Must(t, b.host.FakeNS.ReplaceRoute(via("10.9.0.0/16", "172.18.0.9", "breth0", 4)))
			converge(t, b.setup(t))
			b.reboot(t, early...)
			s := b.setup(t)
			converge(t, s)
			b.expectOn(t, "breth0")
			nodetest.Must(t, b.host.FakeNS.ReplaceAddr("eth0", newV4, netdev.AddrOptions{}))
			nodetest.Must(t, b.host.FakeNS.ReplaceRoute(via("0.0.0.0/0", "172.18.0.254", "eth0", 16)))
			converge(t, s)
			if got := b.addrsOf(t, "breth0"); !slices.Equal(got, []string{newV4.String(), nodeV6.String()}) {
				t.Errorf("breth0 has %v", got)
			}
			if b.hasRoute(t, via("10.9.0.0/16", "172.18.0.9", "breth0", 4)) || !b.hasRoute(t, via("0.0.0.0/0", "172.18.0.254", "breth0", 16)) {
				t.Errorf("routes of the earlier boot:\n%s", b.describe(t))
			}
			before := b.host.changes
			converge(t, s)
			if got := b.host.changes - before; got != 2 {
				t.Errorf("a pass over a settled node makes %d changes", got)
			}
			// What comes to a family that the host has configured joins.
			nodetest.Must(t, b.host.FakeNS.ReplaceAddr("eth0", nodeV4, netdev.AddrOptions{}))
			converge(t, s)
			if got := b.addrsOf(t, "breth0"); !slices.Equal(got, []string{nodeV4.String(), newV4.String(), nodeV6.String()}) {
				t.Errorf("with a further address breth0 has %v", got)
			}
		})
	}
}

// TestBoot_TakeoverIsVerifiedAgain: a kernel or an OVS through which no packets pass is no reason to be off the network for
// good.
func TestBoot_TakeoverIsVerifiedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBootBench(t)
		b.reboot(t, nodeV4, nodeV6)
		b.probe = func() error {
			if slices.Contains(b.addrsOf(t, "breth0"), nodeV4.String()) {
				return errors.New("no route to host")
			}
			return nil
		}
		if err := b.setup(t).pass(t.Context()); err == nil || !strings.Contains(err.Error(), "was reachable before") {
			t.Errorf("pass: %v", err)
		}
		b.expectOn(t, "eth0")
		if len(b.ports()) > 0 {
			t.Errorf("the bridge has the ports %v", b.ports())
		}
	})
}

// TestBoot_ServersWithoutAnswerBeforeAreNoReasonToUndo: after a power cut of all nodes no server answers at first.
func TestBoot_ServersWithoutAnswerBeforeAreNoReasonToUndo(t *testing.T) {
	b := newBootBench(t)
	b.reboot(t, nodeV4, nodeV6)
	b.probe = func() error { return context.DeadlineExceeded }
	converge(t, b.setup(t))
	b.expectOn(t, "breth0")
}

// TestBoot_NICStaysWithHostWithoutAgent: what ends before the agent has begun in a boot leaves the NIC as the host has it.
func TestBoot_NICStaysWithHostWithoutAgent(t *testing.T) {
	for name, end := range map[string]func(*Setup, context.Context) error{"fail-back": (*Setup).FailBack, "clean-up": (*Setup).Cleanup} {
		b := newBootBench(t)
		b.reboot(t, newV4)
		nodetest.Must(t, end(b.setup(t), t.Context()))
		if got := b.addrsOf(t, "eth0"); !slices.Equal(got, []string{newV4.String()}) {
			t.Errorf("after the %s eth0 has %v", name, got)
		}
	}
}

// TestBoot_ChangeOfModeBeforeTakeoverLeavesNICWithHost: the NIC has the host's addresses, and would be cut off as a port.
func TestBoot_ChangeOfModeBeforeTakeoverLeavesNICWithHost(t *testing.T) {
	b := newBootBench(t)
	b.reboot(t, nodeV4, nodeV6)
	s := b.setup(t)
	if detached, err := s.Detach(t.Context(), "eth0"); detached || err != nil {
		t.Errorf("detached %t, %v", detached, err)
	}
	nodetest.Must(t, s.Attach(t.Context(), "eth0"))
	if ports := b.ports(); slices.Contains(ports, "eth0") {
		t.Errorf("the bridge has the ports %v", ports)
	}
	converge(t, s)
	if detached, err := s.Detach(t.Context(), "eth0"); !detached || err != nil {
		t.Errorf("after the takeover: detached %t, %v", detached, err)
	}
	nodetest.Must(t, s.Attach(t.Context(), "eth0"))
	if ports := b.ports(); !slices.Contains(ports, "eth0") {
		t.Errorf("after the takeover the bridge has the ports %v", ports)
	}
}

// TestCheckpoint_LostBeforeBoot: the database of OVS has the bridge and its port still, and the host's addresses are on the NIC.
func TestCheckpoint_LostBeforeBoot(t *testing.T) {
	b := newBootBench(t)
	rows := b.db.Rows("Node/n1")
	b.reboot(t, nodeV4, nodeV6)
	nodetest.Must(t, os.Remove(b.cfg.Checkpoint))
	b.db.rows["Node/n1"] = rows // as a former version left it: not transient
	nodetest.Must(t, b.host.DeleteLink("eth0"))
	b.host.fake.AddLink("", netdev.Link{Name: "eth0", Up: true, MTU: 1500, Parent: nicDevice, Master: 77})
	for _, addr := range []netip.Prefix{nodeV4, nodeV6} {
		nodetest.Must(t, b.host.FakeNS.ReplaceAddr("eth0", addr, netdev.AddrOptions{}))
	}
	nodetest.Must(t, b.host.FakeNS.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("172.18.0.1"), Link: "eth0"}))
	s := b.setup(t)
	converge(t, s)
	b.expectOn(t, "breth0")
	nodetest.Must(t, s.Cleanup(t.Context()))
	b.expectOn(t, "eth0")
}

// TestCheckpoint_WithoutBootIsOfThisOne: an upgrade without a boot changes nothing but the file, and a former version reads
// the file.
func TestCheckpoint_WithoutBootIsOfThisOne(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	converge(t, b.setup(t))
	before := b.describe(t)
	b.cfg.Boot = "first"
	s := b.setup(t)
	converge(t, s)
	nodetest.Equal(t, "host", b.describe(t), before)
	text, err := os.ReadFile(b.cfg.Checkpoint)
	nodetest.Must(t, err)
	var former struct { // without the boot
		Interface string         `json:"interface"`
		Addresses []netip.Prefix `json:"addresses"`
		Routes    []netdev.Route `json:"routes"`
		Verified  bool           `json:"verified"`
	}
	nodetest.Must(t, json.Unmarshal(text, &former))
	if former.Interface != "eth0" || len(former.Addresses) != 2 || len(former.Routes) != 2 || !former.Verified || !strings.Contains(string(text), `"boot": "first"`) {
		t.Errorf("the file is %s", text)
	}
}
