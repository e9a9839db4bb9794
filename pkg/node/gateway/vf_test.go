package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/device"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// settledOnBridge and settledOnVF are a node of which the NIC has a VF.
const settledOnBridge = `br-int up=false mtu=1500 []
breth0 up=true mtu=1500 [169.254.0.2/17 172.18.0.3/16 fc00:18::3/64 fd69::2/112]
eth0 up=true mtu=1500 []
lo up=true mtu=0 []
net/ipv4/conf/%/arp_ignore=0
net/ipv4/conf/%/rp_filter=0
net/ipv6/conf/%/disable_ipv6=0
ovn-k8s-mp0 up=true mtu=1442 [10.244.1.2/24 fd00:10:244:1::2/64]
rep1 up=false mtu=1500 []
route 0.0.0.0/0 via 172.18.0.1 dev breth0 metric 0 proto 4
route 10.244.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0 metric 0 proto 85
route 10.9.0.0/16 via 172.18.0.9 and 172.18.0.8 dev breth0 metric 7 proto 4
route 10.96.0.0/16 via 169.254.0.4 dev breth0 metric 0 proto 85
route 169.254.0.1/32 dev breth0 metric 0 proto 85
route 169.254.0.8/32 via 169.254.0.4 dev breth0 metric 0 proto 85
route fd00:10:244::/48 via fd00:10:244:1::1 dev ovn-k8s-mp0 metric 1024 proto 85
route fd00:10:96::/112 via fd69::4 dev breth0 metric 1024 proto 85
route fd69::1/128 dev breth0 metric 1024 proto 85
route fd69::8/128 via fd69::4 dev breth0 metric 1024 proto 85
vf1 up=false mtu=9000 []`

var settledOnVF = strings.NewReplacer(
	"breth0 up=true mtu=1500 [169.254.0.2/17 172.18.0.3/16 fc00:18::3/64 fd69::2/112]", "breth0 up=false mtu=1500 []",
	"rep1 up=false", "rep1 up=true", "dev breth0", "dev vf1",
	"vf1 up=false mtu=9000 []", "vf1 up=true mtu=1500 [169.254.0.2/17 172.18.0.3/16 fc00:18::3/64 fd69::2/112]",
).Replace(settledOnBridge)

// backOnBridge differs by a representor of no pod, which stays up.
var backOnBridge = strings.Replace(settledOnBridge, "rep1 up=false", "rep1 up=true", 1)

func newVFBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.cfg.Datapath = DatapathSystem
	b.ovnController()
	b.addVF()
	return b
}

func (b *bench) addVF() {
	b.host.fake.AddLink("", netdev.Link{Name: "vf1", MTU: 9000, Parent: "0000:03:00.3"})
	b.host.fake.AddLink("", netdev.Link{Name: "rep1", MTU: 1500})
}

func (b *bench) give() { b.function = &node.VF{Device: "0000:03:00.3", Representor: "rep1"} }

// TestGatewayVF_AddressesMoveThereAndBack: the node's addresses move to the VF and back, and external
// hosts see no difference.
func TestGatewayVF_AddressesMoveThereAndBack(t *testing.T) {
	b := newVFBench(t)
	was, nic := b.mac(t, "vf1"), b.mac(t, "eth0")
	s := b.setup(t)
	tables := flowTables{}
	s.deps.Flows = tables
	converge(t, s)
	nodetest.Equal(t, "without a VF", b.describe(t), settledOnBridge)
	annotated := b.annotated

	b.give()
	converge(t, s)
	nodetest.Equal(t, "with a VF", b.describe(t), settledOnVF)
	if got := b.mac(t, "vf1"); got != nic || b.mac(t, "breth0") != nic {
		t.Errorf("the VF has the MAC %s, the NIC has %s", got, nic)
	}
	if diff := cmp.Diff(annotated, b.annotated); diff != "" {
		t.Errorf("annotations (-before +after):\n%s", diff)
	}
	if flows := strings.Join(tables["breth0"], "\n"); !strings.Contains(flows, "table=5,") || testutil.ToFloat64(s.metrics.vf) != 1 {
		t.Errorf("the VF is no port of the host:\n%s", flows)
	}
	before := b.host.changes
	converge(t, s)
	if got := b.host.changes - before; got != 2 {
		t.Errorf("a pass over a settled node makes %d changes", got)
	}

	b.function = nil
	converge(t, s)
	nodetest.Equal(t, "without a VF again", b.describe(t), backOnBridge)
	if got := b.mac(t, "vf1"); got != was {
		t.Errorf("the VF has the MAC %s, and had %s", got, was)
	}
	if flows := strings.Join(tables["breth0"], "\n"); strings.Contains(flows, "table=5,") || testutil.ToFloat64(s.metrics.vf) != 0 {
		t.Errorf("the VF is a port of the host still:\n%s", flows)
	}
	if rows := b.db.rows["Node/n1"]; slices.ContainsFunc(rows, isRow("rep1")) {
		t.Errorf("the representor is a port of the bridge still: %v", rows)
	}
}

