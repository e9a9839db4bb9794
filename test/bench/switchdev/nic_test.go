//go:build bench

package switchdev

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/devlink"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/test/bench/vm"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

func openNode(t *testing.T) (*vf.Node, *devlink.Devices) {
	t.Helper()
	host, err := netdev.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	devices, err := devlink.Open(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = devices.Close() })
	return &vf.Node{Sysfs: netdev.OpenSysfs("/sys"), Kernel: devices, Links: host, Events: devices}, devices
}

func inventory(t *testing.T, n *vf.Node) vf.Inventory {
	t.Helper()
	inv, err := n.Read()
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Problems) > 0 {
		t.Errorf("problems: %q", inv.Problems)
	}
	return inv
}

func pf(t *testing.T, inv vf.Inventory, pci string) vf.PF {
	t.Helper()
	for _, p := range inv.PFs {
		if p.Name == pci {
			return p
		}
	}
	t.Fatalf("%s is not in the inventory: %+v", pci, inv)
	return vf.PF{}
}

// TestInventory_FollowsChangesOfNIC follows a NIC through what administrators do to it.
func TestInventory_FollowsChangesOfNIC(t *testing.T) {
	tier.In(t, tier.Core, "bench")
	node, devices := openNode(t)
	pci := nics(t)[0]
	t.Cleanup(func() { nicSet(t, pci, "switchdev", "4") })
	nicSet(t, pci, "legacy", "4")
	if err := devices.SetEswitchMode(pci, "switchdev"); err != nil {
		t.Fatal(err)
	}
	p := pf(t, inventory(t, node), pci)
	if !p.Switchdev() || p.TotalVFs != vm.MaxVFs || len(p.VFs) != 4 || p.Uplink() == nil || len(p.Problems) > 0 || len(p.Representors) > 0 {
		t.Fatalf("switchdev with 4 VFs: %+v", p)
	}
	for i, v := range p.VFs {
		if v.Index != i || v.Driver != "swsim" || v.Netdev == nil || v.Representor == nil || v.Representor.Function.Number != uint32(i) {
			t.Errorf("VF %d: %+v", i, v)
		}
		peers(t, v)
	}

	if err := devices.SetHWTC(p.VFs[1].Representor.Name, true); err != nil {
		t.Error(err)
	}
	run(t, "devlink", "port", "function", "set", p.VFs[1].Representor.Name, "hw_addr", "02:00:00:00:00:07")
	v := pf(t, inventory(t, node), pci).VFs[1]
	if v.Representor.HWTC == nil || !*v.Representor.HWTC || v.Representor.FunctionMAC.String() != "02:00:00:00:00:07" {
		t.Errorf("after hw-tc-offload and hw_addr: %+v", v.Representor)
	}
	if mac, err := devices.FunctionMAC(v.Representor.Name); err != nil || mac.String() != "02:00:00:00:00:07" {
		t.Errorf("of the function, the MAC is %s: %v", mac, err)
	}
	if other := p.VFs[0].Representor; other.HWTC == nil || *other.HWTC || other.FunctionMAC != nil {
		t.Errorf("untouched: %+v", other)
	}

	vfio(t, node, pci, v.PCI.String())

	nicSet(t, pci, "legacy", "2")
	p = pf(t, inventory(t, node), pci)
	if p.Switchdev() || p.Eswitch.Mode != vf.Legacy || len(p.VFs) != 2 || p.VFs[0].Representor != nil || p.VFs[0].Netdev == nil {
		t.Errorf("legacy with 2 VFs: %+v", p)
	}
	nicSet(t, pci, "legacy", "0")
	if p = pf(t, inventory(t, node), pci); len(p.VFs) != 0 || p.Uplink() == nil {
		t.Errorf("no VFs: %+v", p)
	}
}

