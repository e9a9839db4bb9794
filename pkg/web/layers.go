package web

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/web/scene"
)

// The columns of a map, and its rows.
const (
	mapX     = 48 // ways back pass beside the columns
	mapW     = 170
	mapH     = 56
	mapGapX  = 120
	mapGapY  = 22
	bendH    = 40 // of a way that passes a column
	laneStep = 22 // of a way back, below the columns
	idleRow  = 4
	// maxEnds and maxEdges bound what is drawn.
	maxEnds  = 60
	maxEdges = 240
)

// layers puts ends into columns, so that most ways go from left to right.
type layers struct {
	edges []Edge
	rank  map[string]int
	// columns have ends, and bends of ways that pass them.
	columns [][]string
	at      map[string]scene.Box
	// bends are those of an edge, by its index.
	bends map[int][]string
	// before are what an end or a bend is joined to in the column before its own.
	before map[string][]string
	// bottom is the lower end of the columns.
	bottom int
}

// newMap draws the ends and the edges between them with the most packets, and ends without edges below them. The map counts
// what is left out.
func newMap(g *graph, m *Map) *scene.Scene {
	packets := map[string]uint64{}
	for name := range g.pods {
		packets[name] = 0
	}
	for _, e := range m.Edges {
		packets[e.From] += e.Packets + e.Dropped
		packets[e.To] += e.Packets + e.Dropped
	}
	names := slices.SortedFunc(maps.Keys(packets), func(a, b string) int { return cmp.Or(cmp.Compare(packets[b], packets[a]), cmp.Compare(a, b)) })
	drawn := names[:min(maxEnds, len(names))]
	m.Omitted = len(names) - len(drawn)
	l := &layers{rank: map[string]int{}, at: map[string]scene.Box{}, bends: map[int][]string{}, before: map[string][]string{}}
	l.edges, m.OmittedEdges = busiest(m.Edges, drawn)
	l.order()
	l.fill()
	for range 4 {
		l.sweep()
	}
	s := &scene.Scene{Boxes: []scene.Box{}, Lines: []scene.Line{}}
	l.place(g)
	lanes := l.ways(s)
	s.Height = l.bottom + lanes*laneStep + scene.Margin
	l.boxes(s, g, drawn, packets)
	return s
}

// busiest are the edges between ends with the most packets, sorted as they were. omitted counts the others between them.
func busiest(edges []Edge, ends []string) (out []Edge, omitted int) {
	drawn := map[string]bool{}
	for _, end := range ends {
		drawn[end] = true
	}
	var between []int
	for i, e := range edges {
		if e.From != e.To && drawn[e.From] && drawn[e.To] {
			between = append(between, i)
		}
	}
	slices.SortFunc(between, func(a, b int) int {
		return cmp.Or(cmp.Compare(edges[b].Packets+edges[b].Dropped, edges[a].Packets+edges[a].Dropped), cmp.Compare(a, b))
	})
	chosen := between[:min(maxEdges, len(between))]
	slices.Sort(chosen)
	for _, i := range chosen {
		out = append(out, edges[i])
	}
	return out, len(between) - len(chosen)
}

