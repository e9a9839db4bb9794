//go:build bench

package switchdev

import (
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// ovsHeader is struct ovs_header of linux/openvswitch.h, for a datapath that has no number yet.
type ovsHeader struct{}

func (ovsHeader) Len() int          { return 4 }
func (ovsHeader) Serialize() []byte { return make([]byte, 4) }

// TestRecirculationShared_OnceADatapathIsAskedTo: Open vSwitch asks its datapath to share recirculation ids with TC, and the
// kernel of the bench can. The control is a datapath without the request.
func TestRecirculationShared_OnceADatapathIsAskedTo(t *testing.T) {
	tier.In(t, "nic")
	open := func(path string) *netdev.NS {
		ns, err := netdev.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ns.Close() })
		return ns
	}
	path := netdevtest.NewNS(t)
	empty := open(path)
	if _, known := netdev.RecirculationShared(empty); known {
		t.Error("it is known without a datapath")
	}
	family, err := netlink.GenlFamilyGet("ovs_datapath")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_GENERIC)
	if err != nil {
		t.Fatal(err)
	}
	const create, version, name, upcall, features = 1, 2, 1, 2, 5
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_GENERIC: {Socket: socket}}
	request.AddData(&nl.Genlmsg{Command: create, Version: version})
	request.AddData(ovsHeader{})
	request.AddData(nl.NewRtAttr(name, nl.ZeroTerminated("dp")))
	request.AddData(nl.NewRtAttr(upcall, nl.Uint32Attr(0)))
	request.AddData(nl.NewRtAttr(features, nl.Uint32Attr(0)))
	if _, err := request.Execute(unix.NETLINK_GENERIC, 0); err != nil {
		t.Fatal(err)
	}
	if shared, known := netdev.RecirculationShared(empty); shared || !known {
		t.Errorf("a datapath without the request: shared %t, known %t", shared, known)
	}

	dir := containerOVS(t)
	run(t, "ovs-vsctl", "--db=unix:"+dir+"/db.sock", "add-br", "br-recirc")
	host := open("")
	eventually(t, "the datapath of Open vSwitch shares recirculation ids", time.Minute, func() bool {
		shared, known := netdev.RecirculationShared(host)
		return shared && known
	})
}
