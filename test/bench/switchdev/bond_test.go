//go:build bench

package switchdev

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
	"github.com/ovn-offload/ovn-offload/test/bench/machine"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// bondPorts are the names of the bond's ports: none that the kernel gives to a new netdev.
func bondPorts() []string { return []string{"wan0", "wan1"} }

// TestUplink_BondChangesPortAfterPort: both ports of one card are in a bond with the node's address. One object takes them
// from legacy to switchdev mode with VFs, while an external host pings the node, and its end takes them back. The driver
// makes new netdevs. The control, a policy that selects one of the ports, is refused.
func TestUplink_BondChangesPortAfterPort(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "pkg/vf/setup and pkg/node/uplink have the same in memory")
	ports := oneCard(t)
	bonded(t, ports, "active-backup")
	n := bondPolicies(t)
	pinged := machine.Ping(t, "outside", gatewayNode)
	policy := &v1alpha1.OffloadPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}, Spec: v1alpha1.OffloadPolicySpec{
		PFSelector: v1alpha1.PFSelector{PCIAddresses: ports[:1]}, NumVFs: 2, UplinkChange: v1alpha1.UplinkInPlace, Drain: v1alpha1.DrainNone,
	}}
	n.set(policy)
	n.await(t, "p Refused")
	if got := n.Results()[0].Message; !strings.Contains(got, "the policy does not select wan1") {
		t.Errorf("one port selected: %s", got)
	}
	pinged.Report("while the change is refused", 10*time.Second)

	both := *policy
	both.Spec.PFSelector.PCIAddresses, both.Generation = ports, 2
	n.set(&both)
	n.await(t, "p Applied, p Applied")
	wantBond(t, n.node, vf.Switchdev, 2)
	pinged.Report("from legacy to switchdev", 15*time.Second)

	n.set()
	n.await(t, "")
	wantBond(t, n.node, vf.Legacy, 0)
	pinged.Report("from switchdev to legacy", 15*time.Second)
}

// TestUplink_BondWithLACPChangesPortAfterPort: the same with mode 802.3ad. The second port changes when the switch has
// accepted the first one again, and the policy is applied when the switch has accepted both. In the control the switch has
// one of the ports in no aggregator: the other port is not touched.
func TestUplink_BondWithLACPChangesPortAfterPort(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "pkg/vf/setup and pkg/node/uplink have the same in memory")
	ports := oneCard(t)
	bonded(t, ports, "802.3ad")
	n := bondPolicies(t)
	eventually(t, "both ports have negotiated", patience, func() bool { return len(portsWithLACP(t, n.node)) == 2 })
	pinged := machine.Ping(t, "outside", gatewayNode)
	policy := &v1alpha1.OffloadPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}, Spec: v1alpha1.OffloadPolicySpec{
		PFSelector: v1alpha1.PFSelector{PCIAddresses: ports}, NumVFs: 2, UplinkChange: v1alpha1.UplinkInPlace, Drain: v1alpha1.DrainNone,
	}}
	n.set(policy)
	n.await(t, "p Applied, p Applied")
	if got := portsWithLACP(t, n.node); len(got) != 2 {
		t.Errorf("applied, and only %q have negotiated", got)
	}
	wantBond(t, n.node, vf.Switchdev, 2)
	pinged.Report("from legacy to switchdev", 15*time.Second)
	n.set()
	n.await(t, "")
	if got := portsWithLACP(t, n.node); len(got) != 2 {
		t.Errorf("taken back, and only %q have negotiated", got)
	}
	wantBond(t, n.node, vf.Legacy, 0)
	pinged.Report("from switchdev to legacy", 15*time.Second)

	batch(t, "outside", "link set swsimw1 nomaster", "link set swsimw1 up")
	eventually(t, "the switch does not answer wan1", patience, func() bool { return len(portsWithLACP(t, n.node)) == 1 })
	again := *policy
	again.Generation = 2
	n.set(&again)
	eventually(t, "a port is refused", patience, func() bool {
		for _, r := range n.Results() {
			if strings.Contains(r.Message, "the other port wan1 has not negotiated LACP with the switch") && r.Device == ports[0] {
				return true
			}
		}
		return false
	})
	pinged.Report("while one port is refused", 15*time.Second)
}

// portsWithLACP names the ports that the switch has accepted.
func portsWithLACP(t *testing.T, n *vf.Node) (names []string) {
	t.Helper()
	for _, pf := range inventory(t, n).PFs {
		if up := pf.Uplink(); up != nil && up.LACP {
			names = append(names, up.Name)
		}
	}
	return names
}

// oneCard makes both NICs ports of one card, bare, whose driver makes a new netdev with each mode.
func oneCard(t *testing.T) []string {
	t.Helper()
	ports := nics(t)
	if len(ports) != 2 {
		t.Fatalf("NICs %q", ports)
	}
	rebind := func(one string) {
		write(t, moduleParameters+"one_card", one)
		for _, do := range []string{"unbind", "bind"} {
			for _, pci := range ports {
				write(t, driver+do, pci)
			}
		}
	}
	for _, pci := range ports {
		nicSet(t, pci, "legacy", "0")
	}
	rebind("1")
	write(t, moduleParameters+"new_uplink", "1")
	t.Cleanup(func() {
		write(t, moduleParameters+"new_uplink", "0")
		for _, pci := range ports {
			nicSet(t, pci, "legacy", "0")
		}
		rebind("0")
		for _, pci := range ports {
			nicSet(t, pci, "switchdev", "4")
		}
	})
	return ports
}

