package perf

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/perf/load"
)

// Case is one measurement.
type Case struct {
	// ID never changes, so that results of two versions compare.
	ID       string
	Kind     load.Kind
	Protocol string
	// From and To are pods.
	From, To string
}

// pair is two pods, and what the way between them is.
type pair struct{ way, from, to string }

func pairs(vf bool) []pair {
	of := []pair{
		{"host-other-node", "host-a", "host-b"},
		{"veth-same-node", "veth-a", "veth-a2"},
		{"veth-other-node", "veth-a", "veth-b"},
	}
	if vf {
		of = append(of, pair{"vf-same-node", "vf-a", "vf-a2"}, pair{"vf-other-node", "vf-a", "vf-b"})
	}
	return of
}

// Cases are those whose id an expression matches. The ones on VFs need a resource.
func Cases(vf bool, expression string) ([]Case, error) {
	matches, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, what := range []struct {
		kind     load.Kind
		protocol string
	}{{load.Stream, "tcp"}, {load.Stream, "udp"}, {load.RR, "tcp"}, {load.CRR, "tcp"}} {
		for _, p := range pairs(vf) {
			c := Case{fmt.Sprintf("%s/%s/%s", what.kind, p.way, what.protocol), what.kind, what.protocol, p.from, p.to}
			if matches.MatchString(c.ID) {
				cases = append(cases, c)
			}
		}
	}
	return cases, nil
}

// Options are those of all cases.
type Options struct {
	Streams, Size int
	Time, Idle    time.Duration
}

// Validate says what a load would refuse, before anything is made for it.
func (o Options) Validate(cases []Case) error {
	datagrams := slices.ContainsFunc(cases, func(c Case) bool { return c.Protocol == "udp" })
	switch {
	case o.Streams < 1 || o.Streams > 128:
		return fmt.Errorf("--streams=%d: want 1 to 128", o.Streams)
	case o.Time < time.Second || o.Time > time.Hour:
		return fmt.Errorf("--time=%s: want 1s to 1h", o.Time)
	case o.Size < 0 || o.Size > load.MaxSize:
		return fmt.Errorf("--size=%d: want at most %d", o.Size, load.MaxSize)
	case datagrams && o.Size > load.MaxDatagram:
		return fmt.Errorf("--size=%d: a datagram has at most %d: leave the cases of UDP out with --run", o.Size, load.MaxDatagram)
	case datagrams && o.Size > 0 && o.Size < load.MinDatagram:
		return fmt.Errorf("--size=%d: want at least %d for the cases of UDP", o.Size, load.MinDatagram)
	}
	return nil
}

// Command is what the case's pod runs against an address.
func (c Case) Command(o Options, host string) []string {
	return []string{
		"ovn-offload-agent", "probe", "load", "--kind=" + string(c.Kind), "--protocol=" + c.Protocol, "--host=" + host,
		fmt.Sprintf("--streams=%d", c.streams(o)), fmt.Sprintf("--size=%d", c.size(o)), "--time=" + o.Time.String(), "--idle=" + o.Idle.String(),
	}
}

// streams: answers are measured over one connection.
func (c Case) streams(o Options) int {
	if c.Kind == load.RR {
		return 1
	}
	return o.Streams
}

func (c Case) size(o Options) int { return cmp.Or(o.Size, load.DefaultSize(c.Kind, c.Protocol)) }

// OnOVN says that the packets pass the integration bridge on both nodes.
func (c Case) OnOVN() bool { return !strings.HasPrefix(c.From, "host-") }
