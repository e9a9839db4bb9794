package scene

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

func legOn(node string, back bool, packets uint64) answer.Leg {
	s := streams.Stream{Node: node, Packets: packets, Tunnel: "192.0.2.12"}
	return answer.Leg{Back: back, Stream: s, Parts: []answer.LegFlow{{ID: "u-" + node, Packets: packets}}}
}

func drawnOf(s *Scene) string {
	var ids []string
	for _, b := range s.Boxes {
		if b.Kind != KindHardware && b.Kind != KindSoftware {
			ids = append(ids, b.ID)
		}
	}
	return strings.Join(ids, ", ")
}

// TestLive_HasTheWireWherePacketsPassIt: between two nodes, and before or behind the only node whose flows are known, by a line that
// says so. Of several nodes that get packets one is drawn, and the wire says how many are not.
func TestLive_HasTheWireWherePacketsPassIt(t *testing.T) {
	for name, test := range map[string]struct {
		legs    []answer.Leg
		want    string
		unknown int
	}{
		"both nodes":            {[]answer.Leg{legOn("b", false, 7), legOn("a", false, 7)}, "there from, there a station 1, there wire 1, there b station 1, there to", 0},
		"only the sender":       {[]answer.Leg{legOn("a", false, 7)}, "there from, there a station 1, there wire 1, there to", 1},
		"only the receiver":     {[]answer.Leg{legOn("b", false, 7)}, "there from, there wire 0, there b station 1, there to", 1},
		"back, both":            {[]answer.Leg{legOn("a", true, 7), legOn("b", true, 7)}, "back from, back b station 1, back wire 1, back a station 1, back to", 0},
		"back, only the sender": {[]answer.Leg{legOn("a", true, 7)}, "back from, back wire 0, back a station 1, back to", 1},
		"back, only far away":   {[]answer.Leg{legOn("b", true, 7)}, "back from, back b station 1, back wire 1, back to", 1},
		"three nodes":           {[]answer.Leg{legOn("a", false, 9), legOn("b", false, 2), legOn("c", false, 7)}, "there from, there a station 1, there wire 1, there c station 1, there to", 0},
	} {
		s := Live(&answer.Live{Ends: streams.Ends{From: "pod/shop/web", To: "svc/shop/db"}, Legs: test.legs}, "a")
		if got := drawnOf(s); got != test.want {
			t.Errorf("%s: drawn %s, want %s", name, got, test.want)
		}
		unknown := 0
		for _, l := range s.Lines {
			if l.Place == PlaceUnknown {
				unknown++
			}
		}
		if unknown != test.unknown {
			t.Errorf("%s: %d lines of what is not known, want %d", name, unknown, test.unknown)
		}
		for _, b := range s.Boxes {
			if b.ID == "there wire 1" && (b.Title == "wire, 1 more") != (name == "three nodes") {
				t.Errorf("%s: %s", name, b.Title)
			}
		}
	}
}

// TestDots_GrowWithTheLogarithmOfTheRate.
func TestDots_GrowWithTheLogarithmOfTheRate(t *testing.T) {
	for rate, want := range map[float64]int{0: 0, 1: 1, 10: 2, 1000: 4, 1_000_000: 7} {
		if got := dots(answer.Leg{Stream: streams.Stream{PacketsPerSecond: &rate}}); got != want {
			t.Errorf("%.0f packets a second: %d dots, want %d", rate, got, want)
		}
	}
	if got := dots(answer.Leg{Stream: streams.Stream{Packets: 9}}); got != 1 {
		t.Errorf("a rate that is not known yet: %d dots", got)
	}
}
