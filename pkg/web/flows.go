package web

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// ErrNoRelay is a cluster, or an archive, without a source of flows.
var ErrNoRelay = errors.New("flows need the relay: see docs/page.md")

// FlowList are flows of one node.
type FlowList struct {
	Node  string    `json:"node"`
	Taken time.Time `json:"taken"`
	// Matched is how many there are; the busiest are given.
	Matched int            `json:"matched"`
	Flows   []flowapi.Flow `json:"flows"`
	// Missing is what could not be read. The view has it.
	Missing []string `json:"-"`
	// Ends has what names the ends of the flows of a pod: nodes, pods and Services. Without it they have no names.
	Ends *snapshot.Snapshot `json:"-"`
}

// Traffic is that of all nodes, as their agents measured it last.
type Traffic struct {
	// Agents have answered; Failed did not, with the reason.
	Agents int      `json:"agents"`
	Failed []string `json:"failed,omitempty"`
	// Sums are an hour of sums, the oldest first.
	Sums []Sum `json:"sums,omitempty"`
	// Pods have packets outside hardware, those with the most first.
	Pods []PodRate `json:"pods,omitempty"`
}

// Sum is the traffic of all nodes in one step.
type Sum struct {
	Taken time.Time `json:"taken"`
	// Hardware and Software are packets a second.
	Hardware float64 `json:"hardware"`
	Software float64 `json:"software"`
	// Nodes answered; Failed did not.
	Nodes  int `json:"nodes"`
	Failed int `json:"failed,omitempty"`
}

// PodRate is the traffic of a pod.
type PodRate struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Hardware is the share of its packets in hardware, in percent. Outside are the others, a second.
	Hardware int            `json:"hardware"`
	Outside  float64        `json:"outside"`
	Reason   offload.Reason `json:"reason,omitempty"`
	Detail   string         `json:"detail,omitempty"`
}

// Outside are the packets of a pod outside hardware, a second.
func Outside(s *flowapi.Summary, pod *flowapi.PodSummary) float64 {
	if s.Seconds <= 0 {
		return 0
	}
	t := pod.Traffic
	return float64(t.Partial.Packets+t.TC.Packets+t.OVS.Packets) / s.Seconds
}

// NewPodRate computes it from a summary of the pod's node.
func NewPodRate(s *flowapi.Summary, pod *flowapi.PodSummary) PodRate {
	p := PodRate{Pod: pod.Namespace + "/" + pod.Name, Node: s.Node, Outside: Outside(s, pod), Reason: pod.Reason, Detail: pod.Detail}
	if all := pod.Traffic.Sum().Packets; all > 0 {
		p.Hardware = int(pod.Traffic.Hardware.Packets * 100 / all)
	}
	return p
}

// streams adds the flows of a pod, and its streams with what keeps them out of hardware, if there is a source of flows. A pod of
// which none are known is no error.
func (v *View) streams(ctx context.Context, f Facts, e *answer.PodExplained) error {
	if e.Node == "" {
		return nil
	}
	flows, err := f.Flows(ctx, e.Pod, "")
	switch {
	case errors.Is(err, ErrNoRelay), errors.Is(err, ErrDenied):
	case err != nil:
		v.Missing = append(v.Missing, "flows: "+err.Error())
	default:
		v.Flows, v.Missing = flows, append(v.Missing, flows.Missing...)
	}
	if v.Flows == nil || flows.Ends == nil {
		return nil
	}
	return e.AddStreams(flows.Ends, flows.Flows, nil, answer.To{})
}

func trafficView(ctx context.Context, f Facts, _ url.Values) (*View, error) {
	traffic, err := f.Traffic(ctx)
	if err != nil {
		return nil, err
	}
	v := &View{Taken: time.Now(), Command: "kubectl offload top --by pod", Traffic: traffic}
	if n := len(traffic.Sums); n > 0 {
		v.Taken = traffic.Sums[n-1].Taken
	}
	return v, nil
}
