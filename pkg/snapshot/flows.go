package snapshot

import (
	"encoding/json"
	"io"

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

// Summaries are those of the nodes of an archive.
func (s *Snapshot) Summaries() []*flowapi.Summary {
	var out []*flowapi.Summary
	for _, of := range s.flows {
		if of.Summary != nil {
			out = append(out, of.Summary)
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