func isRow(id string) func(ovsdb.Row) bool {
	return func(row ovsdb.Row) bool { return row.ID == id }
}

// TestGatewayVF_CrashAtEachStepRecovers: wherever the process is killed, on the way there and on the
// way back, the host has its address, and the next process ends at the same state.
func TestGatewayVF_CrashAtEachStepRecovers(t *testing.T) {
	ways := map[string]struct {
		turn func(*bench)
		want string
	}{"there": {(*bench).give, settledOnVF}, "back": {func(b *bench) { b.function = nil }, backOnBridge}}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for crash := 1; crashGatewayVF(t, crash, name == "back", way.turn, way.want); crash++ {
				if crash > 100 {
					t.Fatal("no end of changes")
				}
			}
		})
	}
}

// crashGatewayVF is false when there were not so many changes.
func crashGatewayVF(t *testing.T, crash int, onVF bool, turn func(*bench), want string) bool {
	t.Helper()
	b := newVFBench(t)
	if onVF {
		b.give()
	}
	was := b.mac(t, "vf1")
	converge(t, b.setup(t))
	b.host.naked = func() error { return hasAddress(b.host) }
	turn(b)
	b.host.changes, b.host.crashAt = 0, crash
	first := b.setup(t)
	for range 6 {
		_ = first.pass(t.Context())
	}
	crashed := b.host.changes >= crash
	b.host.crashAt = 0
	second := b.setup(t)
	converge(t, second)
	converge(t, second)
	nodetest.Equal(t, fmt.Sprintf("host after a crash at change %d", crash), b.describe(t), want)
	if onVF && b.mac(t, "vf1") != was {
		t.Errorf("after a crash at change %d the VF has the MAC %s, and had %s", crash, b.mac(t, "vf1"), was)
	}
	return crashed
}

// TestGatewayVF_LostVFReturnsAddressesToBridge: with the VF or its representor gone the bridge has the
// addresses, and the VF again when it is back.
func TestGatewayVF_LostVFReturnsAddressesToBridge(t *testing.T) {
	for _, lost := range [][]string{{"vf1"}, {"rep1"}, {"vf1", "rep1"}} {
		t.Run(strings.Join(lost, " "), func(t *testing.T) {
			b := newVFBench(t)
			b.give()
			s := b.setup(t)
			converge(t, s)
			for _, name := range lost {
				nodetest.Must(t, b.host.DeleteLink(name))
			}
			if err := s.pass(t.Context()); !errors.Is(err, reconcile.ErrNotReady) || s.Ready() != nil || s.GatewayVFProblem() == nil {
				t.Errorf("pass: %v, ready: %v, problem: %v", err, s.Ready(), s.GatewayVFProblem())
			}
			b.expect(t, "breth0")
			for _, name := range []string{"vf1", "rep1"} {
				_ = b.host.DeleteLink(name)
			}
			b.addVF()
			converge(t, s)
			if s.GatewayVFProblem() != nil {
				t.Errorf("problem: %v", s.GatewayVFProblem())
			}
			nodetest.Equal(t, "host", b.describe(t), settledOnVF)
		})
	}
}

// TestGatewayVF_LostBridgeReturnsAddressesToNIC: where the bridge has gone the VF leads nowhere, and
// the NIC has the addresses.
func TestGatewayVF_LostBridgeReturnsAddressesToNIC(t *testing.T) {
	b := newVFBench(t)
	b.give()
	s := b.setup(t)
	converge(t, s)
	b.removeSwitchLinks()
	b.host.naked = func() error { return hasAddress(b.host) }
	if err := s.pass(t.Context()); !errors.Is(err, reconcile.ErrNotReady) {
		t.Errorf("pass: %v", err)
	}
	b.expect(t, "eth0")
	b.makeSwitchLinks()
	converge(t, s)
	nodetest.Equal(t, "host", b.describe(t), settledOnVF)
}

