package offload

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
)

// Report is where the traffic of a node is handled, at one moment.
type Report struct {
	Settings Settings     `json:"settings"`
	Ports    []PortReport `json:"ports"` // by name
	Total    Share        `json:"total"`
	// Outside is all of it that is not in hardware, the most packets first.
	Outside []Cause `json:"outside"`
	// Malformed lines were not understood and are not counted.
	Malformed int `json:"malformed,omitempty"`
	// Ends is what Compare needs: each flow at which a way ends.
	Ends []End `json:"-"`
	// Counted is what the series of samples of which this is the newest has found; nil: there is no series.
	Counted *Counted `json:"-"`
}

// PortReport is the traffic of one port.
type PortReport struct {
	Port
	// From came out of the port: what a pod sent. To left by it; a flow with
	// several outputs is To each of them.
	From Share `json:"from"`
	To   Share `json:"to"`
	// Drops are packets from the port that no port gets. They are counted in From, too.
	Drops Count `json:"drops,omitzero"`
	// Outside is that of From and To together.
	Outside []Cause `json:"outside,omitempty"`
}

// End is a flow at which packets' way ends.
type End struct {
	UFID    string
	From    string // port
	To      []string
	Place   Place
	Reason  Reason // "" in hardware
	Detail  string
	Packets uint64
	Bytes   uint64
}

// Classify takes each flow once, in any order, and keeps none but its end.
func Classify(flows iter.Seq[dpflow.Flow], ports []Port, settings Settings) Report {
	return newClassifier(ports, settings).classify(flows)
}

