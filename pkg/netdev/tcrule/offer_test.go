package tcrule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// tcOf is a kernel with rules on one link, whose driver takes rules that are offered if refuses is nil. It says the text.
type tcOf struct {
	rules   [][]byte
	refuses error
	says    string
	// tunnel: the link has no driver itself.
	tunnel bool
	// keeps: nothing is deleted.
	keeps error
	asked []string
}

func (k *tcOf) Link(string) (netdev.Link, error) { return netdev.Link{Index: 9}, nil }

func (k *tcOf) RouteRequest(r *nl.NetlinkRequest, _ uint16) ([][]byte, error) {
	if r.Type != unix.RTM_GETTFILTER {
		return nil, unix.EINVAL
	}
	return slices.Clone(k.rules), nil
}

func (k *tcOf) RouteAck(r *nl.NetlinkRequest) (string, error) {
	message := r.RawData
	at := fmt.Sprint(priority(message))
	switch r.Type {
	case unix.RTM_NEWTFILTER:
		return k.add(message, at)
	case unix.RTM_DELTFILTER:
		k.asked = append(k.asked, "delete "+at)
		if k.keeps != nil {
			return "", k.keeps
		}
		before := len(k.rules)
		k.rules = slices.DeleteFunc(k.rules, func(rule []byte) bool { return string(rule[:nl.SizeofTcMsg]) == string(message[:nl.SizeofTcMsg]) })
		if len(k.rules) == before {
			return "", unix.ENOENT
		}
		return "", nil
	}
	return "", unix.EOPNOTSUPP
}

func (k *tcOf) add(message []byte, at string) (string, error) {
	inNIC := k.refuses == nil
	switch flags := flagsOf(message); {
	case flags == skipSW|verbose && k.tunnel:
		k.asked = append(k.asked, "new "+at)
		return "", unix.EOPNOTSUPP
	case flags == skipSW|verbose:
		k.asked = append(k.asked, "new "+at)
		if !inNIC {
			return k.says, k.refuses
		}
	case flags == verbose:
		k.asked = append(k.asked, "in software too "+at)
	default:
		return "no such flags", unix.EINVAL
	}
	if inNIC {
		message = withFlags(message, inHardware)
	}
	k.rules = append(k.rules, message)
	return k.says, nil
}

func flagsOf(message []byte) uint32 {
	of, _ := attributes(message[nl.SizeofTcMsg:])
	options, _ := attributes(of[nl.TCA_OPTIONS])
	return binary.NativeEndian.Uint32(options[nl.TCA_FLOWER_FLAGS])
}

func withFlags(message []byte, flags uint32) []byte {
	all, _ := rewritten(message[nl.SizeofTcMsg:], func(kind uint16, value []byte) ([]byte, error) {
		if kind != nl.TCA_OPTIONS {
			return value, nil
		}
		return rewritten(value, func(kind uint16, value []byte) ([]byte, error) {
			if kind == nl.TCA_FLOWER_FLAGS {
				return nl.Uint32Attr(flags), nil
			}
			return value, nil
		})
	})
	return append(slices.Clone(message[:nl.SizeofTcMsg]), all...)
}

const (
	cookie = "36cb5381" + "86461cae" + "d3b3a986" + "d3727903"
	flow   = "8153cb36-ae1c-4686-86a9-b3d3037972d3"
)

