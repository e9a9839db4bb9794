package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// PodStreams are a pod's streams, and what keeps those in software out of hardware.
type PodStreams struct {
	Streams []streams.Stream `json:"streams,omitempty"`
	// Sum is that of all streams; nil: there are none.
	Sum    *StreamSum `json:"sum,omitempty"`
	Advice []Advice   `json:"advice,omitempty"`
}

// StreamSum counts what streams are made of.
type StreamSum struct {
	// Flows are those of the datapaths. One that several streams share counts once.
	Flows int `json:"flows"`
	// PacketsPerSecond is nil where no stream was measured.
	PacketsPerSecond *float64 `json:"packetsPerSecond,omitempty"`
}

// add adds a stream, and the obstacles of its flows: what has to change on a node that has a NIC.
func (p *PodStreams) add(stream streams.Stream, flows map[string]*flowapi.Flow, hasNIC bool) {
	p.Streams = append(p.Streams, stream)
	if !hasNIC {
		return
	}
	if advice := advise(stream, flows); len(advice.Obstacles) > 0 {
		p.Advice = append(p.Advice, advice)
	}
}

func sumOf(of []streams.Stream) *StreamSum {
	if len(of) == 0 {
		return nil
	}
	sum, flows, rate := &StreamSum{}, map[string]bool{}, 0.0
	for _, s := range of {
		for _, id := range s.Flows {
			flows[s.Node+"/"+id] = true
		}
		if s.PacketsPerSecond != nil {
			rate += *s.PacketsPerSecond
			sum.PacketsPerSecond = &rate
		}
	}
	sum.Flows = len(flows)
	return sum
}

// Advice says why a stream is not in hardware, and what has to change. Each obstacle was found by classifying the stream's flows
// without those before it.
type Advice struct {
	From      string     `json:"from,omitempty"`
	To        string     `json:"to,omitempty"`
	Protocol  string     `json:"protocol,omitempty"`
	Port      string     `json:"port,omitempty"`
	Obstacles []Obstacle `json:"obstacles"`
}

// Obstacle is one of them, in words.
type Obstacle struct {
	offload.Obstacle
	Meaning string `json:"meaning"`
	Action  string `json:"action"`
	// Objects are those whose rules the flow with the obstacle was made from.
	Objects []string `json:"objects,omitempty"`
}

// To chooses streams by their target. Empty fields choose all.
type To struct{ Object, Port string }

func (t To) chooses(s streams.Stream) bool {
	return (t.Object == "" || s.To == t.Object || s.Via == t.Object) && (t.Port == "" || s.Port == t.Port)
}

// AddStreams adds the streams of the pod, of those to one target only if one is named. What could not be read of them does not
// make the answer about the pod worse.
func (e *PodExplained) AddStreams(s *snapshot.Snapshot, flows []flowapi.Flow, missing []string, to To) error {
	names, err := Whose(s)
	if err != nil {
		return err
	}
	e.Missing, e.DPUs, e.Measured = append(e.Missing, missing...), s.DPUs, s.Measured
	byID := map[string]*flowapi.Flow{}
	for i := range flows {
		byID[flows[i].ID] = &flows[i]
	}
	for _, stream := range streams.Join(flows, names) {
		if !stream.Of("pod/"+e.Pod) || !to.chooses(stream) {
			continue
		}
		e.add(stream, byID, !e.NoNIC)
	}
	e.Sum = sumOf(e.Streams)
	return nil
}

// advise joins the obstacles of a stream's flows.
func advise(stream streams.Stream, flows map[string]*flowapi.Flow) Advice {
	advice := Advice{From: stream.From, To: stream.To, Protocol: stream.Protocol, Port: stream.Port}
	for _, id := range stream.Flows {
		f := flows[id]
		if f == nil || f.Why == nil {
			continue
		}
		for _, o := range f.Why.Obstacles {
			if slices.ContainsFunc(advice.Obstacles, func(have Obstacle) bool { return have.Obstacle == o }) {
				continue
			}
			meaning, action := meaningOf(string(o.Reason), o.Detail)
			out := Obstacle{Obstacle: o, Meaning: meaning, Action: action}
			if o.Reason == offload.ReasonAction || o.Reason == offload.ReasonSlowPath {
				out.Objects = f.DecidedBy
			}
			advice.Obstacles = append(advice.Obstacles, out)
		}
	}
	return advice
}

// shownAdvice bounds the advice of a page: streams to one target have the same.
const shownAdvice = 3

// summary is the sum in words.
func (p PodStreams) summary() string {
	text := plural(len(p.Streams), "stream") + ", " + plural(p.Sum.Flows, "flow") + " of the datapath"
	if rate := p.Sum.PacketsPerSecond; rate != nil {
		text += fmt.Sprintf(", %.0f packets a second", *rate)
	}
	return text
}

// printStreamsOf writes the streams of an explained object.
func (p PodStreams) printStreamsOf(page *Page) {
	if len(p.Streams) == 0 {
		return
	}
	page.Line("")
	page.Line("%s", p.summary())
	printStreams(page, p.Streams)
	for _, a := range p.Advice[:min(shownAdvice, len(p.Advice))] {
		page.Line("")
		page.Line("WHY  %s to %s %s", cmp.Or(a.From, "any"), cmp.Or(a.To, "any"), strings.TrimSuffix(cmp.Or(a.Protocol, "any")+":"+a.Port, ":"))
		for i, o := range a.Obstacles {
			objects := ""
			for _, owner := range o.Objects {
				objects += ", " + Object(owner)
			}
			page.Line("  %d. %s%s: %s", i+1, becauseOf(flowapi.Placed{Reason: o.Reason, Detail: o.Detail}), objects, o.Meaning)
		}
		page.Line("TO CHANGE (its flows were classified without each)")
		for i, o := range a.Obstacles {
			then := fmt.Sprintf("then %d is left", i+2)
			if i == len(a.Obstacles)-1 {
				then = "then hardware, unless the NIC's driver refuses it"
			}
			page.Line("  %d. %s: %s", i+1, o.Action, then)
		}
	}
	if left := len(p.Advice) - shownAdvice; left > 0 {
		page.Line("and %s more outside hardware: -o json has all", plural(left, "stream"))
	}
}
