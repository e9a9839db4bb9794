//go:build bench

package switchdev

import (
	"fmt"
	"testing"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPhysicalNetwork_VLANOfPortStaysWithNode is why the agent accepts an interface whose VLAN link has the node's address
// for a bridge of a physical network: the kernel gives packets to a VLAN link before Open vSwitch gets them. The control is
// an address on the interface itself, which the agent refuses: it does not answer any more.
func TestPhysicalNetwork_VLANOfPortStaysWithNode(t *testing.T) {
	tier.In(t, "bench")
	dir := containerOVS(t)
	vsctl := func(words ...string) {
		t.Helper()
		run(t, append([]string{"ovs-vsctl", "--db=unix:" + dir + "/db.sock", "--timeout=60"}, words...)...)
	}
	const wire = "wire"
	run(t, "ip", "netns", "add", wire)
	t.Cleanup(func() { _, _ = try("ip", "netns", "del", wire) })
	run(t, "ip", "link", "add", "trunk0", "type", "veth", "peer", "name", "trunk0", "netns", wire)
	for i, ip := range [][]string{{"ip"}, {"ip", "-n", wire}} {
		on := func(words ...string) { t.Helper(); run(t, append(ip[:len(ip):len(ip)], words...)...) }
		on("link", "add", "link", "trunk0", "name", "trunk0.7", "type", "vlan", "id", "7")
		on("address", "add", fmt.Sprintf("192.0.2.%d/24", i+1), "dev", "trunk0.7")
		on("address", "add", fmt.Sprintf("198.51.100.%d/24", i+1), "dev", "trunk0")
		on("link", "set", "trunk0", "up")
		on("link", "set", "trunk0.7", "up")
	}
	answers := func(address string) bool {
		_, err := try(inside(wire, "ping", "-c5", "-i0.2", "-W2", address)...)
		return err == nil
	}
	if !answers("192.0.2.1") || !answers("198.51.100.1") {
		t.Fatal("the wire does not work")
	}
	vsctl("add-br", "br-trunk0", "--", "add-port", "br-trunk0", "trunk0")
	if answers("198.51.100.1") {
		t.Error("the port's own address still answers")
	}
	if !answers("192.0.2.1") {
		t.Error("the VLAN link of a port has lost its connection")
	}
}