// TestOffer_DeletesWhatItOffers, whatever the driver says to it, and what a process before it has left. What is in hardware, and
// what TC does not have, is not offered.
func TestOffer_DeletesWhatItOffers(t *testing.T) {
	refused := filterOf("flower", 8, mirredOf(5))
	left, err := question(refused, 12, skipSW|verbose)
	if err != nil {
		t.Fatal(err)
	}
	const words = "swsim: output device is not on this eswitch"
	own := Rule{Flow: flow, Chain: 6, Priority: 3, Handle: 7}
	for name, c := range map[string]struct {
		tc    tcOf
		want  Answer
		fails string
		asked []string
	}{
		"refused with a text": {
			tc:   tcOf{rules: [][]byte{refused}, refuses: unix.EOPNOTSUPP, says: words},
			want: Answer{Rule: own, Priority: 16, Errno: unix.EOPNOTSUPP, Text: words}, asked: []string{"new 16", "delete 16"},
		},
		"refused without a text": {
			tc:   tcOf{rules: [][]byte{refused}, refuses: unix.ENOSPC},
			want: Answer{Rule: own, Priority: 16, Errno: unix.ENOSPC}, asked: []string{"new 16", "delete 16"},
		},
		"taken": {
			tc:   tcOf{rules: [][]byte{refused}},
			want: Answer{Rule: own, Priority: 16, Taken: true}, asked: []string{"new 16", "delete 16"},
		},
		"refused on a tunnel": {
			tc:   tcOf{rules: [][]byte{refused}, tunnel: true, refuses: unix.EOPNOTSUPP, says: words},
			want: Answer{Rule: own, Priority: 16, Text: words}, asked: []string{"new 16", "in software too 16", "delete 16"},
		},
		"taken on a tunnel": {
			tc:   tcOf{rules: [][]byte{refused}, tunnel: true},
			want: Answer{Rule: own, Priority: 16, Taken: true}, asked: []string{"new 16", "in software too 16", "delete 16"},
		},
		"one is left": {
			tc:   tcOf{rules: [][]byte{refused, left}},
			want: Answer{Rule: own, Priority: 16, Taken: true}, asked: []string{"delete 12", "new 16", "delete 16"},
		},
		"in hardware":       {tc: tcOf{rules: [][]byte{filterOf("flower", 4, mirredOf(5))}}, fails: ErrInHardware.Error()},
		"of no flow":        {tc: tcOf{rules: [][]byte{filterOf("flower", 8)}}, fails: ErrNoRule.Error()},
		"without rules":     {fails: ErrNoRule.Error()},
		"without the right": {tc: tcOf{rules: [][]byte{refused}, refuses: unix.EPERM}, fails: "not permitted", asked: []string{"new 16", "delete 16"}},
		"without an answer": {tc: tcOf{rules: [][]byte{refused}, refuses: errors.New("closed")}, fails: "closed", asked: []string{"new 16", "delete 16"}},
		"two ask":           {tc: tcOf{rules: [][]byte{refused}, refuses: unix.EEXIST}, fails: "another command", asked: []string{"new 16"}},
		"not deleted":       {tc: tcOf{rules: [][]byte{refused}, keeps: unix.EBUSY}, fails: "busy", asked: []string{"new 16", "delete 16"}},
		"still there":       {tc: tcOf{rules: [][]byte{refused}, keeps: unix.ENOENT}, fails: "still on link rep0", asked: []string{"new 16", "delete 16"}},
		"of a kind that is not known": {
			tc: tcOf{rules: [][]byte{filterOf("flower", 8, kindOf("sample", actionOf(1, cookie, 0)))}}, fails: `the action "sample"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.DeleteFunc(slices.Clone(c.tc.rules), func(r []byte) bool { return string(r) == string(left) })
			got, err := Offer(&c.tc, "rep0", flow)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("%v, want %q", err, c.fails)
			}
			if diff := cmp.Diff(c.want, got); c.fails == "" && diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.asked, c.tc.asked); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if c.tc.keeps == nil && !cmp.Equal(before, c.tc.rules) {
				t.Errorf("rules were %x and are %x", before, c.tc.rules)
			}
		})
	}
}

// TestFreePriority_StaysInTheRangeOfNICs as long as one is free there, and off those that Open vSwitch takes next.
func TestFreePriority_StaysInTheRangeOfNICs(t *testing.T) {
	at := func(priorities ...uint16) (rules [][]byte) {
		for _, p := range priorities {
			rules = append(rules, head(filterOf("flower", 8), p))
		}
		return rules
	}
	all := at()
	for p := uint16(1); p <= 17; p++ {
		all = append(all, at(p)...)
	}
	for name, c := range map[string]struct {
		rules [][]byte
		want  uint16
	}{
		"no rule": {nil, 16}, "as Open vSwitch has them": {at(2, 3, 2), 16}, "the last is used": {at(16, 15), 14},
		"reserved ones are free": {all[4:16], 17}, "all are used": {all, 18},
	} {
		if got := freePriority(c.rules); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
