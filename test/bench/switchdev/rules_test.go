//go:build bench

package switchdev

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestSimulatedNIC_CarriesOutRules: the NIC carries out what TC gives it, without software behind it,
// counts it, and stops when it is taken away.
func TestSimulatedNIC_CarriesOutRules(t *testing.T) {
	tier.In(t, "nic")
	p, a, _ := rulePods(t)
	reaches := func() bool {
		_, err := try(inside(a, "ping", "-c1", "-W1", "192.0.2.2")...)
		return err == nil
	}
	if reaches() {
		t.Fatal("traffic without any rule")
	}
	left, right := p.VFs[0].Representor.Name, p.VFs[1].Representor.Name
	redirect(t, left, right)
	redirect(t, right, left)
	eventually(t, "traffic by rules alone", 10*time.Second, reaches)
	before := seen(t, left)
	run(t, inside(a, "ping", "-c", "20", "-i", "0.02", "192.0.2.2")...)
	if now := seen(t, left); now != before {
		t.Errorf("%s packets came to the representor, %s before", now, before)
	}
	_, devices := openNode(t)
	if err := devices.SetHWTC(left, false); !errors.Is(err, netdev.ErrStillEnabled) {
		t.Errorf("hw-tc-offload off under a rule: %v", err)
	}
	stats := run(t, "tc", "-s", "filter", "show", "dev", left, "ingress")
	if !strings.Contains(stats, "in_hw") || !strings.Contains(stats, "Sent hardware") {
		t.Errorf("no hardware counters:\n%s", stats)
	}
	run(t, "tc", "filter", "del", "dev", left, "ingress")
	if reaches() {
		t.Error("traffic after the rule has gone")
	}
	if err := devices.SetHWTC(left, false); err != nil {
		t.Error(err)
	}
	if seen(t, left) == before {
		t.Error("without the rule packets should come to the representor")
	}
}

// TestSimulatedNIC_IsRemovedUnderTraffic: functions, VFs and the NIC can go at any time under traffic. The
// kernel's own checks are what would find a mistake; benchvm fails by them.
func TestSimulatedNIC_IsRemovedUnderTraffic(t *testing.T) {
	tier.In(t, "nic")
	p, a, b := rulePods(t)
	pci := p.Name
	left, right := p.VFs[0].Representor.Name, p.VFs[1].Representor.Name
	for _, link := range []string{left, right} {
		redirect(t, link, map[string]string{left: right, right: left}[link])
	}
	for ns, address := range map[string]string{a: "192.0.2.2", b: "192.0.2.1"} {
		flood := exec.Command("ip", "netns", "exec", ns, "ping", "-f", "-q", address)
		if err := flood.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = flood.Process.Kill(); _ = flood.Wait() }()
	}
	time.Sleep(time.Second)
	vf1 := function(t, pci, 1)
	for range 3 {
		write(t, driver+"unbind", vf1)
		time.Sleep(200 * time.Millisecond)
		write(t, driver+"bind", vf1)
	}
	run(t, "devlink", "dev", "eswitch", "set", "pci/"+pci, "mode", "legacy")
	run(t, "devlink", "dev", "eswitch", "set", "pci/"+pci, "mode", "switchdev")
	write(t, driver+pci+"/sriov_numvfs", "0")
	write(t, driver+"unbind", pci)
	write(t, driver+"bind", pci)
	nicSet(t, pci, "switchdev", "4")
	if flows := read(t, "/sys/kernel/debug/swsim/flows"); flows != "" {
		t.Errorf("rules of a NIC that was gone: %s", flows)
	}
}

// rulePods gives a NIC with two pods, 192.0.2.1 and 192.0.2.2, whose
// representors are up but joined by nothing.
func rulePods(t *testing.T) (_ vf.PF, a, b string) {
	t.Helper()
	node, devices := openNode(t)
	pci := nics(t)[0]
	nicSet(t, pci, "switchdev", "2")
	p := pf(t, inventory(t, node), pci)
	for _, v := range p.VFs {
		if err := devices.SetHWTC(v.Representor.Name, true); err != nil {
			t.Fatal(err)
		}
		run(t, "ip", "link", "set", v.Representor.Name, "up")
		run(t, "tc", "qdisc", "add", "dev", v.Representor.Name, "clsact")
	}
	a, b = pod(t, p.VFs[0].Netdev.Name, "192.0.2.1/24"), pod(t, p.VFs[1].Netdev.Name, "192.0.2.2/24")
	t.Cleanup(func() {
		run(t, "ip", "netns", "del", a)
		run(t, "ip", "netns", "del", b)
		nicSet(t, pci, "switchdev", "4")
	})
	return p, a, b
}

func redirect(t *testing.T, from, to string) {
	t.Helper()
	run(t, "tc", "filter", "add", "dev", from, "ingress", "protocol", "all", "flower", "skip_sw",
		"action", "mirred", "egress", "redirect", "dev", to)
}

func seen(t *testing.T, link string) string {
	t.Helper()
	return read(t, "/sys/class/net/"+link+"/statistics/rx_packets")
}
