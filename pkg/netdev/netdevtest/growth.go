package netdevtest

import (
	"fmt"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// SameRequests fails the test unless f sends as many netlink requests in a namespace with 64 pairs of veths as in one with
// 4. It gives f the namespace and the number of its links.
func SameRequests(t testing.TB, f func(own *netdev.NS, links int)) {
	t.Helper()
	sent := map[int]int{}
	for _, pairs := range []int{4, 64} {
		path := NewNS(t)
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
		sent[pairs] = len(Requests(t, path, func() {
			own, err := netdev.Open("")
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = own.Close() }()
			f(own, 2*pairs+1)
		}))
	}
	if sent[4] == 0 || sent[4] != sent[64] {
		t.Errorf("requests by pairs of links: %v", sent)
	}
}
