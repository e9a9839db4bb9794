package vf

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/devlink"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// TestInventory_RequestsDoNotGrowWithLinks: each netlink request takes a lock of the kernel, which drivers hold for long
// while they bring VFs up.
func TestInventory_RequestsDoNotGrowWithLinks(t *testing.T) {
	sent := map[int]int{}
	for _, pairs := range []int{4, 64} {
		path := netdevtest.NewNS(t)
		ns, err := netdev.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range pairs {
			if err := ns.AddVeth(netdev.Veth{Name: fmt.Sprint("veth", i), Peer: netdev.Peer{Name: fmt.Sprint("peer", i)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := ns.Close(); err != nil {
			t.Fatal(err)
		}
		sent[pairs] = len(netdevtest.Requests(t, path, func() {
			own, err := netdev.Open("")
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = own.Close() }()
			devices, err := devlink.Open(own)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = devices.Close() }()
			n := &Node{Sysfs: netdev.NewSysfs(fstest.MapFS{}), Kernel: devices, Links: own}
			if inv, err := n.Read(); err != nil || len(inv.Problems) > 0 {
				t.Errorf("%q, %v", inv.Problems, err)
			}
		}))
	}
	if sent[4] == 0 || sent[4] != sent[64] {
		t.Errorf("an inventory costs these requests, by pairs of links: %v", sent)
	}
}
