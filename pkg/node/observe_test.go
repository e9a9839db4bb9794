package node_test

import (
	"fmt"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// TestObserveHost_RequestsDoNotGrowWithLinks: each netlink request takes the kernel's lock of links, and a host with VFs
// has two links for each.
func TestObserveHost_RequestsDoNotGrowWithLinks(t *testing.T) {
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
			h := node.Host{Deps: node.Deps{Netns: node.Local{NS: own}}}
			var st node.State
			if err := h.ObserveHost(&st); err != nil || len(st.Links) != 2*pairs+1 {
				t.Errorf("%d links, %v", len(st.Links), err)
			}
		}))
	}
	if sent[4] == 0 || sent[4] != sent[64] {
		t.Errorf("a look at the host costs these requests, by pairs of links: %v", sent)
	}
}
