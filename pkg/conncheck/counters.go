package conncheck

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// counted are the counters of representors, by node and pod.
type counted map[[2]string]flowapi.Port

// Counters are packets of the pod of a way while a lasting case ran, without other cases beside it: those that TC's rules at
// its representor sent on in hardware, and those that passed the representor in software.
type Counters struct {
	Hardware uint64 `json:"hardware"`
	Software uint64 `json:"software"`
}

// witnesses are the legs of a case on which the counters have to say hardware, as the flows.
func (s *Sight) witnesses(c Case) []Leg {
	if c.Size != Lasting {
		return nil
	}
	legs := s.legs(c)
	return slices.DeleteFunc(legs, func(l Leg) bool { return !l.Hardware })
}

// legs are those of a case, with what is expected in place of the table.
func (s *Sight) legs(c Case) []Leg {
	legs := c.Legs(s.devices)
	for i := range legs {
		if s.instead != (Expected{}) {
			legs[i].Expected = s.instead
		}
	}
	return legs
}

// count reads the counters of the pods of the test on the nodes of some legs. The flows are not needed, and the limit is for
// agents that give them nevertheless.
func (s *Sight) count(ctx context.Context, legs []Leg) (counted, error) {
	out, read := counted{}, map[string]bool{}
	for _, leg := range legs {
		if read[leg.Node] {
			continue
		}
		read[leg.Node] = true
		got, err := s.flows(ctx, leg.Node, flowapi.Query{Namespace: Namespace, Limit: 1, Counters: true, NoFlows: true})
		if err != nil {
			return nil, fmt.Errorf("reading the counters of node %s: %w", leg.Node, err)
		}
		for _, port := range got.Ports {
			out[[2]string{leg.Node, port.Pod}] = port
		}
	}
	return out, nil
}

// lasts is how long a connection lasts of which counters are read meanwhile: on a slow node longer than a reading.
func lasts(reading time.Duration) time.Duration {
	return min(max(lastsFor, 2*reading+readEvery), readWithin)
}

// follow counts again and again until end is called, which counts a last time. The rules of a connection go ten seconds after
// its last packet, and their counters with them: a slow node is not read in that time.
func (s *Sight) follow(ctx context.Context, legs []Leg, before counted) (end func() (counted, error)) {
	stop, ended, most := make(chan struct{}), make(chan struct{}), counted{}
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-stop:
				return
			case <-time.After(readEvery):
			}
			if got, err := s.count(ctx, legs); err == nil { // one of several: the last one says what cannot be read
				most = got.keep(before, most)
			}
		}
	}()
	return func() (counted, error) {
		close(stop)
		<-ended
		last, err := s.count(ctx, legs)
		return last.keep(before, most), err
	}
}

// keep takes what the rules of TC had counted in an earlier reading, if that is more since a first one.
func (c counted) keep(first, earlier counted) counted {
	for key, port := range c {
		if was := earlier[key].Hardware; since(first[key].Hardware, was) > since(first[key].Hardware, port.Hardware) {
			port.Hardware = was
			c[key] = port
		}
	}
	return c
}

// pod is that of the leg whose representor is on the leg's node.
func (l Leg) pod() string {
	if l.Receives {
		return strings.TrimPrefix(l.To, "pod/")
	}
	return l.From
}

// silent is the share of the packets that software may have seen: the first ones of a connection.
const silent = 0.25

// compare says what the counters of a leg have against hardware; "" for nothing.
func (l Leg) compare(before, after counted) (c Counters, against string) {
	key := [2]string{l.Node, l.pod()}
	first, had := before[key]
	last, has := after[key]
	switch {
	case !had || !has:
		return c, fmt.Sprintf("pod %s has no representor with counters on node %s", l.pod(), l.Node)
	case first.Problem != "" || last.Problem != "":
		return c, cmp.Or(first.Problem, last.Problem)
	}
	c = Counters{since(first.Hardware, last.Hardware), since(first.Software, last.Software)}
	switch {
	case c.Hardware == 0:
		return c, fmt.Sprintf("the rules of TC at %s on node %s sent no packet on in hardware, %d packets were in software", last.Port, l.Node, c.Software)
	case float64(c.Software) > silent*float64(c.Hardware):
		return c, fmt.Sprintf("%d packets passed %s on node %s in software, %d in hardware", c.Software, last.Port, l.Node, c.Hardware)
	}
	return c, ""
}

// since is the difference of a counter. Rules of TC that have gone take theirs with them.
func since(before, after uint64) uint64 {
	if after < before {
		return after
	}
	return after - before
}

// agree adds the counters to the places of a result. A result whose witnesses do not agree fails.
func (r *Result) agree(legs []Leg, before, after counted) {
	if len(r.Places) == 0 { // it was not asked, or had no answer
		return
	}
	for _, leg := range legs {
		c, against := leg.compare(before, after)
		for i := range r.Places {
			if r.Places[i].Node == leg.Node {
				r.Places[i].Counters, r.Places[i].Wrong = &c, r.Places[i].Wrong || against != ""
			}
		}
		if against != "" {
			r.Verdict = Fail
			r.Text += "; expected hardware, but " + against
		}
	}
}
