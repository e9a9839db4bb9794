//go:build bench

package switchdev

import (
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// furtherPod is a pod of the host with a VF for eth0, and one for net1 on the network blue.
type furtherPod struct {
	*dpuPod
	blue string
}

func (b *dpuBench) further(i int, devices ...string) furtherPod {
	b.Helper()
	p := furtherPod{b.sandbox(fmt.Sprintf("web%d", i)), fmt.Sprintf("10.8.0.%d", i)}
	p.v4 = fmt.Sprintf("10.1.0.%d", i)
	value := ""
	for key, n := range map[string]map[string]any{
		contract.DefaultNetwork: {"ip_addresses": []string{p.v4 + "/24"}, "mac_address": fmt.Sprintf("0a:00:00:00:01:%02x", i)},
		"default/blue": {
			"ip_addresses": []string{p.blue + "/24"}, "mac_address": fmt.Sprintf("0a:00:00:00:08:%02x", i), "role": "secondary",
			"interface": "net1", "network": "blue", "resource": "ovn-offload.io/vf",
		},
	} {
		var err error
		value, err = contract.SetNetwork(value, key, n)
		ok(b, err)
	}
	b.c.nb("lsp-add", "s1", "default_"+p.name, "--", "lsp-set-addresses", "default_"+p.name, fmt.Sprintf("0a:00:00:00:01:%02x %s", i, p.v4))
	b.c.nb("lsp-add", "blue", p.logical(), "--", "lsp-set-addresses", p.logical(), fmt.Sprintf("0a:00:00:00:08:%02x %s", i, p.blue))
	p.create(map[string]string{contract.PodNetworksKey: value, contract.NetworksKey: "blue"}, devices...)
	return p
}

// logical is the logical port on the network blue.
func (p furtherPod) logical() string {
	return contract.Network{Name: "default/blue"}.PodPort("default", p.name)
}

// ports are the representors in br-int.
func (p furtherPod) ports() (eth0, net1 string) {
	p.Helper()
	return p.port(), p.b.dpu.vsctl("--bare", "--columns=name", "find", "Interface", "external_ids:iface-id="+p.logical())
}

// testDPUNetworks: one ADD attaches a VF for each network of a pod, the DPU each representor to its logical port, and what two
// pods send on the further network is in the NIC. A pod is not reached there before its ADD and after its DEL.
func testDPUNetworks(b *dpuBench) {
	b.c.nb("ls-add", "blue")
	one, two := b.further(40, b.device(0), b.device(1)), b.further(41, b.device(2), b.device(3))
	one.must("ADD")
	one.must("CHECK")
	reaches := func() bool {
		_, err := try(inside(one.ns, "ping", "-n", "-c3", "-i", "0.2", "-W1", two.blue)...)
		return err == nil
	}
	if reaches() {
		b.Error("a pod is reached on the further network before its ADD")
	}
	two.must("ADD")
	eventually(b, "the pods reach each other on the further network", patience, reaches)
	eth0, net1 := one.ports()
	if eth0 == "" || net1 == "" || eth0 == net1 {
		b.Errorf("ports %q and %q", eth0, net1)
	}
	b.dpu.carries(net1, func() { reaches() })
	two.must("DEL")
	if reaches() {
		b.Error("a pod is reached on the further network after its DEL")
	}
	one.must("DEL")
	b.host.idle()
	if eth0, net1 := one.ports(); eth0+net1 != "" {
		b.Errorf("after DEL: ports %q and %q", eth0, net1)
	}
}