// bonded puts both ports into a bond, whose cables lead to one switch. With mode 802.3ad the switch has its ports in a bond.
func bonded(t *testing.T, ports []string, mode string) {
	t.Helper()
	run(t, "ip", "netns", "add", "outside")
	t.Cleanup(func() {
		_, _ = try("ip", "link", "del", "bond0")
		for _, wire := range []string{"swsimw0", "swsimw1"} {
			_, _ = try("ip", "-n", "outside", "link", "set", wire, "nomaster", "netns", "1")
		}
		_, _ = try("ip", "netns", "del", "outside")
	})
	kind, options := "bridge", ""
	if mode == "802.3ad" {
		options = " lacp_rate fast"
		kind = "bond mode 802.3ad miimon 100" + options
	}
	batch(t, "outside", "link add switch type "+kind, "link set switch up", "addr add "+gatewayOutside+"/24 dev switch")
	run(t, strings.Fields("ip link add bond0 type bond mode "+mode+" miimon 100"+options)...)
	for i, pci := range ports {
		wire := "swsimw" + string(rune('0'+i))
		run(t, "ip", "link", "set", wire, "netns", "outside")
		batch(t, "outside", "link set "+wire+" down", "link set "+wire+" master switch", "link set "+wire+" up")
		run(t, "ip", "link", "set", uplinkOf(t, pci), "down", "name", bondPorts()[i])
		run(t, "ip", "link", "set", bondPorts()[i], "master", "bond0")
	}
	run(t, "ip", "link", "set", "bond0", "up")
	run(t, "ip", "addr", "add", gatewayNode+"/24", "dev", "bond0")
}

// wantBond looks at both ports in the inventory, which the agent's is.
func wantBond(t *testing.T, n *vf.Node, mode vf.Mode, vfs int) {
	t.Helper()
	inv := inventory(t, n)
	for _, pf := range inv.PFs {
		up := pf.Uplink()
		if pf.Eswitch.Mode != mode || pf.NumVFs != vfs || up == nil || up.Master != "bond0" || !up.Up {
			t.Errorf("%s: mode %s, %d VFs, %+v", pf.Name, pf.Eswitch.Mode, pf.NumVFs, up)
		}
	}
	if len(inv.Bonds) != 1 || strings.Join(inv.Bonds[0].Ports, " ") != strings.Join(bondPorts(), " ") || inv.Bonds[0].LAG != (mode == vf.Switchdev) {
		t.Errorf("bonds %+v", inv.Bonds)
	}
}

// pingedGateway is the gateway of a node without bridges, whose only server answers pings.
type pingedGateway struct{}

func (pingedGateway) Pause() func() { return func() {} }

func (pingedGateway) Detach(context.Context, string) (bool, error) {
	return false, errors.New("no bridge")
}

func (pingedGateway) Attach(context.Context, string) error { return errors.New("no bridge") }

func (g pingedGateway) Reachable(ctx context.Context) []string {
	if g.Verify(ctx, nil) != nil {
		return nil
	}
	return []string{"outside"}
}

func (pingedGateway) Verify(context.Context, []string) error {
	_, err := try("ping", "-n", "-c1", "-w10", gatewayOutside)
	return err
}

// bondPolicies is the agent's part for OffloadPolicies on a host without OVS.
func bondPolicies(t *testing.T) *policyNode {
	t.Helper()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	devices, kernel := openNode(t)
	host, err := netdev.Open("")
	ok(t, err)
	t.Cleanup(func() { _ = host.Close() })
	n := &policyNode{node: devices}
	dir := t.TempDir()
	mover, err := uplink.New(filepath.Join(dir, "uplink.json"), "boot", uplink.Deps{
		Netns: node.Local{NS: host}, NIC: kernelNIC{kernel}, Gateway: pingedGateway{}, Logger: log,
		Uplink: func(device string) (string, error) { return uplinkIn(devices, device) },
	})
	ok(t, err)
	n.Runner, err = setup.New(filepath.Join(dir, "policy.json"), "boot", setup.Deps{
		Policies: n.list, NodeObject: func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}} },
		Inventory: devices.Read, InUse: func() map[string]string { return nil },
		Busy: setup.Busy{Pods: func() []string { return nil }, Uplinks: mover},
		Hold: func([]string, string) (func(), error) { return func() {}, nil },
		NIC:  kernelNIC{kernel}, OVS: setup.DPUOVS{}, // there is no OVS
		Changed: func() {}, Warn: func(string) {}, Logger: log, Registerer: prometheus.NewRegistry(),
	})
	ok(t, err)
	n.runs(t)
	return n
}
