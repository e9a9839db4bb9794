package scene

import (
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

const (
	stationW   = 160
	stationH   = 64
	stationGap = 20
	laneTop    = Margin
	laneH      = 56
	stationsY  = laneTop + laneH + 28
	cpuY       = stationsY + stationH + 28
)

// Path draws the computed stations from one end to the other. Above them is the band of hardware, below them that of software.
// outgoing is what was measured at the pod that sends; without it unknown says why the band is not known.
func Path(t *answer.Traced, outgoing []v1alpha1.PodTraffic, unknown string) *Scene {
	width := 2*Margin + (len(t.Steps)+1)*(stationW+stationGap)
	s := &Scene{Width: max(width, 560), Height: cpuY + laneH + Margin}
	hardware := Box{ID: "hardware", Kind: KindHardware, X: Margin, Y: laneTop, W: s.Width - 2*Margin, H: laneH, Title: "hardware"}
	software := Box{ID: "software", Kind: KindSoftware, X: Margin, Y: cpuY, W: s.Width - 2*Margin, H: laneH, Title: "software"}
	s.Add(hardware, software)
	x := Margin + stationGap/2
	first := Box{ID: "from", Kind: KindPod, X: x, Y: stationsY, W: stationW, H: stationH, Title: t.From, Text: []string{"to " + t.To, t.Protocol}}
	s.Add(first)
	last := first
	dropped := t.Verdict == trace.Dropped || t.Verdict == trace.Rejected
	for i, step := range t.Steps {
		x += stationW + stationGap
		last = Box{
			ID: fmt.Sprintf("step %d", i+1), Kind: KindStation, X: x, Y: stationsY, W: stationW, H: stationH, Title: step.What,
			Text: nonEmpty(answer.Object(step.Object), step.Where), Bad: dropped && i == len(t.Steps)-1,
		}
		s.Add(last)
	}
	if t.Verdict != trace.Dropped && t.Verdict != trace.Rejected && len(outgoing) == 0 {
		y := cpuY + laneH/2 + 8
		s.Way(PlaceUnknown, 0, unknown, [2]int{first.X + stationW/2, stationsY + stationH}, [2]int{first.X + stationW/2, y}, [2]int{last.X + stationW/2, y}, [2]int{last.X + stationW/2, stationsY + stationH})
		return s
	}
	s.ways(t, first, last, outgoing)
	return s
}

func nonEmpty(words ...string) []string {
	var out []string
	for _, w := range words {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}

// ways draws where the packets run: through the band that was measured, and out at the station that drops them.
func (s *Scene) ways(t *answer.Traced, first, last Box, outgoing []v1alpha1.PodTraffic) {
	top, bottom := laneTop+laneH/2+8, cpuY+laneH/2+8
	from, to := first.X+stationW/2, last.X+stationW/2
	through := func(place Place, y, percent int, words string) {
		points := [][2]int{{from, stationsY}, {from, y}, {to, y}, {to, stationsY}}
		if place != PlaceHardware {
			points[0][1], points[3][1] = stationsY+stationH, stationsY+stationH
		}
		s.Way(place, percent, words, points...)
	}
	if t.Verdict == trace.Dropped || t.Verdict == trace.Rejected {
		through(PlaceSoftware, bottom, 100, "packets end at: "+last.Title)
		return
	}
	share := outgoing[0].Packets.Hardware
	through(PlaceHardware, top, share, fmt.Sprintf("%d %% of the packets of %s in hardware", share, outgoing[0].Port))
	because := ""
	if len(outgoing[0].Outside) > 0 {
		because = ": " + outgoing[0].Outside[0].Reason
	}
	through(PlaceSoftware, bottom, 100-share, fmt.Sprintf("%d %% of the packets of %s in software%s", 100-share, outgoing[0].Port, because))
}
