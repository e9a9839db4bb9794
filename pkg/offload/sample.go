package offload

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// Switch is the ovs-vswitchd of this node; unixctl.Client is one.
type Switch interface {
	Instance() (unixctl.Instance, error)
	Call(ctx context.Context, method string, args ...string) (string, error)
	Lines(ctx context.Context, line func(string) error, method string, args ...string) error
	// ProcessorTime is that of the main thread since its start.
	ProcessorTime() (time.Duration, error)
}

// State is what Read has to know besides the flows; it comes from the
// Open_vSwitch database and the inventory.
type State struct {
	Ports    []Port
	Settings Settings
}

// Read dumps the flows of every datapath and classifies them on the way. The
// whole dump is never in memory.
func Read(ctx context.Context, sw Switch, now State) (Report, error) {
	d, err := newDump(ctx, sw)
	if err != nil {
		return Report{}, err
	}
	report := Classify(d.flows(), now.Ports, now.Settings)
	report.Malformed = d.malformed
	return report, d.err
}

// ReadEach is Read, and calls each for every flow of the dump. Thread is that of the datapath, as ofproto/detrace takes
// it. The placements are those of the flows, in their order.
func ReadEach(ctx context.Context, sw Switch, now State, each func(f *dpflow.Flow, thread string)) (Report, []Placement, error) {
	d, err := newDump(ctx, sw)
	if err != nil {
		return Report{}, nil, err
	}
	report, placements := ClassifyEach(func(yield func(dpflow.Flow) bool) {
		for f := range d.flows() {
			f.Key = d.key
			each(&f, d.thread)
			yield(f) // Classify takes them all
		}
	}, now.Ports, now.Settings)
	report.Malformed = d.malformed
	return report, placements, d.err
}

func newDump(ctx context.Context, sw Switch) (*dump, error) {
	text, err := sw.Call(ctx, "dpctl/dump-dps")
	var refused *unixctl.Refused
	if errors.As(err, &refused) && strings.TrimSpace(refused.Text) == "" {
		err = nil // that is how it says that there is none, as before the first bridge
	}
	if err != nil {
		return nil, fmt.Errorf("listing datapaths: %w", err)
	}
	return &dump{ctx: ctx, sw: sw, datapaths: strings.Fields(text)}, nil
}

// dump is one pass over the flows of all datapaths.
type dump struct {
	ctx       context.Context
	sw        Switch
	datapaths []string

	thread    string // of a datapath in userspace whose flows are read
	key       string // of the flow
	malformed int
	err       error
}

func (d *dump) flows() iter.Seq[dpflow.Flow] {
	return func(yield func(dpflow.Flow) bool) {
		line := func(text string) error {
			if dpflow.Heading(text) {
				d.thread = dpflow.Thread(text)
				return nil
			}
			f, err := dpflow.Parse(text)
			d.key = dpflow.KeyOf(text)
			if err != nil {
				d.malformed++
				return nil //nolint:nilerr // one line of a newer release must not mask the others
			}
			yield(f) // Classify takes them all
			return nil
		}
		for _, dp := range d.datapaths {
			if err := d.sw.Lines(d.ctx, line, "dpctl/dump-flows", "-m", "--names", dp); err != nil {
				d.err = fmt.Errorf("dumping the flows of %s: %w", dp, err)
				return
			}
		}
	}
}

// Sampler takes samples for as long as the agent runs. Flows change without an
// event to wait for.
type Sampler struct {
	Switch Switch
	// State is asked before each sample.
	State func() State
	// Interval is the least time between samples. A dump with much work stretches it (Rest), so that the main thread of
	// ovs-vswitchd spends at most 1 % of its time on it.
	Interval time.Duration
	// Idle, where set, says that there is nothing to offload to; no samples are
	// taken then.
	Idle func() bool
}

// Run gives each sample, with what happened since the one before where there is
// one. A sample that fails goes to failed, and the next begins anew. It ends
// with ctx.
func (s *Sampler) Run(ctx context.Context, took func(Sample, *Delta), failed func(error)) {
	var last *Sample
	for {
		var sample Sample
		err := errIdle
		if s.Idle == nil || !s.Idle() {
			sample, err = s.once(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errIdle):
			last = nil
		case err != nil:
			failed(err)
			last = nil
		default:
			var delta *Delta
			if last != nil {
				d := Compare(*last, sample)
				delta = &d
			}
			took(sample, delta)
			last = &sample
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(s.Interval, Rest(sample.Busy, 100))):
		}
	}
}

var errIdle = errors.New("idle")

func (s *Sampler) once(ctx context.Context) (Sample, error) {
	instance, err := s.Switch.Instance()
	if err != nil {
		return Sample{}, err
	}
	now := s.State()
	start, busy := time.Now(), MeasureDump(s.Switch)
	report, err := Read(ctx, s.Switch, now)
	return Sample{At: start, Switch: instance, Took: time.Since(start), Busy: busy(), Report: report}, err
}
