//go:build bench

package switchdev

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestMirror_CopiesAreInHardware: a mirror of OVN to another VF of the NIC has what a pod sends and receives, copied by the NIC,
// and the pod's stream goes on. Without the mirror nothing comes to the target.
func TestMirror_CopiesAreInHardware(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "it shows what Open vSwitch does, not this project")
	w := newWorld(t, true)
	a, c := w.pods["a"], w.pods["c"]
	target := &endpoint{name: "target", node: a.node, vf: 2}
	link := a.node.plug(target, "external_ids:mirror-id=bench")
	run(t, "ip", "-n", target.name, "link", "set", link, "name", "eth0", "mtu", podMTU, "promisc", "on", "up")
	copied := func() (sent, software, copies, inSoftware uint64) {
		t.Helper()
		copies, inSoftware = counter(t, target.name, "eth0", "rx_bytes"), counter(t, a.node.name, target.rep, "tx_bytes")
		dropped := counter(t, a.name, "eth0", "rx_dropped") + counter(t, target.name, "eth0", "rx_dropped")
		sent, software = stream(t, a, c.v4)
		if now := counter(t, a.name, "eth0", "rx_dropped") + counter(t, target.name, "eth0", "rx_dropped"); now > dropped {
			t.Errorf("%d packets of no protocol came to the pod and the target", now-dropped)
		}
		return sent, software, counter(t, target.name, "eth0", "rx_bytes") - copies, counter(t, a.node.name, target.rep, "tx_bytes") - inSoftware
	}
	sent, _, copies, _ := copied()
	if copies > sent/10 {
		t.Errorf("without a mirror %d bytes came to the target, %d were sent", copies, sent)
	}
	w.nb("mirror-add", "copy", "local", "both", "bench")
	w.nb("lsp-attach-mirror", "default_a", "copy")
	w.sync()
	sent, software, copies, inSoftware := copied()
	t.Logf("%d bytes sent, %d of them in software; %d came to the target, %d of them in software", sent, software, copies, inSoftware)
	if copies < sent/10*9 || software > sent/10 || inSoftware > copies/10 {
		t.Error("the copies or the packets were not in hardware")
	}
}
