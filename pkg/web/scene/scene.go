// Package scene lays drawings out: boxes and the ways of packets between them, with coordinates.
//
// Place in the data flow:
//
//	answers of pkg/answer -> Node, Path, Live -> Scene -> JSON of pkg/web -> the browser; NodeSVG -> kubectl offload topology
//
// It is a package of its own because a drawing needs nothing of the page that shows it. The layout of a map is in pkg/web.
package scene

// Scene is a drawing: boxes, and lines between them, with coordinates.
type Scene struct {
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Frames []Box  `json:"frames,omitempty"`
	Boxes  []Box  `json:"boxes"`
	Lines  []Line `json:"lines"`
}

// Kind says what a box stands for.
type Kind string

// The kinds. Hardware and software are the bands in which packets are forwarded.
const (
	KindHost     Kind = "host"
	KindDPU      Kind = "dpu"
	KindHardware Kind = "hardware"
	KindSoftware Kind = "software"
	KindNIC      Kind = "nic"
	KindVF       Kind = "vf"
	KindPort     Kind = "port"
	KindPod      Kind = "pod"
	KindStation  Kind = "station"
	KindService  Kind = "service"
	// KindElsewhere is an end of packets that is none of the above.
	KindElsewhere Kind = "elsewhere"
)

// Box is a rectangle with words in it.
type Box struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	X    int    `json:"x"`
	Y    int    `json:"y"`
	W    int    `json:"w"`
	H    int    `json:"h"`
	// Title is the first line; Text are the others.
	Title string   `json:"title"`
	Text  []string `json:"text,omitempty"`
	// Link is the view that the box opens.
	Link string `json:"link,omitempty"`
	// Bad marks what drops packets or has a problem.
	Bad bool `json:"bad,omitempty"`
	// Idle has no packets.
	Idle bool `json:"idle,omitempty"`
}

// Place is where packets are forwarded.
type Place string

// The places; PlaceLink is no way of packets, but says what belongs together. PlaceDrop is where packets end.
const (
	PlaceHardware Place = "hardware"
	PlaceSoftware Place = "software"
	PlaceUnknown  Place = "unknown"
	PlaceLink     Place = "link"
	PlaceDrop     Place = "drop"
)

// Line is a way of packets.
type Line struct {
	Place Place `json:"place"`
	// Percent is the share of the packets that go this way.
	Percent int `json:"percent,omitempty"`
	// Points are x and y of its corners.
	Points [][2]int `json:"points"`
	// Words say in words what the line shows.
	Words string `json:"words"`
	// Width is that of the line; 0: by its percent.
	Width float64 `json:"width,omitempty"`
	// Dots is how many move on the line; 0: by its percent.
	Dots int `json:"dots,omitempty"`
	// Label is written on the line.
	Label string `json:"label,omitempty"`
}

// Add adds boxes.
func (s *Scene) Add(boxes ...Box) { s.Boxes = append(s.Boxes, boxes...) }

// Way adds a line if packets go there.
func (s *Scene) Way(place Place, percent int, words string, points ...[2]int) {
	if percent > 0 || place == PlaceLink || place == PlaceUnknown {
		s.Lines = append(s.Lines, Line{Place: place, Percent: percent, Points: points, Words: words})
	}
}

// Left is the middle of its left side.
func (b Box) Left() [2]int { return [2]int{b.X, b.Y + b.H/2} }

// Right is the middle of its right side.
func (b Box) Right() [2]int { return [2]int{b.X + b.W, b.Y + b.H/2} }
