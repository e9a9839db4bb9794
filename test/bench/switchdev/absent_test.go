//go:build bench

package switchdev

import (
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// newcomer is an address of the external host that the node has not seen.
const newcomer = "192.168.60.77"

// TestSwitchAbsent_NodeIsReachableByItsNIC: without ovs-vswitchd the datapath drops what needs a new flow, for as long as
// the NIC is in it, with its rules of TC.
func TestSwitchAbsent_NodeIsReachableByItsNIC(t *testing.T) {
	tier.In(t, "bench")
	h := newGatewayHost(t)
	bridge := "br" + h.nic
	eventually(t, "the bridge has the address", patience, func() bool { return h.bears(bridge) })
	if !pings(gatewayOutside) {
		t.Fatal("the node reaches nothing")
	}
	batch(t, "outside", "addr add "+newcomer+"/24 dev swsimw0")
	answered := func() bool {
		_, err := try(inside("outside", "ping", "-n", "-I", newcomer, "-c1", "-W1", gatewayNode)...)
		return err == nil
	}
	run(t, "pkill", "-9", "-F", h.dir+"/ovs-vswitchd.pid")
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
		if answered() {
			t.Fatal("the control: the node answers a newcomer without ovs-vswitchd")
		}
	}

	h.absent.Store(true)
	h.setup.Mark()
	eventually(t, "the NIC has the address", time.Minute, func() bool { return h.bears(h.nic) })
	eventually(t, "the node answers a newcomer by its NIC", time.Minute, answered)

	h.c.daemon("", h.dir, "ovs-vswitchd", "unix:"+h.dir+"/db.sock", "--pidfile", "--log-file="+h.dir+"/vswitchd.log")
	h.absent.Store(false)
	h.setup.Mark()
	eventually(t, "the bridge has the address again", patience, func() bool { return h.bears(bridge) })
	eventually(t, "the node answers a newcomer by its bridge", patience, answered)
}
