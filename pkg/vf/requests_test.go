package vf

import (
	"testing"
	"testing/fstest"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/devlink"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// TestInventory_RequestsDoNotGrowWithLinks: each netlink request takes a lock of the kernel, which drivers hold for long
// while they bring VFs up.
func TestInventory_RequestsDoNotGrowWithLinks(t *testing.T) {
	netdevtest.SameRequests(t, func(own *netdev.NS, _ int) {
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
	})
}