// TestGatewayVF_LosesAddressesWithoutConnectivity: a VF by which nothing is reached loses the addresses, and
// gets them when it is tried again and works.
func TestGatewayVF_LosesAddressesWithoutConnectivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newVFBench(t)
		s := b.setup(t)
		converge(t, s)
		blocked := true
		b.probe = func() error {
			if addrs, _ := b.host.Addrs("vf1"); blocked && len(addrs) > 0 {
				return errors.New("no route to host")
			}
			return nil
		}
		b.give()
		_ = s.pass(t.Context()) // makes the port
		if err := s.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "api was reachable before") {
			t.Fatalf("pass: %v", err)
		}
		if err := s.pass(t.Context()); err == nil || s.Ready() != nil || !strings.Contains(s.GatewayVFProblem().Error(), "is tried again in") {
			t.Errorf("pass: %v, ready: %v", err, s.Ready())
		}
		nodetest.Equal(t, "host", b.describe(t), backOnBridge)
		blocked = false
		s.vfRetry = s.vfRetry.Add(-retryPause)
		converge(t, s)
		nodetest.Equal(t, "host", b.describe(t), settledOnVF)
	})
}

// TestGatewayVF_NextProcessEndsTrial: a process that is killed before it knows leaves the
// question to the next one.
func TestGatewayVF_NextProcessEndsTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newVFBench(t)
		first := b.setup(t)
		converge(t, first)
		b.give()
		_ = first.pass(t.Context())
		g, err := first.gateway(t.Context())
		nodetest.Must(t, err)
		st, err := first.look(t.Context())
		nodetest.Must(t, err)
		for _, step := range planSettle(b.cfg, st, g) {
			if _, ok := step.(node.Verify); ok {
				break // and no further
			}
			nodetest.Must(t, step.Apply(t.Context(), first.Host))
		}
		b.expect(t, "vf1")
		b.probe = func() error {
			if addrs, _ := b.host.Addrs("vf1"); len(addrs) > 0 {
				return errors.New("no route to host")
			}
			return nil
		}
		second := b.setup(t)
		if err := second.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "api was reachable before") {
			t.Errorf("pass: %v", err)
		}
		_ = second.pass(t.Context())
		b.expect(t, "breth0")
	})
}

// TestGatewayVF_RefusedMACMovesNothing: a VF that does not take the MAC stays without the addresses.
func TestGatewayVF_RefusedMACMovesNothing(t *testing.T) {
	b := newVFBench(t)
	s := b.setup(t)
	converge(t, s)
	b.host.naked = func() error { return hasAddress(b.host) }
	b.host.fake.FailWith(func(op, name string) error {
		if op == "SetLink" && name == "vf1" {
			return errors.New("operation not permitted")
		}
		return nil
	})
	b.give()
	_ = s.pass(t.Context())
	if err := s.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "operation not permitted") {
		t.Errorf("pass: %v", err)
	}
	_ = s.pass(t.Context())
	b.expect(t, "breth0")
	if s.Ready() != nil {
		t.Errorf("ready: %v", s.Ready())
	}
}

// TestGatewayVF_UnknownDevicesMoveNothing: an agent that does not know its devices yet leaves the
// addresses where they are, and one without its checkpoint finds them.
func TestGatewayVF_UnknownDevicesMoveNothing(t *testing.T) {
	b := newVFBench(t)
	b.give()
	converge(t, b.setup(t))
	b.function, b.unknown = nil, errors.New("the node's devices are not known yet")
	s := b.setup(t)
	if err := s.pass(t.Context()); err == nil || s.Ready() != nil {
		t.Errorf("pass: %v, ready: %v", err, s.Ready())
	}
	nodetest.Equal(t, "host", b.describe(t), settledOnVF)

	b.unknown = nil
	b.give()
	nodetest.Must(t, os.Remove(b.cfg.Checkpoint))
	b.host.naked = func() error { return hasAddress(b.host) }
	converge(t, b.setup(t))
	nodetest.Equal(t, "host without its checkpoint", b.describe(t), settledOnVF)
}

func TestGatewayVF_CleanupRestoresHost(t *testing.T) {
	b := newVFBench(t)
	before, was := b.describe(t), b.mac(t, "vf1")
	b.give()
	converge(t, b.setup(t))
	b.function = nil
	b.host.naked = func() error { return hasAddress(b.host) }
	nodetest.Must(t, b.setup(t).Cleanup(t.Context()))
	nodetest.Equal(t, "host", strings.Replace(b.describe(t), "rep1 up=true", "rep1 up=false", 1), before)
	if got := b.mac(t, "vf1"); got != was {
		t.Errorf("the VF has the MAC %s, and had %s", got, was)
	}
}