// Placement is where the packets of a flow are handled, and if not in hardware why.
type Placement struct {
	Place  Place  `json:"place"`
	Reason Reason `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// ClassifyEach is Classify, and says of each flow where it is, in the order of the flows.
func ClassifyEach(flows iter.Seq[dpflow.Flow], ports []Port, settings Settings) (Report, []Placement) {
	c := newClassifier(ports, settings)
	c.each = []Placement{}
	report := c.classify(flows)
	return report, c.each
}

// classifier is the state of one Classify.
type classifier struct {
	settings Settings
	ports    map[string]*tally
	total    tally
	ways     ways
	// held are later stages: what they are depends on the earlier ones.
	held []held
	ends []End
	// each, if not nil, gets the placement of each flow.
	each []Placement
	// words has each port and detail once, so that ends do not hold on to the
	// lines that they came from.
	words map[string]string
}

// tally is a PortReport in the making.
type tally struct {
	port     Port
	from, to Share
	drops    Count
	outside  map[cause]*Count
}

type cause struct {
	reason Reason
	detail string
}

type held struct {
	recirc uint32
	end    End
	ends   bool
	at     int // in each
}

func newClassifier(ports []Port, settings Settings) *classifier {
	c := &classifier{
		settings: settings,
		ports:    make(map[string]*tally, len(ports)),
		total:    tally{outside: map[cause]*Count{}},
		words:    map[string]string{},
	}
	for _, p := range ports {
		c.ports[p.Name] = &tally{port: p, outside: map[cause]*Count{}}
	}
	return c
}

func (c *classifier) classify(flows iter.Seq[dpflow.Flow]) Report {
	for f := range flows {
		c.add(&f)
	}
	c.settle()
	return c.report()
}

func (c *classifier) add(f *dpflow.Flow) {
	next := f.Next()
	end := End{
		UFID: strings.Clone(f.UFID), From: c.word(f.InPort), To: distinct(f.Outputs()),
		Place: place(f), Packets: f.Packets, Bytes: f.Bytes,
	}
	for i := range end.To {
		end.To[i] = c.word(end.To[i])
	}
	for _, id := range next {
		c.ways = append(c.ways, hop{f.Recirc, id, end.Place})
	}
	if end.Place != Hardware {
		end.Reason, end.Detail = c.why(f, end)
		end.Detail = c.word(end.Detail)
	}
	if c.each != nil {
		c.each = append(c.each, Placement{end.Place, end.Reason, end.Detail})
	}
	if f.Recirc != 0 {
		c.held = append(c.held, held{f.Recirc, end, len(next) == 0, len(c.each) - 1})
		return
	}
	c.count(end, len(next) == 0)
}

func (c *classifier) word(text string) string {
	known, ok := c.words[text]
	if !ok {
		known = strings.Clone(text)
		c.words[known] = known
	}
	return known
}

// settle decides what needed all flows to be seen. The NIC, and TC, can only go
// on with a packet that they had from the beginning; a rule in the NIC that only
// software's packets reach works in software.
func (c *classifier) settle() {
	known := c.ways.reach(func(Place) bool { return true })
	inNIC := c.ways.reach(func(p Place) bool { return p == Hardware })
	inTC := c.ways.reach(func(p Place) bool { return p != OVS })
	for _, h := range c.held {
		e := &h.end
		switch at := h.recirc; {
		case !known[at]: // its earlier stages are gone from the dump
		case e.Place == Hardware && !inNIC[at]:
			e.Place, e.Reason = TC, ReasonEarlier
		case e.Reason == ReasonUnknown && !inTC[at]:
			e.Reason = ReasonEarlier
		case e.Reason == ReasonUnknown && c.settings.Policy == PolicySkipSW:
			e.Reason, e.Detail = ReasonRefused, c.limit(e.From)
		}
		if c.each != nil {
			c.each[h.at] = Placement{e.Place, e.Reason, e.Detail}
		}
		c.count(*e, h.ends)
	}
	c.held = nil
}

// hop is a flow that sends packets from one recirculation id to another.
type hop struct {
	from, to uint32
	place    Place
}

type ways []hop

// reach gives the ids to which packets come by suitable hops alone. They begin
// at 0.
func (w ways) reach(suits func(Place) bool) map[uint32]bool {
	next := map[uint32][]uint32{}
	for _, h := range w {
		if suits(h.place) {
			next[h.from] = append(next[h.from], h.to)
		}
	}
	reached := map[uint32]bool{0: true}
	for todo := []uint32{0}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		for _, to := range next[at] {
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	return reached
}

func (c *classifier) count(e End, ends bool) {
	n := Count{Flows: 1}
	if ends {
		n.Packets, n.Bytes = e.Packets, e.Bytes
		c.ends = append(c.ends, e)
	}
	c.total.from.At(e.Place).Add(n)
	c.total.note(e, n)
	if t := c.ports[e.From]; t != nil {
		t.from.At(e.Place).Add(n)
		t.note(e, n)
		if ends && len(e.To) == 0 && e.Reason != ReasonSlowPath {
			t.drops.Add(n)
		}
	}
	for _, name := range e.To {
		if t := c.ports[name]; t != nil {
			t.to.At(e.Place).Add(n)
			t.note(e, n)
		}
	}
}

func (t *tally) note(e End, n Count) {
	if e.Place == Hardware {
		return
	}
	k := cause{e.Reason, e.Detail}
	if t.outside[k] == nil {
		t.outside[k] = &Count{}
	}
	t.outside[k].Add(n)
}

func (c *classifier) report() Report {
	r := Report{
		Settings: c.settings, Total: c.total.from, Outside: causes(c.total.outside), Ends: c.ends,
		Ports: make([]PortReport, 0, len(c.ports)),
	}
	for _, t := range c.ports {
		r.Ports = append(r.Ports, PortReport{Port: t.port, From: t.from, To: t.to, Drops: t.drops, Outside: causes(t.outside)})
	}
	slices.SortFunc(r.Ports, func(a, b PortReport) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

func causes(m map[cause]*Count) []Cause {
	var out []Cause
	for k, n := range m {
		out = append(out, Cause{Reason: k.reason, Detail: k.detail, Count: *n})
	}
	slices.SortFunc(out, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(b.Flows, a.Flows),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Detail, b.Detail))
	})
	return out
}

func place(f *dpflow.Flow) Place {
	switch {
	case f.Offload == dpflow.Offloaded:
		return Hardware
	case f.Offload == dpflow.Partial:
		return Partial
	case f.Layer == dpflow.LayerTC:
		return TC
	}
	return OVS
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
