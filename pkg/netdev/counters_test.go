package netdev_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// TestCounters_OfALinkWithoutHardware: with and without a qdisc for rules of TC, nothing is counted. The bench has the control,
// with rules and a NIC. A link that is not there is an error.
func TestCounters_OfALinkWithoutHardware(t *testing.T) {
	withoutRules(t, (*netdev.NS).Counters, func(c netdev.Counters) bool { return c == netdev.Counters{} })
}

// withoutRules reads something of a link that is not there, and of one with and without a qdisc for rules of TC.
func withoutRules[T any](t *testing.T, read func(*netdev.NS, string) (T, error), isEmpty func(T) bool) {
	t.Helper()
	path := netdevtest.NewNS(t)
	ns, err := netdev.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ns.Close() }()
	if _, err := read(ns, "absent0"); !errors.Is(err, netdev.ErrNotFound) {
		t.Errorf("of a link that is not there: %v", err)
	}
	handle := netdevtest.Handle(t, path)
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

// TestParseCPUHit_TakesTheRightAttribute: the answer of a kernel, as if_link.h has it, with and without these counters.
func TestParseCPUHit_TakesTheRightAttribute(t *testing.T) {
	counters := make([]byte, 8*24)
	binary.NativeEndian.PutUint64(counters, 1000)
	binary.NativeEndian.PutUint64(counters[8:], 234)
	message := func(outer, inner int, value []byte) []byte {
		attribute := nl.NewRtAttr(outer, nil)
		attribute.AddRtAttr(inner, value)
		return append(make([]byte, 12), attribute.Serialize()...)
	}
	for name, c := range map[string]struct {
		answer []byte
		want   uint64
		has    bool
	}{
		"of a driver that has them": {message(4, 1, counters), 1234, true},
		"of another one":            {message(4, 2, counters), 0, false},
		"other counters":            {message(1, 1, counters), 0, false},
		"cut":                       {message(4, 1, counters[:8]), 0, false},
		"empty":                     {make([]byte, 12), 0, false},
	} {
		got, has, err := netdev.ParseCPUHit(c.answer)
		if got != c.want || has != c.has || err != nil {
			t.Errorf("%s: %d, %v, %v", name, got, has, err)
		}
	}
	if _, _, err := netdev.ParseCPUHit(nil); err == nil {
		t.Error("no bytes are taken")
	}
}
