package scene

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// A row is one direction of the packets: an end, the nodes that forward them, and the other end. Each node has the bands of hardware
// and software, with its stations between them.
const (
	rowBandH   = 44
	rowHardY   = 26
	rowStatY   = rowHardY + rowBandH + 22
	rowSoftY   = rowStatY + stationH + 22
	rowFrameH  = rowSoftY + rowBandH + 10
	rowH       = rowFrameH + 44
	rowGap     = 28
	maxPerNode = 8
)

// Live draws the way of packets by the flows that forward them now. sender is the node that sends, or that of the pod that does.
func Live(l *answer.Live, sender string) *Scene {
	s := &Scene{Height: Margin}
	for _, back := range []bool{false, true} {
		r := direction{Scene: s, live: l, back: back, sender: sender, y: s.Height, x: Margin}
		if groups, others := r.groups(); len(groups) > 0 {
			r.draw(groups, others)
			s.Width = max(s.Width, r.x+Margin)
			s.Height += rowH
		}
	}
	return s
}

// direction is a row of the drawing.
type direction struct {
	*Scene
	live   *answer.Live
	back   bool
	sender string
	x, y   int
}

// groups are the legs of each node, in the order of the packets. Of several nodes that get them the one with the most packets is drawn;
// others is how many are not.
func (r *direction) groups() (groups [][]answer.Leg, others int) {
	packets := func(g []answer.Leg) (sum uint64) {
		for _, leg := range g {
			sum += leg.Packets
		}
		return sum
	}
	for _, leg := range r.live.Legs {
		if leg.Back != r.back {
			continue
		}
		i := slices.IndexFunc(groups, func(g []answer.Leg) bool { return g[0].Node == leg.Node })
		if i < 0 {
			groups = append(groups, []answer.Leg{leg})
		} else {
			groups[i] = append(groups[i], leg)
		}
	}
	rank := func(g []answer.Leg) int { // there the sender is first, back it is last
		if (g[0].Node == r.sender) != r.back {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(groups, func(a, b []answer.Leg) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(packets(b), packets(a)))
	})
	seen := map[bool]bool{}
	return slices.DeleteFunc(groups, func(g []answer.Leg) bool {
		far := g[0].Node != r.sender
		drawn := seen[far]
		seen[far] = true
		if drawn {
			others++
		}
		return drawn
	}), others
}

// box adds a box beside the last one.
func (r *direction) box(id string, kind Kind, title string, text ...string) Box {
	b := Box{ID: r.id(id), Kind: kind, X: r.x, Y: r.y + rowStatY, W: stationW, H: stationH, Title: title, Text: nonEmpty(text...)}
	switch parts := strings.Split(title, "/"); {
	case len(parts) == 3 && parts[0] == "pod", len(parts) == 2 && parts[0] == "node":
		b.Link = title
	case len(parts) == 3 && parts[0] == "svc":
		b.Link = "map?namespaces=" + parts[1]
	}
	r.Add(b)
	r.x += stationW + rowGap
	return b
}

func (r *direction) id(of string) string {
	if r.back {
		return "back " + of
	}
	return "there " + of
}

