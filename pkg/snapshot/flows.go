package snapshot

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

const flowsDir = "flows/"

// NodeFlows are the flows of a node's datapath, with their names, and its summary.
type NodeFlows struct {
	Summary *flowapi.Summary `json:"summary,omitempty"`
	Flows   []flowapi.Flow   `json:"flows"`
	// DPU is the Node of the DPU that has the flows of its host.
	DPU string `json:"dpu,omitempty"`
}

// Flows are those of a node, or of all nodes for "". An archive may have them.
func (s *Snapshot) Flows(node string) []flowapi.Flow {
	var out []flowapi.Flow
	for _, of := range s.flows {
		for _, f := range of.Flows {
			if node == "" || f.Node == node {
				out = append(out, f)
			}
		}
	}
	return out
}

// SetDPU says that the flows of a host are those of its DPU.
func (s *Snapshot) SetDPU(host, dpu string) {
	if s.DPUs == nil {
		s.DPUs = map[string]string{}
	}
	s.DPUs[host] = dpu
}

// Summaries are those of a node of an archive, or of all nodes for "".
func (s *Snapshot) Summaries(node string) []*flowapi.Summary {
	var out []*flowapi.Summary
	for _, of := range s.flows {
		if of.Summary != nil && (node == "" || of.Summary.Node == node) {
			out = append(out, of.Summary)
		}
	}
	return out
}

// Unread are lines for what was not read of nodes: "node/NAME: why", or a line about all.
type Unread struct {
	Flows     []string `json:"flows,omitempty"`
	Summaries []string `json:"summaries,omitempty"`
}

// UnreadFlows are the lines about the flows of a node, or of all nodes for "".
func (s *Snapshot) UnreadFlows(node string) []string {
	if s.Unread == nil {
		return nil
	}
	return about(s.Unread.Flows, node)
}

// UnreadSummaries are the lines about the summary of a node, or of all nodes for "".
func (s *Snapshot) UnreadSummaries(node string) []string {
	if s.Unread == nil {
		return nil
	}
	return about(s.Unread.Summaries, node)
}

func about(lines []string, node string) []string {
	var out []string
	for _, line := range lines {
		if node == "" || strings.HasPrefix(line, "node/"+node+":") || !strings.HasPrefix(line, "node/") {
			out = append(out, line)
		}
	}
	return out
}

// AddFlows adds the flows of a node.
func (a *Archive) AddFlows(node string, flows NodeFlows) error {
	return a.json(flowsDir+node+".json", flows)
}

func (s *Snapshot) readFlows(r io.Reader) error {
	var flows NodeFlows
	if err := json.NewDecoder(r).Decode(&flows); err != nil {
		return err
	}
	s.flows = append(s.flows, flows)
	if flows.DPU != "" && flows.Summary != nil {
		s.SetDPU(flows.Summary.Node, flows.DPU)
	}
	return nil
}

// Measure takes along when flows were dumped.
func (s *Snapshot) Measure(answers []*flowapi.Flows) {
	for _, got := range answers {
		if s.Measured.IsZero() || got.Taken.Before(s.Measured) {
			s.Measured = got.Taken
		}
	}
}
