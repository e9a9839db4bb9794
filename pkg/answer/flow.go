package answer

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
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
	// Driver is what the NIC's driver says of a flow that it refused, if it was asked.
	Driver *flowapi.Asked `json:"driver,omitempty"`
	PodStreams
}

// AddDriver adds what the NIC's driver says of the flow, or why it was not asked.
func (e *FlowExplained) AddDriver(asked *flowapi.Asked, err error) {
	e.Driver, e.Next = asked, e.further()
	switch {
	case err != nil:
		e.missed([]string{"what the driver says: " + err.Error()})
	case asked.Problem != "":
		e.missed([]string{"what the driver says, which was not asked: " + asked.Problem})
	}
}

// further is the command after what is known of the flow itself.
func (e *FlowExplained) further() string {
	if len(e.Streams) == 0 {
		return "kubectl offload flows --node " + e.Node
	}
	return explainEnd(e.Streams[0].From, e.Streams[0].Via, e.Streams[0].To)
}

// explainFlow is the command that explains a flow.
func explainFlow(f *flowapi.Flow) string {
	return fmt.Sprintf("kubectl offload explain flow %s@%s", f.ID, f.Node)
}

// driverRow is what the driver says.
func (e *FlowExplained) driverRow() []string {
	says := "refuses it without a text"
	switch {
	case e.Driver.Taken:
		says = "takes this rule now"
	case e.Driver.Text != "":
		says = strconv.Quote(e.Driver.Text)
	}
	if e.Driver.Error != "" {
		says += " (" + e.Driver.Error + ")"
	}
	return []string{"  ", "driver", says, fmt.Sprintf("offered once more at pref %d of %s, and deleted", e.Driver.Priority, e.Driver.Port)}
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
	e.Flow, e.Steps = *f, legFlow(f, "").Steps
	hasNIC, err := mayOffload(s, node)
	if err != nil {
		return nil, err
	}
	for _, stream := range streams.Join(flows, names) {
		if slices.Contains(stream.Flows, id) {
			e.add(stream, byID, hasNIC)
		}
	}
	e.Sum = sumOf(e.Streams)
	if e.Next = e.further(); f.Reason == offload.ReasonRefused && f.Place == offload.TC {
		e.Next = explainFlow(f) + " --ask-driver"
	}
	return e, nil
}

// mayOffload says whether a node has a NIC that can offload, or may have one.
func mayOffload(s *snapshot.Snapshot, node string) (bool, error) {
	offloads, err := snapshot.Objects[v1alpha1.NodeOffload](s, snapshot.NodeOffloads)
	return !slices.ContainsFunc(offloads, func(n v1alpha1.NodeOffload) bool { return n.Name == node && n.Status.DeviceCount == 0 }), err
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
	for _, row := range legFlow(&e.Flow, "").tcRow() {
		rows = append(rows, append([]string{"  "}, row[1:]...))
	}
	if e.Driver != nil && e.Driver.Problem == "" {
		rows = append(rows, e.driverRow())
	}
	p.Table(rows)
	e.printStreamsOf(p)
}
