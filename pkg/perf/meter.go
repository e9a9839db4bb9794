package perf

import (
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// Meter sums what the flows of two pods carried between the first moment and the last one.
type Meter struct {
	pods map[string]bool
	// last has the flows of each node's last moment; no entry: there was none.
	last map[string]map[string]flowapi.Flow
	// moved has a flow for each place where it was, with what it carried there.
	moved map[moved]flowapi.Flow
	// before has the flows of each node's first moment.
	before map[string]map[string]bool
	// hardware is the first moment of a node with packets of the pods in hardware, at the end of their way.
	hardware map[string]reached
}

// reached is a moment at which a flow was in hardware. Warm: the flow was there before the load.
type reached struct {
	at   time.Time
	warm bool
}

type moved struct {
	node, id string
	place    offload.Place
}

// NewMeter is one of the flows of some pods.
func NewMeter(pods ...string) *Meter {
	m := &Meter{
		pods: map[string]bool{}, last: map[string]map[string]flowapi.Flow{}, moved: map[moved]flowapi.Flow{}, before: map[string]map[string]bool{},
		hardware: map[string]reached{},
	}
	for _, pod := range pods {
		m.pods[pod] = true
	}
	return m
}

// Add takes the flows of a node at a moment. The first ones of a node are those before the load.
func (m *Meter) Add(node string, taken time.Time, flows []flowapi.Flow) {
	before, later := m.last[node]
	now := map[string]flowapi.Flow{}
	if !later {
		m.before[node] = map[string]bool{}
	}
	for _, f := range flows {
		if !m.of(f) {
			continue
		}
		now[f.ID] = f
		if !later {
			m.before[node][f.ID] = true
			continue
		}
		was := before[f.ID]
		f.Node, f.Traffic = node, since(was.Traffic, f.Traffic)
		if f.Packets == 0 {
			continue
		}
		if f.Place == offload.Hardware && len(f.Next) == 0 && m.hardware[node].at.IsZero() {
			m.hardware[node] = reached{taken, m.before[node][f.ID]}
		}
		key := moved{node, f.ID, f.Place}
		f.Packets += m.moved[key].Packets
		f.Bytes += m.moved[key].Bytes
		m.moved[key] = f
	}
	m.last[node] = now
}

func (m *Meter) of(f flowapi.Flow) bool {
	is := func(e flowapi.End) bool { return e.Namespace == Name && m.pods[e.Pod] }
	for _, to := range f.To {
		if is(to) {
			return true
		}
	}
	return is(f.From)
}

// since is what came between two moments. A flow with less than before was made again.
func since(before, now flowapi.Traffic) flowapi.Traffic {
	if now.Packets < before.Packets || now.Bytes < before.Bytes {
		before = flowapi.Traffic{}
	}
	return flowapi.Traffic{Packets: now.Packets - before.Packets, Bytes: now.Bytes - before.Bytes}
}

// Share is where the packets were handled, counted once on each node that they passed.
func (m *Meter) Share() offload.Share {
	flows := make([]flowapi.Flow, 0, len(m.moved))
	for _, f := range m.moved {
		flows = append(flows, f)
	}
	return streams.Share(streams.Join(flows, streams.Addresses))
}

// Reason is why most of the packets outside hardware were there.
func (m *Meter) Reason() offload.Reason {
	sums := map[offload.Reason]uint64{}
	var most offload.Reason
	for _, f := range m.moved {
		if f.Reason == "" || len(f.Next) > 0 {
			continue
		}
		sums[f.Reason] += f.Packets
	}
	for _, reason := range offload.Reasons() {
		if sums[reason] > sums[most] {
			most = reason
		}
	}
	return most
}

// ToHardware is the time from a pod's first packet until packets were seen in hardware on its node; 0: none was, or a flow that was
// there before took them.
func (m *Meter) ToHardware(node string, first time.Time) time.Duration {
	got := m.hardware[node]
	if got.at.IsZero() || got.warm {
		return 0
	}
	return max(got.at.Sub(first), time.Millisecond)
}
