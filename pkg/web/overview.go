package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// Grid is a square a node, by zone.
type Grid struct {
	Width   int      `json:"width"`
	Height  int      `json:"height"`
	Cell    int      `json:"cell"`
	Zones   []Zone   `json:"zones"`
	Squares []Square `json:"squares"`
}

// Zone is the title over the squares of a zone.
type Zone struct {
	Title string `json:"title"`
	Y     int    `json:"y"`
}

// Square is a node. Fill is the part of it that is coloured, in percent.
type Square struct {
	Node string `json:"node"`
	X    int    `json:"x"`
	Y    int    `json:"y"`
	Fill int    `json:"fill"`
	// State has one word or two: broken or degraded, and measured, idle or none.
	State string `json:"state"`
	Words string `json:"words"`
}

const (
	gridWidth  = 960
	zoneHeight = 26
	minCell    = 12
	maxCell    = 64
)

// newGrid lays the nodes out: the more there are, the smaller is a square.
func newGrid(nodes []answer.NodeState) Grid {
	zones := map[string][]answer.NodeState{}
	for _, n := range nodes {
		zones[n.Zone] = append(zones[n.Zone], n)
	}
	names := make([]string, 0, len(zones))
	for name := range zones {
		names = append(names, name)
	}
	slices.Sort(names)
	cell := int(math.Sqrt(gridWidth * 360 / float64(max(len(nodes), 1))))
	g := Grid{Width: gridWidth, Cell: min(max(cell, minCell), maxCell), Zones: []Zone{}, Squares: []Square{}}
	columns := gridWidth / g.Cell
	for _, name := range names {
		of := zones[name]
		title := cmp.Or(name, "no zone")
		g.Zones = append(g.Zones, Zone{fmt.Sprintf("%s: %d nodes", title, len(of)), g.Height + zoneHeight - 9})
		g.Height += zoneHeight
		slices.SortStableFunc(of, func(a, b answer.NodeState) int { return cmp.Compare(a.Node, b.Node) })
		for i, n := range of {
			state, fill, words := look(n)
			g.Squares = append(g.Squares, Square{n.Node, i % columns * g.Cell, g.Height + i/columns*g.Cell, fill, state, n.Node + ": " + words})
		}
		g.Height += (len(of) + columns - 1) / columns * g.Cell
	}
	return g
}

// look says how a node's square looks, and the same in words.
func look(n answer.NodeState) (state string, fill int, words string) {
	switch n.Severity {
	case answer.SeverityBroken:
		state, words = "broken ", "a part is broken, "
	case answer.SeverityDegraded:
		state, words = "degraded ", "works in part, "
	}
	switch {
	case n.HardwarePercent != nil:
		return state + "measured", *n.HardwarePercent, words + fmt.Sprintf("%d %% in hardware", *n.HardwarePercent)
	case n.Offload == v1alpha1.OffloadNone:
		return state + "none", 0, words + "no NIC that can offload"
	case n.Offload == "":
		return state + "none", 0, words + "nothing is known of its NICs"
	}
	return state + "idle", 0, words + "offload " + string(n.Offload) + ", no traffic of VFs"
}
