package answer

import "strings"

// Captured is what a capture has written.
type Captured struct {
	Header
	Pod    string           `json:"pod"`
	Node   string           `json:"node"`
	File   string           `json:"file"`
	Points []*CapturedPoint `json:"points"`
}

// CapturedPoint is what was seen at a point.
type CapturedPoint struct {
	Point   string `json:"point"`
	Packets int    `json:"packets"`
	// Unseen is what the point does not show.
	Unseen string `json:"unseen,omitempty"`
	// Full: the capture ended at the size of its file.
	Full bool `json:"full,omitempty"`
}

// Captured begins the answer. A file without a name gets that of the pod and the time.
func (e *PodExplained) Captured(file string) *Captured {
	if file == "" {
		file = strings.ReplaceAll(e.Pod, "/", "-") + "-" + e.Taken.Format("20060102-150405") + ".pcapng"
	}
	h := Header{APIVersion: Version, Kind: "Captured", Taken: e.Taken, Missing: e.Missing, Next: "kubectl offload explain pod/" + e.Pod}
	return &Captured{Header: h, Pod: e.Pod, Node: e.Node, File: file}
}

// Text implements Answer.
func (c *Captured) Text(p *Page) {
	for _, point := range c.Points {
		full := ""
		if point.Full {
			full = "; the file is full"
		}
		p.Line("%s: %d packets%s", point.Point, point.Packets, full)
	}
	p.Line("%s on %s, in %s", c.Pod, c.Node, c.File)
}
