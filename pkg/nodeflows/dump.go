package nodeflows

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
)

// dump is one look at all flows.
type dump struct {
	taken time.Time
	took  time.Duration
	// busy is how long it kept the main thread of ovs-vswitchd busy.
	busy   time.Duration
	report offload.Report
	// sample is what the next dump is compared with.
	sample offload.Sample
	// flows are those with the most packets, at most flowapi.MaxLimit, in this order.
	flows []flowapi.Flow
	// threads has the thread of the datapath of a flow, where there are several.
	threads map[string]string
	// obstacles are what keeps flows out of hardware.
	obstacles map[string][]offload.Obstacle
	// keys are the matches of the flows, as ofproto/trace takes them.
	keys map[string]string
}

// numbered is a flow with its place in the dump.
type numbered struct {
	flowapi.Flow
	at        int
	obstacles []offload.Obstacle
	key       string
	receiver  string
}

// read dumps the flows. Rates are those since the last dump.
func read(ctx context.Context, sw offload.Switch, now offload.State, last *dump) (*dump, error) {
	busy := offload.MeasureDump(sw)
	d := &dump{taken: time.Now(), threads: map[string]string{}, obstacles: map[string][]offload.Obstacle{}, keys: map[string]string{}}
	pods := map[string]contract.Owner{}
	for _, p := range now.Ports {
		pods[p.Name] = p.Pod
	}
	var found []numbered
	seen := 0
	advisor := offload.NewAdvisor(now)
	report, placed, err := offload.ReadEach(ctx, sw, now, func(f *dpflow.Flow, thread string) {
		found = append(found, numbered{convert(f, pods), seen, advisor.Obstacles(*f), strings.Clone(f.Key), receiver(f)})
		seen++
		if thread != "" {
			d.threads[f.UFID] = thread
		}
		if len(found) == 2*flowapi.MaxLimit {
			found = most(found)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := d.count(sw, report, last); err != nil {
		return nil, err
	}
	if seen == len(found) {
		markStale(found)
	}
	d.took, d.busy = time.Since(d.taken), busy()
	before, kept := last.packets(d.taken), most(found)
	findReceivers(kept, now.Ports)
	for _, n := range kept {
		f := n.Flow
		f.Placed = placed[n.at]
		d.keys[f.ID] = n.key
		if len(n.obstacles) > 0 {
			d.obstacles[f.ID] = n.obstacles
		}
		if was, ok := before[f.ID]; ok && f.Packets >= was {
			rate := float64(f.Packets-was) / d.taken.Sub(last.taken).Seconds()
			f.PacketsPerSecond = &rate
		}
		d.flows = append(d.flows, f)
	}
	return d, nil
}

// count keeps the report of a dump, and goes on with the series of the last one.
func (d *dump) count(sw offload.Switch, report offload.Report, last *dump) error {
	instance, err := sw.Instance()
	if err != nil {
		return err
	}
	d.sample = offload.Sample{At: d.taken, Switch: instance, Report: report}
	d.report, d.report.Ends = report, nil
	if last == nil {
		d.report.Counted = d.report.Counted.Add(d.sample, nil)
		return nil
	}
	delta := offload.Compare(last.sample, d.sample)
	d.report.Counted = last.report.Counted.Add(d.sample, &delta)
	last.sample = offload.Sample{}
	return nil
}

// next is when the flows may be dumped again. A dump with much work stretches the period: viewers take at most 5 % of
// the main thread of ovs-vswitchd. The sampler, which always runs, takes 1 %.
func (d *dump) next() time.Time {
	if d == nil {
		return time.Time{}
	}
	return d.taken.Add(max(flowapi.MinPeriod, offload.Rest(d.busy, 20)))
}

// markStale finds the flows to which no other one hands packets on. Where ovs-vswitchd handles packets of a port itself, it does
// so without a flow that says it.
func markStale(flows []numbered) {
	type place struct {
		port   string
		number uint32
	}
	fed, slow := map[place]bool{}, map[string]bool{}
	for _, f := range flows {
		for _, next := range f.Next {
			fed[place{f.From.Port, next}] = true
		}
		slow[f.From.Port] = slow[f.From.Port] || strings.Contains(f.Actions, "slow_path")
	}
	for i := range flows {
		f := &flows[i]
		f.Stale = f.Recirculation != 0 && !slow[f.From.Port] && !fed[place{f.From.Port, f.Recirculation}]
	}
}

// most keeps the flows with the most packets.
func most(flows []numbered) []numbered {
	slices.SortStableFunc(flows, func(a, b numbered) int { return cmp.Compare(b.Packets, a.Packets) })
	return flows[:min(len(flows), flowapi.MaxLimit)]
}

// packets are those of each flow, unless they are too old to compute a rate.
func (d *dump) packets(now time.Time) map[string]uint64 {
	if d == nil || now.Sub(d.taken) > flowapi.RateSpan {
		return nil
	}
	out := make(map[string]uint64, len(d.flows))
	for i := range d.flows {
		out[d.flows[i].ID] = d.flows[i].Packets
	}
	return out
}

// choose gives the numbers of the flows of a query: those from, to or for its pods, and the earlier flows of the same
// packets' way.
func (d *dump) choose(q flowapi.Query) []int {
	chosen := make([]bool, len(d.flows))
	before := map[uint32][]int{}
	var todo []int
	for i := range d.flows {
		f := &d.flows[i]
		for _, next := range f.Next {
			before[next] = append(before[next], i)
		}
		if chooses(q, f) {
			chosen[i] = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		f := &d.flows[todo[0]]
		todo = todo[1:]
		if f.Recirculation == 0 {
			continue
		}
		for _, i := range before[f.Recirculation] {
			if !chosen[i] {
				chosen[i] = true
				todo = append(todo, i)
			}
		}
	}
	return numbers(chosen)
}

// with gives the numbers of the flows that have one of the UFIDs.
func (d *dump) with(ids map[string]bool) (out []int) {
	for i := range d.flows {
		if ids[d.flows[i].ID] {
			out = append(out, i)
		}
	}
	return out
}

// idsOf are the UFIDs of a query; nil: it has none.
func idsOf(q flowapi.Query) map[string]bool {
	if q.IDs == "" {
		return nil
	}
	ids := map[string]bool{}
	for id := range strings.SplitSeq(q.IDs, ",") {
		ids[id] = true
	}
	return ids
}

func chooses(q flowapi.Query, f *flowapi.Flow) bool {
	return q.All && q.Namespace == "" || wanted(q, f.From) || f.For != nil && wanted(q, *f.For) ||
		slices.ContainsFunc(f.To, func(e flowapi.End) bool { return wanted(q, e) })
}

// wanted says whether a query is about the pod of a port.
func wanted(q flowapi.Query, e flowapi.End) bool {
	return e.Pod != "" && (q.Namespace == "" || e.Namespace == q.Namespace) && (q.Pod == "" || e.Pod == q.Pod)
}

func numbers(chosen []bool) []int {
	var out []int
	for i, is := range chosen {
		if is {
			out = append(out, i)
		}
	}
	return out
}
