package offload

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// Sample is a report with its moment.
type Sample struct {
	At time.Time
	// Switch is the ovs-vswitchd that it is from.
	Switch unixctl.Instance
	// Took is how long the dump lasted.
	Took time.Duration
	// Busy is how long the dump kept the main thread of ovs-vswitchd busy, as MeasureDump says.
	Busy   time.Duration
	Report Report
}

// Delta is the traffic between two samples. Flows are not counted in it. What
// flows carried between the first sample and their end is not known.
type Delta struct {
	Took  time.Duration
	Ports []PortDelta // by name; all of the second sample
	// Total is the traffic of the node, each packet once.
	Total Share
	// Causes are its traffic outside hardware, the most packets first.
	Causes []Cause
}

// PortDelta is the traffic of one port between two samples.
type PortDelta struct {
	Port
	From, To Share
	// Drops are packets from the port that no port gets. They are counted in From, too.
	Drops Count
	// Lasting is the traffic outside hardware of flows that are in both samples.
	Lasting []Cause
}

// Compare gives what flows carried between two samples to the place where they are in the second one. Where the counters of
// a flow went back it is a new one, with all that it counted; that happens when it moves between TC and OVS. After a restart
// of the switch all flows are new.
func Compare(before, after Sample) Delta {
	var known map[flowAt]Count
	if before.Switch == after.Switch {
		known = countedAt(before.Report.Ends)
	}
	more := growth(known, countedAt(after.Report.Ends))
	ports := make(map[string]*portDelta, len(after.Report.Ports))
	for _, p := range after.Report.Ports {
		ports[p.Name] = &portDelta{PortDelta: PortDelta{Port: p.Port}, lasting: map[cause]*Count{}}
	}
	d := Delta{Took: after.At.Sub(before.At)}
	total := tally{outside: map[cause]*Count{}}
	for i := range after.Report.Ends {
		e := &after.Report.Ends[i]
		at := flowAt{e.UFID, e.Place}
		n, ok := more[at]
		if !ok {
			continue // a dump without -m, or the same flow in a further thread
		}
		delete(more, at)
		d.Total.At(e.Place).Add(n)
		total.note(*e, n)
		lasting := isIn(known, e.UFID)
		ports[e.From].add(e, n, lasting, true)
		for _, name := range e.To {
			ports[name].add(e, n, lasting, false)
		}
	}
	d.Causes = causes(total.outside)
	for _, p := range ports {
		p.Lasting = causes(p.lasting)
		d.Ports = append(d.Ports, p.PortDelta)
	}
	slices.SortFunc(d.Ports, func(a, b PortDelta) int { return cmp.Compare(a.Name, b.Name) })
	return d
}

// flowAt is a flow at one place. A datapath may have it there in several threads.
type flowAt struct {
	ufid  string
	place Place
}

// countedAt is what the flows of a sample had counted.
func countedAt(ends []End) map[flowAt]Count {
	out := make(map[flowAt]Count, len(ends))
	for i := range ends {
		if e := &ends[i]; e.UFID != "" {
			at := flowAt{e.UFID, e.Place}
			n := out[at]
			n.Add(Count{Packets: e.Packets, Bytes: e.Bytes})
			out[at] = n
		}
	}
	return out
}

// growth is what flows have now more than before.
func growth(before, now map[flowAt]Count) map[flowAt]Count {
	out := make(map[flowAt]Count, len(now))
	for at, n := range now {
		was, ok := before[at]
		if !ok {
			was = moved(at.ufid, before, now)
		}
		if was.Packets <= n.Packets && was.Bytes <= n.Bytes {
			n.Packets, n.Bytes = n.Packets-was.Packets, n.Bytes-was.Bytes
		}
		out[at] = n
	}
	return out
}

// moved is what a flow had counted at places where it no longer is.
func moved(ufid string, before, now map[flowAt]Count) (was Count) {
	for _, place := range Places() {
		at := flowAt{ufid, place}
		if _, stays := now[at]; !stays {
			was.Add(before[at])
		}
	}
	return was
}

// isIn says whether flows have a UFID.
func isIn(flows map[flowAt]Count, ufid string) bool {
	return slices.ContainsFunc(Places(), func(place Place) bool { _, ok := flows[flowAt{ufid, place}]; return ok })
}

type portDelta struct {
	PortDelta
	lasting map[cause]*Count
}

// add ignores a port that is not described, which has no portDelta.
func (p *portDelta) add(e *End, n Count, lasting, from bool) {
	if p == nil {
		return
	}
	share := &p.To
	if from {
		share = &p.From
	}
	share.At(e.Place).Add(n)
	if from && len(e.To) == 0 && e.Reason != ReasonSlowPath {
		p.Drops.Add(n)
	}
	if !lasting || e.Place == Hardware || n.Packets == 0 {
		return
	}
	k := cause{e.Reason, e.Detail}
	if p.lasting[k] == nil {
		p.lasting[k] = &Count{}
	}
	p.lasting[k].Add(n)
}

// Limits say what traffic outside hardware is worth an Event.
type Limits struct {
	// Apart is how far two samples must be apart for a flow to be long-lived.
	Apart time.Duration
	// Rate is in packets a second, of one port for one reason, and Share the
	// part of the port's traffic, 0 to 1; both have to be reached.
	Rate, Share float64
}

// DefaultLimits leave out ARP, DNS and probes.
func DefaultLimits() Limits { return Limits{Apart: 30 * time.Second, Rate: 100, Share: .1} }

// Finding is a pod with a device whose long-lived traffic is not in hardware.
type Finding struct {
	Pod  contract.Owner
	Port string
	// Cause has the traffic between the samples.
	Cause
	Rate, Share float64
}

// Message is the text of an Event.
func (f Finding) Message() string {
	detail := ""
	if f.Detail != "" {
		detail = " (" + f.Detail + ")"
	}
	return fmt.Sprintf("%.0f packets/s of %s, %.0f%% of its traffic, stay out of hardware: %s%s",
		f.Rate, f.Port, 100*f.Share, f.Reason.Explain(), detail)
}

// Findings are by port, and of one port only that with the most packets, so that
// a pod has one Event at a time. New connections are no finding: every
// connection begins outside.
func Findings(d Delta, l Limits) []Finding {
	if d.Took < l.Apart || d.Took <= 0 {
		return nil
	}
	var out []Finding
	for _, p := range d.Ports {
		if !p.Function || p.Pod == (contract.Owner{}) {
			continue
		}
		sum := p.From.Sum().Packets + p.To.Sum().Packets
		for _, c := range p.Lasting { // the most packets first
			f := Finding{
				Pod: p.Pod, Port: p.Name, Cause: c,
				Rate: float64(c.Packets) / d.Took.Seconds(), Share: float64(c.Packets) / float64(sum),
			}
			if c.Reason != ReasonNew && f.Rate >= l.Rate && f.Share >= l.Share {
				out = append(out, f)
				break
			}
		}
	}
	return out
}
