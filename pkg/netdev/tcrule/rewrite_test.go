package tcrule

import (
	"encoding/binary"
	"testing"

	"github.com/vishvananda/netlink/nl"
)

// kindOf gives an action its kind and options.
func kindOf(kind string, action *nl.RtAttr, options ...*nl.RtAttr) *nl.RtAttr {
	action.AddRtAttr(nl.TCA_ACT_KIND, nl.ZeroTerminated(kind))
	all := action.AddRtAttr(nl.TCA_ACT_OPTIONS, nil)
	for _, o := range options {
		all.AddChild(o)
	}
	return action
}

// mirredOf is a redirect to a link, by the action with the index 77.
func mirredOf(link uint32) *nl.RtAttr {
	parms := binary.NativeEndian.AppendUint32(nil, 77)
	parms = append(parms, make([]byte, 20)...) // the rest of struct tc_gen, and the direction
	return kindOf("mirred", actionOf(1, cookie, 0), nl.NewRtAttr(2, binary.NativeEndian.AppendUint32(parms, link)), nl.NewRtAttr(1, make([]byte, 32)))
}

// TestQuestion_NeverHasTheCookie: by it Open vSwitch would take the question for the flow's rule. The control is the rule itself.
func TestQuestion_NeverHasTheCookie(t *testing.T) {
	rule := filterOf("flower", 8, mirredOf(5))
	got, err := question(rule, 16, skipSW|verbose)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := parse(rule); !ok || err != nil {
		t.Errorf("the rule is of no flow: %v", err)
	}
	of, ok, err := parse(got)
	if ok || err != nil || of.Priority != 16 || of.Handle != questionHandle {
		t.Errorf("the question is %+v, of a flow: %v, %v", of, ok, err)
	}
	for _, cut := range [][]byte{rule[:len(rule)-1], append(rule[:nl.SizeofTcMsg:nl.SizeofTcMsg], 0xff, 0xff, 2, 0)} {
		if _, err := question(cut, 16, verbose); err == nil {
			t.Errorf("%x is taken", cut)
		}
	}
}