// TestGatewayVF_LeftOutForHostBridgeAndUserspace: a host's own bridge, and the userspace datapath.
func TestGatewayVF_LeftOutForHostBridgeAndUserspace(t *testing.T) {
	b := newVFBench(t)
	b.cfg.Datapath = DatapathUserspace
	b.give()
	s := b.setup(t)
	converge(t, s)
	b.expect(t, "breth0")
	g := Gateway{Bridge: "br-ex"}
	if st := (State{VF: b.function}); moving(st, g) || vfLacks(st, g) == nil || len(planSettle(b.cfg, st, g)) > 0 {
		t.Error("a host's own bridge loses its addresses to a VF")
	}
}

// TestGatewayVF_NeedsWholePathOfVF: packets have to pass all of the VF's way.
func TestGatewayVF_NeedsWholePathOfVF(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State, *Checkpoint)
		want   string
	}{
		"whole":                          {func(*State, *Checkpoint) {}, "vf1"},
		"no netdev":                      {func(s *State, _ *Checkpoint) { delete(s.Links, "vf1") }, "breth0"},
		"its netdev is another's port":   {func(s *State, _ *Checkpoint) { s.Links["vf1"] = netdev.Link{Name: "vf1", Parent: "pci", Master: 7} }, "breth0"},
		"no representor":                 {func(s *State, _ *Checkpoint) { delete(s.Links, "rep1") }, "breth0"},
		"not a port yet":                 {func(s *State, _ *Checkpoint) { s.Ours = nil }, "breth0"},
		"not opened":                     {func(s *State, _ *Checkpoint) { s.OFPorts = nil }, "breth0"},
		"the first takeover is on trial": {func(_ *State, c *Checkpoint) { c.Verified = false }, "breth0"},
		"another VF":                     {func(s *State, _ *Checkpoint) { s.VF = &node.VF{Device: "other"} }, "breth0"},
		"none any more":                  {func(s *State, _ *Checkpoint) { s.VF = nil }, "breth0"},
		"there was none":                 {func(_ *State, c *Checkpoint) { c.VF = nil }, "breth0"},
	} {
		s := State{
			State: node.State{
				Links: map[string]netdev.Link{"vf1": {Name: "vf1", Parent: "pci"}, "rep1": {Name: "rep1"}},
				Ours:  map[string]bool{"rep1": true},
			}, OFPorts: map[string]int{"rep1": 3}, VF: &node.VF{Device: "pci", Representor: "rep1"},
		}
		checkpoint := Checkpoint{Bridge: "breth0", Verified: true, VF: &CheckpointVF{Device: "pci", Representor: "rep1"}}
		c.change(&s, &checkpoint)
		if got := hostLinkOf(s, checkpoint); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestCapture_InterruptedMoveKeepsAddresses: a move that was cut short takes nothing away, and what has to
// be reachable after it stays known.
func TestCapture_InterruptedMoveKeepsAddresses(t *testing.T) {
	second := netip.MustParsePrefix("172.18.0.33/16")
	saved := Checkpoint{
		Identity: device.Identity{Interface: "eth0"}, Bridge: "breth0", Verified: true, LastPlace: LastPlace{Index: 5}, Addresses: []netip.Prefix{nodeV4, second}, Trial: []string{"api"},
		VF: &CheckpointVF{Device: "pci", Representor: "rep1"},
	}
	s := State{
		State: node.State{
			Links: map[string]netdev.Link{"eth0": {Name: "eth0"}, "breth0": {Name: "breth0", Index: 5}, "vf1": {Name: "vf1", Index: 6, Parent: "pci"}, "rep1": {}},
			Addrs: map[string][]netip.Prefix{"vf1": {nodeV4, second}, "breth0": {second}},
			Ours:  map[string]bool{"rep1": true},
		}, OFPorts: map[string]int{"rep1": 3},
		VF: &node.VF{Device: "pci", Representor: "rep1"}, Saved: &saved,
	}
	g := Gateway{Bridge: "breth0", NIC: "eth0"}
	if got := capture(s, g); !got.equal(saved) || !moving(s, g) {
		t.Errorf("the checkpoint becomes %+v", got)
	}
	// The move is through: the VF is followed.
	saved.Index = 6
	s.Addrs["vf1"], s.Addrs["breth0"] = []netip.Prefix{second}, nil
	if got := capture(s, g); !slices.Equal(got.Addresses, []netip.Prefix{second}) || moving(s, g) {
		t.Errorf("an address that an administrator took away from the VF: %+v", got)
	}
}
