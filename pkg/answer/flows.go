package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// Filter chooses streams. Empty fields choose all. Names are NAMESPACE/NAME.
type Filter struct {
	Namespace, Pod, FromPod, ToPod, ToService string
	Protocol, Port                            string
	// Verdict is forwarded or dropped. Policy is that of selected.Reference.
	Verdict, Place, Reason, Policy string

	Bounds
}

// Bounds are those parts of a Filter that are no words of a stream.
type Bounds struct {
	Labels
	MinRate float64
	// Not chooses the streams that the rest does not choose.
	Not bool
}

// Validate refuses words that no stream has.
func (f Filter) Validate() error {
	for _, c := range []struct {
		flag, value string
		words       []string
	}{
		{"verdict", f.Verdict, []string{"forwarded", "dropped"}},
		{"place", f.Place, wordsOf(offload.Places())},
		{"reason", f.Reason, wordsOf(offload.Reasons())},
	} {
		if c.value != "" && !slices.Contains(c.words, c.value) {
			return fmt.Errorf("--%s %q: want one of %s", c.flag, c.value, strings.Join(c.words, ", "))
		}
	}
	if !isNumbered(f.Protocol, 8, "tcp", "udp", "sctp", "icmp", "icmp6", "arp") {
		return fmt.Errorf("--protocol %q: want tcp, udp, sctp, icmp, icmp6, arp or the number of another", f.Protocol)
	}
	if port, mask, masked := strings.Cut(f.Port, "/"); !isNumbered(port, 16) || masked && !isNumbered(mask, 16) {
		return fmt.Errorf("--port %q: want a number, or NUMBER/MASK as streams have it", f.Port)
	}
	if f.MinRate < 0 {
		return fmt.Errorf("--min-pps %v: want 0 or more", f.MinRate)
	}
	_, _, err := f.selectors()
	return err
}

// isNumbered says that a text is empty, one of some words, or a number with so many bits.
func isNumbered(text string, bits int, words ...string) bool {
	_, err := strconv.ParseUint(text, 0, bits)
	return err == nil || text == "" || slices.Contains(words, text)
}

func wordsOf[T ~string](list []T) []string {
	var words []string
	for _, one := range list {
		words = append(words, string(one))
	}
	return words
}

// Chooses says whether a stream is one of those. Those of other namespaces are none, also with Not.
func (f Filter) Chooses(s streams.Stream) bool {
	return f.in(s) && f.matches(s) != f.Not
}

func (f Filter) matches(s streams.Stream) bool {
	of := func(want, kind string, ends ...string) bool { return want == "" || slices.Contains(ends, kind+want) }
	return f.is(s) && of(f.Pod, "pod/", s.From, s.To, s.Via) && of(f.FromPod, "pod/", s.From) &&
		of(f.ToPod, "pod/", s.To, s.Via) && of(f.ToService, "svc/", s.To) && f.isDecided(s.DecidedBy) &&
		f.from.has(s.From) && f.to.has(s.To, s.Via)
}

// isDecided says whether the policy of the filter is one of the owners, on any network.
func (f Filter) isDecided(by []string) bool {
	kind, name := selected.Reference(f.Policy)
	return f.Policy == "" || slices.ContainsFunc(by, func(owner string) bool {
		object, _, _ := strings.Cut(owner, "@")
		return object == kind.Name+"/"+name
	})
}

// in says whether an end of a stream is in the namespace.
func (f Filter) in(s streams.Stream) bool {
	return f.Namespace == "" || slices.ContainsFunc([]string{s.From, s.To, s.Via}, func(end string) bool {
		_, name, _ := strings.Cut(end, "/")
		return strings.HasPrefix(name, f.Namespace+"/")
	})
}

// is says whether a stream has the words of the filter.
func (f Filter) is(s streams.Stream) bool {
	word := func(want, have string) bool { return want == "" || want == have }
	verdict := "forwarded"
	if s.Drops {
		verdict = "dropped"
	}
	rate := 0.0
	if s.PacketsPerSecond != nil {
		rate = *s.PacketsPerSecond
	}
	return word(f.Protocol, s.Protocol) && word(f.Port, s.Port) && word(f.Verdict, verdict) && word(f.Place, string(s.Place)) &&
		word(f.Reason, string(s.Reason)) && rate >= f.MinRate
}

// Object is an owner of a row as kubectl names objects: NetworkPolicy/shop/deny is netpol/shop/deny.
func Object(owner string) string {
	kind, name, ok := strings.Cut(owner, "/")
	if !ok {
		return owner
	}
	if _, err := contract.ParseOwner(owner); err != nil {
		return owner
	}
	short := map[string]string{"Service": "svc", "Pod": "pod", "Node": "node", "Namespace": "ns"}[kind]
	for _, k := range selected.Kinds() {
		if k.Name == kind {
			short = k.Short
		}
	}
	return cmp.Or(short, strings.ToLower(kind)) + "/" + name
}

