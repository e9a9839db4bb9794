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

// further makes the pod; with the role primary, blue is the primary network of its namespace, which it does not ask for.
func (b *dpuBench) further(i int, role contract.Role, devices ...string) furtherPod {
	b.Helper()
	p := furtherPod{b.sandbox(fmt.Sprintf("web%d", i)), fmt.Sprintf("10.8.0.%d", i)}
	p.v4 = fmt.Sprintf("10.1.0.%d", i)
	value, first := "", map[string]any{"ip_addresses": []string{p.v4 + "/24"}, "mac_address": fmt.Sprintf("0a:00:00:00:01:%02x", i)}
	annotations := map[string]string{contract.NetworksKey: "blue"}
	blue := map[string]any{
		"ip_addresses": []string{p.blue + "/24"}, "mac_address": fmt.Sprintf("0a:00:00:00:08:%02x", i), "role": role,
		"interface": "net1", "network": "blue", "resource": "ovn-offload.io/vf",
	}
	if role == contract.RolePrimary {
		first["role"], blue["interface"], annotations = contract.RoleLocked, contract.PrimaryInterface, map[string]string{}
	}
	for key, n := range map[string]map[string]any{contract.DefaultNetwork: first, "default/blue": blue} {
		var err error
		value, err = contract.SetNetwork(value, key, n)
		ok(b, err)
	}
	b.c.nb("lsp-add", "s1", "default_"+p.name, "--", "lsp-set-addresses", "default_"+p.name, fmt.Sprintf("0a:00:00:00:01:%02x %s", i, p.v4))
	b.c.nb("lsp-add", "blue", p.logical(), "--", "lsp-set-addresses", p.logical(), fmt.Sprintf("0a:00:00:00:08:%02x %s", i, p.blue))
	annotations[contract.PodNetworksKey] = value
	p.create(annotations, devices...)
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

// testDPUNetworks: on secondary and primary networks, one ADD attaches a VF for each network of a pod, the DPU each representor to its logical port, and what two
// pods send on the further network is in the NIC. A pod is not reached there before its ADD and after its DEL.
func testDPUNetworks(b *dpuBench) {
	b.c.nb("ls-add", "blue")
	for i, role := range []contract.Role{contract.RoleSecondary, contract.RolePrimary} {
		b.networkOfRole(40+2*i, role)
	}
}

func (b *dpuBench) networkOfRole(i int, role contract.Role) {
	one, two := b.further(i, role, b.device(0), b.device(1)), b.further(i+1, role, b.device(2), b.device(3))
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
	link := map[contract.Role]string{contract.RoleSecondary: "net1", contract.RolePrimary: contract.PrimaryInterface}[role]
	run(b, inside(one.ns, "ip", "link", "show", link)...)
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
