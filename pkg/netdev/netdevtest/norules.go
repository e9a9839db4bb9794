package netdevtest

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// WithoutRules reads something of a link that is not there, and of one with and without a qdisc for rules of TC.
func WithoutRules[T any](t *testing.T, read func(*netdev.NS, string) (T, error), isEmpty func(T) bool) {
	t.Helper()
	path := NewNS(t)
	ns, err := netdev.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ns.Close() }()
	if _, err := read(ns, "absent0"); !errors.Is(err, netdev.ErrNotFound) {
		t.Errorf("of a link that is not there: %v", err)
	}
	handle := Handle(t, path)
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "rep0"}, PeerName: "peer0"}
	if err := handle.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	nothing := func(when string) {
		t.Helper()
		if got, err := read(ns, "rep0"); err != nil || !isEmpty(got) {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
	}
	nothing("without a qdisc")
	qdisc := &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}
	if err := handle.QdiscAdd(qdisc); err != nil {
		t.Skip("the kernel has no ingress qdisc: ", err)
	}
	nothing("without a rule")
}
