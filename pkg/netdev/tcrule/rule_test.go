package tcrule

import (
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/vishvananda/netlink/nl"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// TestOf_ALinkWithoutRules: with and without a qdisc for rules of TC there is none. The bench has the control, with a NIC.
func TestOf_ALinkWithoutRules(t *testing.T) {
	read := func(ns *netdev.NS, link string) ([]Rule, error) { return Of(ns, link) }
	netdevtest.WithoutRules(t, read, func(rules []Rule) bool { return len(rules) == 0 })
}

// filterOf is a rule as the kernel answers it: pkt_cls.h, gen_stats.h.
func filterOf(kind string, flags uint32, actions ...*nl.RtAttr) []byte {
	head := nl.TcMsg{Handle: 7, Info: 3<<16 | 0x0008}
	options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	options.AddRtAttr(nl.TCA_FLOWER_FLAGS, nl.Uint32Attr(flags))
	list := options.AddRtAttr(nl.TCA_FLOWER_ACT, nil)
	for _, a := range actions {
		list.AddChild(a)
	}
	out := append([]byte{}, head.Serialize()...)
	out = append(out, nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(kind)).Serialize()...)
	out = append(out, nl.NewRtAttr(nl.TCA_CHAIN, nl.Uint32Attr(6)).Serialize()...)
	return append(out, options.Serialize()...)
}

// actionOf has a cookie, and counters of all packets and of those in hardware.
func actionOf(number int, cookie string, hardware uint32) *nl.RtAttr {
	bytes, _ := hex.DecodeString(cookie) // of this file
	counted := func(packets uint32) []byte { return append(make([]byte, 8), nl.Uint32Attr(packets)...) }
	action := nl.NewRtAttr(number, nil)
	action.AddRtAttr(nl.TCA_ACT_COOKIE, bytes)
	stats := action.AddRtAttr(nl.TCA_ACT_STATS, nil)
	stats.AddRtAttr(nl.TCA_STATS_BASIC, counted(hardware+5))
	stats.AddRtAttr(nl.TCA_STATS_BASIC_HW, counted(hardware))
	return action
}

// TestParse_FindsTheFlowByTheCookie, whose words have their bytes in the machine's order, and what the driver counts at the
// last action. Rules of other classifiers and those without a UFID are of no flow.
func TestParse_FindsTheFlowByTheCookie(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the bytes below are those of a little-endian machine")
	}
	const cookie = "36cb5381" + "86461cae" + "d3b3a986" + "d3727903"
	const flow = "8153cb36-ae1c-4686-86a9-b3d3037972d3"
	for name, c := range map[string]struct {
		answer []byte
		want   Rule
		ok     bool
	}{
		"in a NIC":         {filterOf("flower", 4, actionOf(1, cookie, 50), actionOf(2, cookie, 42)), Rule{Flow: flow, Chain: 6, Priority: 3, Handle: 7, InHardware: true, Hardware: 42}, true},
		"in the kernel":    {filterOf("flower", 8, actionOf(1, cookie, 0)), Rule{Flow: flow, Chain: 6, Priority: 3, Handle: 7}, true},
		"of another kind":  {filterOf("matchall", 4, actionOf(1, cookie, 42)), Rule{}, false},
		"without a cookie": {filterOf("flower", 4, actionOf(1, "", 42)), Rule{}, false},
		"without actions":  {filterOf("flower", 4), Rule{}, false},
	} {
		got, ok, err := parse(c.answer)
		if err != nil || ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v, %v, %v; want %+v, %v", name, got, ok, err, c.want, c.ok)
		}
	}
	whole := filterOf("flower", 4, actionOf(1, cookie, 42))
	for _, cut := range [][]byte{nil, whole[:nl.SizeofTcMsg-1], append(whole[:nl.SizeofTcMsg:nl.SizeofTcMsg], 0xff, 0xff, 1, 0)} {
		if _, ok, err := parse(cut); ok || err == nil {
			t.Errorf("%x is taken", cut)
		}
	}
}