func (r *direction) draw(groups [][]answer.Leg, others int) {
	first, last := groups[0], groups[len(groups)-1]
	from, to := r.ends(last)
	port := strings.TrimSuffix(r.live.Protocol+":"+r.live.Port, ":")
	if r.back {
		port = "answers"
	}
	at := r.box("from", KindPod, from[0], append(from[1:], port)...)
	unseen := func(next Box) {
		r.Way(PlaceUnknown, 0, "not known: no flow of the other node was found", at.Right(), next.Left())
		at = next
	}
	if tunnel := tunnelOf(first); tunnel != "" && (first[0].Node == r.sender) == r.back {
		unseen(r.wire("wire 0", tunnel, others))
	}
	for i, legs := range groups {
		n := r.node(legs)
		tunnel := tunnelOf(legs)
		on := i < len(groups)-1 || tunnel != "" && (legs[0].Node == r.sender) != r.back
		arrives := slices.ContainsFunc(legs, func(l answer.Leg) bool { return !l.Drops })
		next := Box{X: r.x, Y: r.y + rowStatY, H: stationH} // packets that are dropped have no other end
		if arrives && on {
			next = r.wire(fmt.Sprintf("wire %d", i+1), tunnel, others)
		} else if arrives {
			next = r.box("to", KindPod, to[0], to[1:]...)
		}
		r.lines(n, at, next)
		at = next
		if arrives && on && i == len(groups)-1 {
			unseen(r.box("to", KindPod, to[0], to[1:]...))
		}
	}
	r.x -= rowGap
}

func (r *direction) wire(id, tunnel string, others int) Box {
	title := "wire"
	if others > 0 {
		title = fmt.Sprintf("wire, %d more", others)
	}
	if tunnel == "" {
		return r.box(id, KindElsewhere, title, "between the nodes")
	}
	return r.box(id, KindElsewhere, title, "tunnel with", tunnel)
}

// ends are the two of the direction, each with the pod behind a service.
func (r *direction) ends(last []answer.Leg) (from, to []string) {
	from, to = []string{r.live.From}, []string{r.live.To}
	if via := last[0].Via; via != "" && via != r.live.To && !r.back {
		to = append(to, "by "+via)
	}
	if r.back {
		return to, from
	}
	return from, to
}

func tunnelOf(legs []answer.Leg) string {
	for _, leg := range legs {
		if leg.Tunnel != "" {
			return leg.Tunnel
		}
	}
	return ""
}

// drawn is a node of a row: where the stations of each leg end.
type drawn struct {
	legs []answer.Leg
	last []int // the station, as an index of the boxes; -1: it has none
}

// node draws a node with its bands and stations.
func (r *direction) node(legs []answer.Leg) drawn {
	n, name, left := drawn{legs: legs}, legs[0].Node, r.x
	r.x += rowGap / 2
	var keys []string
	at := map[string]int{}
	for _, leg := range legs {
		last := -1
		for _, st := range stations(leg) {
			key := st.Title + fmt.Sprint(st.Text[:1])
			if i, ok := at[key]; ok {
				last = i
				continue
			}
			if len(keys) == maxPerNode && !leg.Drops {
				continue // the table has it
			}
			keys = append(keys, key)
			b := r.box(fmt.Sprintf("%s station %d", name, len(keys)), KindStation, st.Title, st.Text...)
			last = len(r.Boxes) - 1
			at[key], r.Boxes[last].Link = last, cmp.Or(st.Link, b.Link)
		}
		if leg.Drops && last >= 0 {
			r.Boxes[last].Bad = true
		}
		n.last = append(n.last, last)
	}
	if len(keys) == 0 {
		r.x += stationW
	}
	width := r.x - rowGap/2 - left
	r.Frames = append(r.Frames, Box{ID: r.id("node " + name), Kind: KindHost, X: left, Y: r.y, W: width, H: rowFrameH, Title: "node " + name, Link: "node/" + name})
	r.Add(Box{ID: r.id("hardware " + name), Kind: KindHardware, X: left + 6, Y: r.y + rowHardY, W: width - 12, H: rowBandH, Title: "hardware"},
		Box{ID: r.id("software " + name), Kind: KindSoftware, X: left + 6, Y: r.y + rowSoftY, W: width - 12, H: rowBandH, Title: "software"})
	r.x = left + width + rowGap
	return n
}