// Canonical writes KIND/NAME as answers do: pods/web, po/web and Pod/web are pod/web. What names no such kind stays.
func Canonical(object string) string {
	word, name, ok := strings.Cut(object, "/")
	if !ok {
		return object
	}
	if k, isPolicy := selected.Named(word); isPolicy {
		return k.Short + "/" + name
	}
	switch strings.ToLower(word) {
	case "pod", "pods", "po":
		return "pod/" + name
	case "service", "services", "svc":
		return "svc/" + name
	case "node", "nodes", "no", "nodeoffload", "nodeoffloads", "nof":
		return "node/" + name
	}
	return object
}

// Streams are the streams of a cluster at one moment.
type Streams struct {
	Header
	Streams []streams.Stream `json:"streams"`
	// Named and Flows count the flows of the datapath that were read. Stale are those without a name that get no packets
	// any more.
	Named int `json:"namedFlows"`
	Flows int `json:"flows"`
	Stale int `json:"staleFlows,omitempty"`
	// Unnamed says why flows have no name, and how many.
	Unnamed map[string]int `json:"unnamed,omitempty"`
}

// NewStreams joins flows, which were read without those that are missing.
func NewStreams(s *snapshot.Snapshot, flows []flowapi.Flow, missing []string, filter Filter, last int) (*Streams, error) {
	names, err := Whose(s)
	if err != nil {
		return nil, err
	}
	if err := filter.find(s); err != nil {
		return nil, err
	}
	a := &Streams{Header: header("Streams", s), Flows: len(flows), Streams: []streams.Stream{}}
	a.missed(missing)
	streams.Inherit(flows)
	a.count(flows)
	for _, stream := range streams.Join(flows, names) {
		if filter.Chooses(stream) {
			a.Streams = append(a.Streams, stream)
		}
	}
	if last > 0 {
		a.Streams = a.Streams[:min(last, len(a.Streams))]
	}
	if a.Next = inNamespace(topNodes, filter.Namespace); len(a.Streams) > 0 {
		a.Next = explainEnd(a.Streams[0].From, a.Streams[0].Via, a.Streams[0].To)
	}
	return a, nil
}

// count says how many flows have names, and why others have none.
func (a *Streams) count(flows []flowapi.Flow) {
	for _, f := range flows {
		switch why := flownames.Unnamed(f); {
		case why == "":
			a.Named++
		case f.Stale:
			a.Stale++
		case a.Unnamed == nil:
			a.Unnamed = map[string]int{why: 1}
		default:
			a.Unnamed[why]++
		}
	}
}

// missed takes along what could not be read of nodes.
func (h *Header) missed(missing []string) {
	h.Missing = append(h.Missing, folded(missing)...)
	if len(h.Missing) > 0 {
		h.Code = max(h.Code, Uncertain)
	}
}

// Text implements Answer.
func (a *Streams) Text(p *Page) {
	printStreams(p, a.Streams)
	if a.Flows > 0 {
		p.Line("")
		p.Line("%d of %d flows of the datapath have the names of objects", a.Named, a.Flows)
	}
	if a.Stale > 0 {
		p.Line("  %d: they have ended, or their rules have changed and they get no packets any more", a.Stale)
	}
	for _, why := range slices.Sorted(maps.Keys(a.Unnamed)) {
		p.Line("  %d: %s", a.Unnamed[why], why)
	}
}

func printStreams(p *Page, list []streams.Stream) {
	if len(list) == 0 {
		p.Line("no such stream: flows of the datapath end ten seconds after their last packet")
		return
	}
	p.Names(streamRows(list))
}

// streamRows have a heading.
func streamRows(list []streams.Stream) [][]string {
	rows := [][]string{{"FROM", "TO", "PROTOCOL", "PACKETS", "PACKETS/S", "PLACE", "BECAUSE", "DECIDED BY"}}
	for _, s := range list {
		rate := "-"
		if s.PacketsPerSecond != nil {
			rate = strconv.FormatFloat(*s.PacketsPerSecond, 'f', 0, 64)
		}
		to := cmp.Or(s.To, "any")
		if s.Via != "" {
			to += " (" + s.Via + ")"
		}
		protocol := cmp.Or(s.Protocol, "any")
		if s.Port != "" {
			protocol += ":" + s.Port
		}
		if s.Direction == flowapi.Reply {
			protocol += " reply"
		}
		place := string(s.Place)
		if s.Drops {
			place += ", dropped"
		}
		rows = append(rows, []string{
			cmp.Or(s.From, "any"), to, protocol, strconv.FormatUint(s.Packets, 10), rate, place, becauseOf(s.Placed), decided(s),
		})
	}
	return rows
}

func becauseOf(at flowapi.Placed) string {
	if at.Detail == "" {
		return cmp.Or(string(at.Reason), "-")
	}
	return string(at.Reason) + " (" + at.Detail + ")"
}

func decided(s streams.Stream) string {
	var objects []string
	for _, owner := range s.DecidedBy {
		objects = append(objects, strings.Join(append([]string{Object(owner)}, s.Rules[owner]...), " "))
	}
	return cmp.Or(strings.Join(objects, ", "), "? "+s.Unnamed)
}
