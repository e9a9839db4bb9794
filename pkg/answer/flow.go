package answer

import (
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// FlowExplained is one flow of a datapath, with the streams that it is a part of.
type FlowExplained struct {
	Header
	Node string       `json:"node"`
	Flow flowapi.Flow `json:"flow"`
	// Steps are the decisions that the flow was made from.
	Steps []LiveStep `json:"steps,omitempty"`
	PodStreams
}

// WayOf are the flows of all streams that a flow is a part of.
func WayOf(flows []flowapi.Flow, id string) (way []*flowapi.Flow) {
	ids := map[string]bool{id: true}
	for _, s := range streams.Join(flows, streams.Addresses) {
		if slices.Contains(s.Flows, id) {
			for _, f := range s.Flows {
				ids[f] = true
			}
		}
	}
	for i := range flows {
		if ids[flows[i].ID] {
			way = append(way, &flows[i])
		}
	}
	return way
}

// ExplainFlow explains a flow of a node.
func ExplainFlow(s *snapshot.Snapshot, node, id string, flows []flowapi.Flow, missing []string) (*FlowExplained, error) {
	names, err := Whose(s)
	if err != nil {
		return nil, err
	}
	byID := map[string]*flowapi.Flow{}
	for i := range flows {
		byID[flows[i].ID] = &flows[i]
	}
	f := byID[id]
	if f == nil && len(missing) == 0 {
		return nil, ErrNotFound{"flow " + id + " on node " + node + ": flows of the datapath end ten seconds after their last packet"}
	}
	e := &FlowExplained{Header: header("FlowExplained", s), Node: node}
	e.missed(missing)
	if f == nil {
		return e, nil
	}
	e.Flow, e.Steps = *f, legFlow(f).Steps
	for _, stream := range streams.Join(flows, names) {
		if !slices.Contains(stream.Flows, id) {
			continue
		}
		e.Streams = append(e.Streams, stream)
		if advice := advise(stream, byID); len(advice.Obstacles) > 0 {
			e.Advice = append(e.Advice, advice)
		}
	}
	return e, nil
}

// Text implements Answer.
func (e *FlowExplained) Text(p *Page) {
	if e.Flow.ID == "" {
		p.Line("the flow is not known")
		return
	}
	p.Line("flow %s  node %s  %s, %d packets %s", e.Flow.ID, e.Node, e.Flow.Place, e.Flow.Packets, reasonOf(e.Flow.Placed))
	p.Line("matches  %s", e.Flow.Match)
	p.Line("actions  %s", e.Flow.Actions)
	rows := [][]string{}
	for _, step := range e.Steps {
		rows = append(rows, append([]string{"  "}, step.cells()...))
	}
	if e.Flow.Why != nil && e.Flow.Why.Problem != "" {
		rows = append(rows, []string{"  ", e.Flow.Why.Problem})
	}
	for _, row := range legFlow(&e.Flow).tcRow() {
		rows = append(rows, append([]string{"  "}, row[1:]...))
	}
	p.Table(rows)
	e.printStreamsOf(p)
}