// peers sends a frame through the VF and looks for it at the representor that
// the inventory gives: names and numbers alone could be wrong together.
func peers(t *testing.T, v vf.VF) {
	t.Helper()
	if v.Netdev == nil || v.Representor == nil {
		return
	}
	count := func() string { return read(t, "/sys/class/net/"+v.Representor.Name+"/statistics/rx_packets") }
	run(t, "ip", "link", "set", v.Representor.Name, "up")
	run(t, "ip", "link", "set", v.Netdev.Name, "up")
	before := count()
	run(t, "ip", "neigh", "replace", "192.0.2.1", "lladdr", "02:00:00:00:00:01", "dev", v.Netdev.Name)
	run(t, "ip", "addr", "replace", "192.0.2.2/24", "dev", v.Netdev.Name)
	_, _ = try("ping", "-c1", "-W1", "-I", v.Netdev.Name, "192.0.2.1")
	eventually(t, "a frame of "+v.Netdev.Name+" at "+v.Representor.Name, 2*time.Second, func() bool { return count() != before })
	run(t, "ip", "addr", "flush", "dev", v.Netdev.Name)
}

// vfio gives a VF to a user space driver and back.
func vfio(t *testing.T, node *vf.Node, pci, function string) {
	t.Helper()
	device := "/sys/bus/pci/devices/" + function
	write(t, device+"/driver_override", "vfio-pci")
	write(t, device+"/driver/unbind", function)
	v := pf(t, inventory(t, node), pci).VFs[1]
	if v.Driver != "" || v.Netdev != nil || v.Representor == nil {
		t.Errorf("unbound: %+v", v)
	}
	write(t, "/sys/bus/pci/drivers_probe", function)
	if v = pf(t, inventory(t, node), pci).VFs[1]; v.Driver != "vfio-pci" || !v.Vfio() || v.Representor == nil {
		t.Errorf("bound to vfio: %+v", v)
	}
	write(t, device+"/driver_override", "\n")
	write(t, device+"/driver/unbind", function)
	write(t, "/sys/bus/pci/drivers_probe", function)
	v = pf(t, inventory(t, node), pci).VFs[1]
	if v.Driver != "swsim" || v.Netdev == nil || v.Netdev.MAC.String() != "02:00:00:00:00:07" {
		t.Errorf("bound again, the address set before in force: %+v", v)
	}
}

// TestWatch_ReportsEachChangeOfNIC: each change of a NIC is an event for pkg/netdev, and so a new inventory.
func TestWatch_ReportsEachChangeOfNIC(t *testing.T) {
	tier.In(t, tier.Core, "bench")
	node, _ := openNode(t)
	pci := nics(t)[0]
	nicSet(t, pci, "legacy", "0")
	t.Cleanup(func() { nicSet(t, pci, "switchdev", "4") })
	seen := make(chan vf.Inventory, 100)
	go func() { _ = node.Watch(t.Context(), func(inv vf.Inventory) { seen <- inv }) }()
	await := func(what string, ok func(vf.PF) bool) {
		t.Helper()
		limit := time.After(20 * time.Second)
		for {
			select {
			case inv := <-seen:
				if ok(pf(t, inv, pci)) {
					return
				}
			case <-limit:
				t.Fatalf("%s: no event brought it", what)
			}
		}
	}
	await("the beginning", func(p vf.PF) bool { return p.Eswitch.Mode == vf.Legacy && len(p.VFs) == 0 })
	write(t, driver+pci+"/sriov_numvfs", "2")
	await("VFs", func(p vf.PF) bool { return len(p.VFs) == 2 && p.VFs[1].Netdev != nil })
	// The kernel does not tell of a mode as such: representors do.
	run(t, "devlink", "dev", "eswitch", "set", "pci/"+pci, "mode", "switchdev")
	await("the mode", func(p vf.PF) bool { return p.Switchdev() && p.VFs[1].Representor != nil })
	run(t, "ip", "netns", "add", "away")
	t.Cleanup(func() { run(t, "ip", "netns", "del", "away") })
	inv := inventory(t, node)
	run(t, "ip", "link", "set", pf(t, inv, pci).VFs[0].Netdev.Name, "netns", "away")
	await("a VF in a pod", func(p vf.PF) bool { return p.VFs[0].Netdev == nil && p.VFs[0].Representor != nil })
}