// stations are the decisions of a leg. A flow of which none is known is one station.
func stations(leg answer.Leg) (out []Box) {
	for _, part := range leg.Parts {
		counter := fmt.Sprintf("%d packets", part.Packets)
		found := false
		for _, step := range part.Steps {
			if len(step.Objects) == 0 {
				continue
			}
			found = true
			var objects []string
			for _, owner := range step.Objects {
				objects = append(objects, answer.Object(owner))
			}
			out = append(out, Box{Title: step.What, Text: []string{strings.Join(objects, ", "), counter}, Link: linkOf(step.Objects[0], leg.Node)})
		}
		if !found {
			out = append(out, Box{Title: "flow " + part.ID, Text: []string{cmp.Or(part.Problem, "rules of the network"), counter}, Link: "flows?node=" + leg.Node})
		}
	}
	return out
}

// linkOf is the view that shows an object.
func linkOf(owner, node string) string {
	parts := strings.Split(owner, "/")
	switch {
	case len(parts) == 3 && parts[0] == "Pod":
		return "pod/" + parts[1] + "/" + parts[2]
	case len(parts) == 3 && parts[0] == "Service":
		return "map?namespaces=" + parts[1]
	case len(parts) == 3 && strings.HasSuffix(parts[0], "Policy"):
		return "policies?namespaces=" + parts[1]
	}
	return "flows?node=" + node
}

// lines draws the packets of each leg of a node from one box to the next, in the band of their place. What is dropped falls out at its
// station.
func (r *direction) lines(n drawn, from, to Box) {
	var sum uint64
	for _, leg := range n.legs {
		sum += leg.Packets
	}
	for i, leg := range n.legs {
		place, y := PlaceSoftware, r.y+rowSoftY+22+i%3*7
		if leg.Place == offload.Hardware {
			place, y = PlaceHardware, r.y+rowHardY+22+i%3*7
		}
		share := 100
		if sum > 0 {
			share = max(1, int(leg.Packets*100/sum))
		}
		line := Line{Place: place, Percent: share, Dots: dots(leg), Words: wordsOfLeg(leg), Points: [][2]int{from.Right(), {from.Right()[0] + rowGap/2, from.Right()[1]}, {from.Right()[0] + rowGap/2, y}}}
		if !leg.Drops {
			line.Points = append(line.Points, [2]int{to.X - rowGap/2, y}, [2]int{to.X - rowGap/2, to.Left()[1]}, to.Left())
			r.Lines = append(r.Lines, line)
			continue
		}
		x, by := to.X-rowGap, strings.Join(leg.DecidedBy, ", ")
		if n.last[i] >= 0 {
			b := r.Boxes[n.last[i]]
			x = b.X + b.W/2 + i%3*8
		}
		line.Points = append(line.Points, [2]int{x, y})
		fall := Line{Place: PlaceDrop, Percent: share, Dots: line.Dots, Points: [][2]int{{x, y}, {x, r.y + rowFrameH}, {x, r.y + rowFrameH + 36}}, Width: 2.5,
			Words: "dropped on node " + leg.Node + " by " + cmp.Or(by, "the network itself"), Label: cmp.Or(by, "dropped")}
		r.Lines = append(r.Lines, line, fall)
	}
}

// dots grow with the logarithm of the packets a second.
func dots(leg answer.Leg) int {
	if leg.PacketsPerSecond == nil {
		return min(1, int(leg.Packets))
	}
	if *leg.PacketsPerSecond <= 0 {
		return 0
	}
	return 1 + int(math.Round(math.Log10(1+*leg.PacketsPerSecond)))
}

func wordsOfLeg(leg answer.Leg) string {
	rate := ""
	if leg.PacketsPerSecond != nil {
		rate = fmt.Sprintf(", %.0f a second", *leg.PacketsPerSecond)
	}
	because := ""
	if leg.Reason != "" {
		because = " because of " + strings.TrimSpace(string(leg.Reason)+" "+leg.Detail)
	}
	shared := ""
	if leg.Shared {
		shared = ", with those of others"
	}
	return fmt.Sprintf("node %s: %d packets in %s%s%s%s", leg.Node, leg.Packets, leg.Place, because, rate, shared)
}
