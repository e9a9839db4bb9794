package scene

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
)

// svgStyle is that of a file, which has no page around it.
const svgStyle = `text{font:12px sans-serif}.small{font-size:11px;fill:#57606a}.title{font-weight:bold}rect{fill:#fff;stroke:#c5cbd2}` +
	`.frame{fill:none;stroke:#57606a;stroke-dasharray:2 4}rect.hardware{fill:#dff3ea;stroke:#0b7a5b}rect.software{fill:#fdebd9;stroke:#a84300;stroke-dasharray:6 4}` +
	`.bad{stroke:#b3002d;stroke-width:3}path{fill:none;stroke:#c5cbd2}path.hardware{stroke:#0b7a5b}path.software{stroke:#a84300;stroke-dasharray:7 4}`

// NodeSVG is the drawing of a node as a file.
func NodeSVG(n answer.TopologyNode) string { return Node(n).svg() }

func (s *Scene) svg() string {
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"><style>%s</style>`+"\n", s.Width, s.Height, svgStyle)
	for _, b := range s.Frames {
		b.svg(&out, "frame")
	}
	for _, b := range s.Boxes { // bands are below the ways, which are below the others
		if b.band() {
			b.svg(&out, string(b.Kind))
		}
	}
	for _, l := range s.Lines {
		var points []string
		for _, p := range l.Points {
			points = append(points, fmt.Sprintf("%d %d", p[0], p[1]))
		}
		fmt.Fprintf(&out, `<path class="%s" stroke-width="%.1f" d="M%s"><title>%s</title></path>`+"\n", l.Place, 1.5+float64(l.Percent)/28, strings.Join(points, "L"), escape(l.Words))
	}
	for _, b := range s.Boxes {
		if !b.band() {
			b.svg(&out, string(b.Kind))
		}
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func (b Box) band() bool { return b.Kind == KindHardware || b.Kind == KindSoftware }

func (b Box) svg(out *strings.Builder, class string) {
	if b.Bad {
		class += " bad"
	}
	fmt.Fprintf(out, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="5"/><text class="title" x="%d" y="%d">%s</text>`, class, b.X, b.Y, b.W, b.H, b.X+8, b.Y+16, escape(b.Title))
	for i, line := range b.Text {
		fmt.Fprintf(out, `<text class="small" x="%d" y="%d">%s</text>`, b.X+8, b.Y+32+i*15, escape(line))
	}
	out.WriteString("\n")
}

func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a Builder takes all
	return out.String()
}
