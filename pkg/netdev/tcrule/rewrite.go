package tcrule

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Flags of a rule: include/uapi/linux/pkt_cls.h.
const (
	skipSW  = 1 << 1 // TCA_CLS_FLAGS_SKIP_SW
	verbose = 1 << 4 // TCA_CLS_FLAGS_VERBOSE
)

// questionHandle is that of rules that are offered once more. The kernel counts its own handles from 1.
const questionHandle = 0x61736b00

// question is a rule in the form in which it is offered once more: with other flags, at another priority of its chain, with actions of
// its own, and without the cookie, so that Open vSwitch does not take it for the flow's. What else it matches and does is as it was.
func question(rule []byte, priority uint16, flags uint32) ([]byte, error) {
	attributes, err := rewritten(rule[nl.SizeofTcMsg:], func(kind uint16, value []byte) ([]byte, error) {
		switch kind {
		case nl.TCA_KIND, nl.TCA_CHAIN:
			return value, nil
		case nl.TCA_OPTIONS:
			return ofFlower(value, flags)
		}
		return nil, nil
	})
	return append(head(rule, priority), attributes...), err
}

// deletion asks for the end of a question. It has the names of its rule alone.
func deletion(rule []byte, priority uint16) ([]byte, error) {
	names, err := rewritten(rule[nl.SizeofTcMsg:], func(kind uint16, value []byte) ([]byte, error) {
		if kind == nl.TCA_KIND || kind == nl.TCA_CHAIN {
			return value, nil
		}
		return nil, nil
	})
	return append(head(rule, priority), names...), err
}

// head is the struct tcmsg of the question of a rule: of the same link, or block of links, and protocol.
func head(rule []byte, priority uint16) []byte {
	of := *nl.DeserializeTcMsg(rule)
	of.Handle, of.Info = questionHandle, uint32(priority)<<16|of.Info&0xffff
	return slices.Clone(of.Serialize())
}

// rewritten makes attributes anew. Change gives the value of one; nil: the attribute is left out.
func rewritten(b []byte, change func(kind uint16, value []byte) ([]byte, error)) ([]byte, error) {
	list, err := nl.ParseRouteAttr(b)
	if err != nil {
		return nil, err
	}
	out := []byte{}
	for _, a := range list {
		value, err := change(a.Attr.Type&nl.NLA_TYPE_MASK, a.Value)
		if err != nil {
			return nil, err
		}
		if value != nil {
			out = append(out, nl.NewRtAttr(int(a.Attr.Type), value).Serialize()...)
		}
	}
	return out, nil
}

// ofFlower rewrites the options of a rule of flower.
func ofFlower(options []byte, flags uint32) ([]byte, error) {
	out, err := rewritten(options, func(kind uint16, value []byte) ([]byte, error) {
		switch kind {
		case nl.TCA_FLOWER_FLAGS, nl.TCA_FLOWER_IN_HW_COUNT:
			return nil, nil
		case nl.TCA_FLOWER_ACT:
			return rewritten(value, func(_ uint16, action []byte) ([]byte, error) { return ofAction(action) })
		}
		return value, nil
	})
	return append(out, nl.NewRtAttr(nl.TCA_FLOWER_FLAGS, nl.Uint32Attr(flags)).Serialize()...), err
}

// ofAction leaves out what only the kernel says of an action, and the cookie.
func ofAction(action []byte) ([]byte, error) {
	known, err := attributes(action)
	if err != nil {
		return nil, err
	}
	options, err := ofKind(nl.BytesToString(known[nl.TCA_ACT_KIND]), known[nl.TCA_ACT_OPTIONS])
	if err != nil {
		return nil, err
	}
	out, err := rewritten(action, func(kind uint16, value []byte) ([]byte, error) {
		switch kind {
		case nl.TCA_ACT_KIND, nl.TCA_ACT_FLAGS, nl.TCA_ACT_HW_STATS:
			return value, nil
		}
		return nil, nil
	})
	// ct insists on the flag, which the kernel's own dumps lack
	return append(out, nl.NewRtAttr(nl.TCA_ACT_OPTIONS|unix.NLA_F_NESTED, options).Serialize()...), err
}

// layout has the attributes of an action's options: those that begin with struct tc_gen, whose first field is the index of the
// action, and the one with its times. They are in include/uapi/linux/tc_act.
type layout struct {
	parms []uint16
	times uint16
}

// layoutOf knows the actions that Open vSwitch makes of a flow's.
func layoutOf(name string) (layout, bool) {
	switch name {
	case "mirred", "gact", "vlan", "tunnel_key", "skbedit", "mpls":
		return layout{[]uint16{2}, 1}, true
	case "pedit": // TCA_PEDIT_PARMS, TCA_PEDIT_PARMS_EX
		return layout{[]uint16{2, 4}, 1}, true
	case "csum", "ct":
		return layout{[]uint16{1}, 2}, true
	}
	return layout{}, false
}

// ofKind has the kernel make a new action in place of the one that the rule has. A meter stays the one that it is.
func ofKind(name string, options []byte) ([]byte, error) {
	if name == "police" {
		return options, nil
	}
	of, ok := layoutOf(name)
	if !ok {
		return nil, fmt.Errorf("the rule has the action %q, which cannot be offered once more", name)
	}
	return rewritten(options, func(kind uint16, value []byte) ([]byte, error) {
		switch {
		case kind == of.times:
			return nil, nil
		case slices.Contains(of.parms, kind) && len(value) >= 4:
			value = slices.Clone(value)
			clear(value[:4])
		}
		return value, nil
	})
}