// TestEswitchMode_ChangesUnderTraffic: a busy switch can go back to legacy and on again under traffic.
func TestEswitchMode_ChangesUnderTraffic(t *testing.T) {
	tier.In(t, "nic")
	pci := nics(t)[0]
	node, _ := openNode(t)
	t.Cleanup(func() { nicSet(t, pci, "switchdev", "4") })
	for range 3 {
		nicSet(t, pci, "switchdev", "2")
		p := pf(t, inventory(t, node), pci)
		bridge(t, p.VFs[0].Representor.Name, p.VFs[1].Representor.Name)
		a, b := pod(t, p.VFs[0].Netdev.Name, "192.0.2.1/24"), pod(t, p.VFs[1].Netdev.Name, "192.0.2.2/24")
		eventually(t, "traffic in switchdev mode", 10*time.Second, func() bool {
			_, err := try(inside(a, "ping", "-c1", "-W1", "192.0.2.2")...)
			return err == nil
		})
		run(t, "ip", "link", "del", "switch")
		if out, err := try(inside(a, "ping", "-c1", "-W1", "192.0.2.2")...); err == nil {
			t.Errorf("traffic past the representors: %s", out)
		}
		run(t, "devlink", "dev", "eswitch", "set", "pci/"+pci, "mode", "legacy")
		eventually(t, "traffic in legacy mode", 10*time.Second, func() bool {
			_, err := try(inside(b, "ping", "-c1", "-W1", "192.0.2.1")...)
			return err == nil
		})
		run(t, "ip", "netns", "del", a)
		run(t, "ip", "netns", "del", b)
	}
}

func bridge(t *testing.T, ports ...string) {
	t.Helper()
	run(t, "ip", "link", "add", "switch", "type", "bridge")
	run(t, "ip", "link", "set", "switch", "up")
	for _, port := range ports {
		run(t, "ip", "link", "set", port, "master", "switch", "up")
	}
}

// pod moves a VF into a namespace of its own.
func pod(t *testing.T, link, address string) string {
	t.Helper()
	ns := "pod-" + strings.ReplaceAll(strings.Split(address, "/")[0], ".", "-")
	run(t, "ip", "netns", "add", ns)
	run(t, "ip", "link", "set", link, "netns", ns)
	run(t, "ip", "-n", ns, "link", "set", link, "name", "eth0", "up")
	run(t, "ip", "-n", ns, "addr", "add", address, "dev", "eth0")
	return ns
}

// TestSimulatedNIC_FaultsComeAndGo: a fault that is asked for is there, and goes away again.
func TestSimulatedNIC_FaultsComeAndGo(t *testing.T) {
	tier.In(t, "nic")
	const knobs = "/sys/kernel/debug/swsim/"
	pci := nics(t)[0]
	node, _ := openNode(t)
	nicSet(t, pci, "switchdev", "2")
	t.Cleanup(func() { nicSet(t, pci, "switchdev", "4") })
	p := pf(t, inventory(t, node), pci)
	a, b := p.VFs[0].Representor.Name, p.VFs[1].Representor.Name
	run(t, "tc", "qdisc", "add", "dev", a, "clsact")
	rule := func(port string) (string, error) {
		return try("tc", "filter", "add", "dev", a, "ingress", "protocol", "ip", "flower", "skip_sw", "ip_proto", "tcp",
			"dst_port", port, "action", "mirred", "egress", "redirect", "dev", b)
	}
	if out, err := rule("1"); err == nil {
		t.Errorf("a rule was taken without hw-tc-offload: %s", out)
	}
	run(t, "ethtool", "-K", a, "hw-tc-offload", "on")
	if out, err := rule("1"); err != nil {
		t.Fatal(out)
	}
	for knob, value := range map[string]string{"fail_flower": "1", "max_flows": "1"} {
		write(t, knobs+knob, value)
		out, err := rule("2")
		write(t, knobs+knob, "0")
		if err == nil || !strings.Contains(out, "no space") {
			t.Errorf("%s: %v %s", knob, err, out)
		}
	}
	if out, err := rule("2"); err != nil {
		t.Errorf("the knobs are back: %s", out)
	}
	if flows := read(t, knobs+"flows"); strings.Count(flows, "dev="+a) != 2 {
		t.Errorf("flows: %s", flows)
	}
	// The rules go with the port: none is left over that points nowhere.
	write(t, driver+pci+"/sriov_numvfs", "0")
	if flows := read(t, knobs+"flows"); flows != "" {
		t.Errorf("rules without their port: %s", flows)
	}
	if _, err := os.Stat("/sys/class/net/" + a); err == nil {
		t.Errorf("%s is still there", a)
	}
}
