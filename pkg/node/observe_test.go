package node_test

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// TestObserveHost_RequestsDoNotGrowWithLinks: each netlink request takes the kernel's lock of links, and a host with VFs
// has two links for each.
func TestObserveHost_RequestsDoNotGrowWithLinks(t *testing.T) {
	netdevtest.SameRequests(t, func(own *netdev.NS, links int) {
		h := node.Host{Deps: node.Deps{Netns: node.Local{NS: own}}}
		var st node.State
		if err := h.ObserveHost(&st); err != nil || len(st.Links) != links {
			t.Errorf("%d links, want %d; %v", len(st.Links), links, err)
		}
	})
}
