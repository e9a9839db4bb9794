package answer

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// IsOfStreams says whether Top by a word is made from streams, and not from summaries.
func IsOfStreams(by string) bool { return by == "stream" || by == "svc" || by == "policy" }

// NewTopStreams is Top by stream, by the service that is asked, or by the policy that decides. A stream about which several policies
// decide counts for each. Without rows the next command is that of the streams.
func NewTopStreams(of *Streams, by string, outside bool) *Top {
	t := &Top{Header: of.Header, By: by, Rows: []TopRow{}}
	t.Kind = "Top"
	nodes, rows, order := map[string]bool{}, map[string]*TopRow{}, []string{}
	for _, s := range of.Streams {
		nodes[s.Node] = true
		t.Total.Traffic.Add(streams.Share([]streams.Stream{s}))
		for _, name := range rowsOf(s, by) {
			key := name
			if by == "stream" {
				key = fmt.Sprint(len(order)) // each has a row of its own
			}
			if rows[key] == nil {
				rows[key], order = &TopRow{Name: name}, append(order, key)
			}
			rows[key].addStream(s, by == "stream")
		}
	}
	for _, key := range order {
		t.keep(*rows[key], outside)
	}
	t.Nodes = len(nodes)
	t.sort()
	return t
}

// rowsOf are the rows that a stream counts for.
func rowsOf(s streams.Stream, by string) []string {
	switch {
	case by == "stream":
		return []string{fmt.Sprintf("%s > %s %s", cmp.Or(s.From, "any"), cmp.Or(s.To, "any"), strings.TrimSuffix(cmp.Or(s.Protocol, "any")+":"+s.Port, ":"))}
	case by == "svc" && strings.HasPrefix(s.To, "svc/"):
		return []string{s.To}
	case by == "policy":
		var names []string
		for _, owner := range s.DecidedBy {
			if kind, _, _ := strings.Cut(owner, "/"); selected.IsPolicy(kind) {
				names = append(names, Object(owner))
			}
		}
		return names
	}
	return nil
}

// addStream adds a stream. The first one outside hardware has the most packets, so its reason is that of the row.
func (r *TopRow) addStream(s streams.Stream, own bool) {
	r.Traffic.Add(streams.Share([]streams.Stream{s}))
	if own {
		r.Node = s.Node
	}
	if s.Drops {
		r.Drops += s.Packets
	}
	if s.Reason != "" && r.Because == "" {
		r.Because = becauseOf(s.Placed)
	}
	if s.PacketsPerSecond != nil {
		r.Rate = plus(r.Rate, *s.PacketsPerSecond)
	}
}
