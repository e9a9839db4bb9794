package netdev_test

import (
	"encoding/binary"
	"testing"

	"github.com/vishvananda/netlink/nl"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// TestCounters_OfALinkWithoutHardware: with and without a qdisc for rules of TC, nothing is counted. The bench has the control,
// with rules and a NIC. A link that is not there is an error.
func TestCounters_OfALinkWithoutHardware(t *testing.T) {
	netdevtest.WithoutRules(t, (*netdev.NS).Counters, func(c netdev.Counters) bool { return c == netdev.Counters{} })
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