// order gives each end its column: right of those that ask it. What goes round in a circle is cut at the end that was met first.
func (l *layers) order() {
	const open, done = 1, 2
	next, state := map[string][]string{}, map[string]int{}
	var ends, sorted []string
	for _, e := range l.edges {
		next[e.From] = append(next[e.From], e.To)
		ends = append(ends, e.From, e.To)
	}
	asked := map[string]bool{}
	for _, e := range l.edges {
		asked[e.To] = true
	}
	slices.SortFunc(ends, func(a, b string) int { // first those that only ask
		return cmp.Or(cmp.Compare(one(asked[a]), one(asked[b])), cmp.Compare(a, b))
	})
	var visit func(string)
	visit = func(end string) {
		state[end] = open
		kept := next[end][:0]
		for _, to := range next[end] {
			if state[to] == 0 {
				visit(to)
			}
			if state[to] == done {
				kept = append(kept, to)
			}
		}
		next[end], state[end] = kept, done
		sorted = append(sorted, end)
	}
	for _, end := range ends {
		if state[end] == 0 {
			visit(end)
		}
	}
	for _, end := range slices.Backward(sorted) {
		l.rank[end] += 0
		for _, to := range next[end] {
			l.rank[to] = max(l.rank[to], l.rank[end]+1)
		}
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// fill makes the columns, with a bend in each column that a way passes.
func (l *layers) fill() {
	put := func(column int, name string) {
		for len(l.columns) <= column {
			l.columns = append(l.columns, nil)
		}
		l.columns[column] = append(l.columns[column], name)
	}
	for _, end := range slices.Sorted(maps.Keys(l.rank)) {
		put(l.rank[end], end)
	}
	for i, e := range l.edges {
		if l.rank[e.From] >= l.rank[e.To] {
			continue // a way back
		}
		last := e.From
		for column := l.rank[e.From] + 1; column < l.rank[e.To]; column++ {
			bend := fmt.Sprintf("%s > %s > %d", e.From, e.To, column)
			l.bends[i] = append(l.bends[i], bend)
			l.before[bend] = []string{last}
			put(column, bend)
			last = bend
		}
		l.before[e.To] = append(l.before[e.To], last)
	}
}

// sweep sorts each column by the middle of what its ends are joined to in the column before, so that few ways cross.
func (l *layers) sweep() {
	row := map[string]int{}
	for _, column := range l.columns {
		middle := map[string]float64{}
		for _, name := range column {
			sum := 0
			for _, joined := range l.before[name] {
				sum += row[joined]
			}
			middle[name] = float64(sum) / math.Max(float64(len(l.before[name])), 1)
		}
		slices.SortStableFunc(column, func(a, b string) int { return cmp.Or(cmp.Compare(middle[a], middle[b]), cmp.Compare(a, b)) })
		for i, name := range column {
			row[name] = i
		}
	}
}

// place gives coordinates. Columns are centred on the highest one.
func (l *layers) place(g *graph) {
	height := func(name string) int {
		if _, ok := l.rank[name]; ok {
			return mapH + mapGapY
		}
		return bendH
	}
	highest := 0
	for _, column := range l.columns {
		sum := 0
		for _, name := range column {
			sum += height(name)
		}
		highest = max(highest, sum)
	}
	for c, column := range l.columns {
		sum := 0
		for _, name := range column {
			sum += height(name)
		}
		y := scene.Margin + (highest-sum)/2
		for _, name := range column {
			if _, ok := l.rank[name]; ok {
				l.at[name] = g.box(name, mapX+c*(mapW+mapGapX), y)
			} else {
				l.at[name] = scene.Box{X: mapX + c*(mapW+mapGapX), Y: y, W: mapW, H: bendH}
			}
			y += height(name)
		}
	}
	l.bottom = scene.Margin + highest
}

// box draws an end.
func (g *graph) box(name string, x, y int) scene.Box {
	b := scene.Box{ID: name, Kind: scene.KindElsewhere, X: x, Y: y, W: mapW, H: mapH, Title: name}
	parts := strings.SplitN(name, "/", 3)
	switch {
	case len(parts) == 3 && parts[0] == "svc":
		b.Kind, b.Title, b.Text = scene.KindService, parts[2], []string{"service", parts[1]}
	case len(parts) == 3:
		b.Kind, b.Title, b.Text = scene.KindPod, parts[2], []string{parts[0], parts[1]}
		if n := g.pods[name]; n > 0 && parts[0] != "pod" {
			b.Text[0] += ", " + scene.Pods(n)
		}
		if parts[0] == "pod" {
			b.Link = name
		}
	case len(parts) == 2:
		b.Title, b.Text = parts[1], []string{"another namespace"}
	}
	return b
}

// ways draws the edges, and gives the number of lanes below the columns.
func (l *layers) ways(s *scene.Scene) (lanes int) {
	for i, e := range l.edges {
		from, to := l.at[e.From], l.at[e.To]
		points := [][2]int{from.Right()}
		if l.rank[e.From] < l.rank[e.To] {
			for _, bend := range l.bends[i] {
				points = append(points, l.at[bend].Left(), l.at[bend].Right())
			}
		} else {
			y := l.bottom + lanes*laneStep + laneStep/2
			aside := 14 + lanes%6*6
			right, left := from.Right()[0]+aside, to.Left()[0]-aside
			points = append(points, [2]int{right, points[0][1]}, [2]int{right, y}, [2]int{left, y}, [2]int{left, to.Left()[1]})
			lanes++
		}
		drawEdge(s, e, append(points, to.Left()))
	}
	return lanes
}

// drawEdge draws the shares of an edge beside each other: together they are as thick as there are packets.
func drawEdge(s *scene.Scene, e Edge, points [][2]int) {
	shifted := func(by int) [][2]int {
		out := slices.Clone(points)
		for i := range out {
			out[i][1] += by
		}
		return out
	}
	amount, rate := float64(e.Packets), fmt.Sprintf("%d packets of the flows that live", e.Packets)
	if e.PacketsPerSecond != nil {
		amount, rate = *e.PacketsPerSecond, fmt.Sprintf("%.0f packets/s", *e.PacketsPerSecond)
	}
	ends := e.From + " and " + e.To
	thick := min(2+2*math.Log10(1+amount), 12)
	if e.Hardware != nil {
		at := int(thick/3) + 2
		for _, part := range []struct {
			place   scene.Place
			percent int
			by      int
		}{{scene.PlaceHardware, *e.Hardware, -at}, {scene.PlaceSoftware, 100 - *e.Hardware, at}} {
			if part.percent == 0 {
				continue
			}
			because := ""
			if part.place == scene.PlaceSoftware && e.Reason != "" {
				because = ": " + e.Reason
			}
			width := math.Round(max(1.5, thick*float64(part.percent)/100)*10) / 10
			s.Lines = append(s.Lines, scene.Line{Place: part.place, Percent: part.percent, Points: shifted(part.by), Width: width,
				Words: fmt.Sprintf("%s: %s, %d %% in %s%s", ends, rate, part.percent, part.place, because)})
		}
	}
	if e.Dropped > 0 {
		by := strings.Join(e.By, ", ")
		words := fmt.Sprintf("%s: %d packets dropped", ends, e.Dropped)
		if by != "" {
			words += " by " + by
		}
		s.Lines = append(s.Lines, scene.Line{Place: scene.PlaceDrop, Points: shifted(12), Width: 2, Words: words, Label: cmp.Or(by, "dropped")})
	}
}

// boxes adds the ends, and below them those without lines.
func (l *layers) boxes(s *scene.Scene, g *graph, drawn []string, packets map[string]uint64) {
	s.Width = 2*mapX + max(len(l.columns), idleRow)*(mapW+mapGapX) - mapGapX
	var idle []string
	for _, name := range slices.Sorted(slices.Values(drawn)) {
		if _, ok := l.rank[name]; ok {
			s.Add(l.at[name])
		} else {
			idle = append(idle, name)
		}
	}
	if len(idle) == 0 {
		return
	}
	for i, name := range idle {
		b := g.box(name, mapX+i%idleRow*(mapW+mapGapX), s.Height+i/idleRow*(mapH+mapGapY/2))
		why := "no packets now"
		if packets[name] > 0 {
			why = "its lines are not drawn"
		}
		b.Idle, b.Text = true, []string{strings.Join(b.Text, ", "), why}
		s.Add(b)
	}
	s.Height += (len(idle) + idleRow - 1) / idleRow * (mapH + mapGapY/2)
}
