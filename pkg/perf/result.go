package perf

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/perf/load"
)

// Result is what came of a case. A zero number was not measured.
type Result struct {
	ID      string `json:"id"`
	Streams int    `json:"streams"`
	Size    int    `json:"size"`
	load.Report
	// BitsPerSecond is what arrived.
	BitsPerSecond float64 `json:"bitsPerSecond,omitempty"`
	// PerSecond are datagrams, requests or connections.
	PerSecond float64 `json:"perSecond,omitempty"`
	// Share is where the packets were handled on both nodes; absent: no flow of theirs was seen. Reason is why most of those
	// outside hardware were there.
	Share  *offload.Share `json:"share,omitempty"`
	Reason offload.Reason `json:"reason,omitempty"`
	// ToHardware is the time in seconds from the client's first packet until packets were seen in hardware on its node, at most two
	// too long; absent: none was, or the first ones were of a flow that was there before.
	ToHardware float64 `json:"toHardwareSeconds,omitempty"`
	// HostCores are those of both nodes in use during the load, less those before it. OneMachine: the nodes share one.
	HostCores    float64 `json:"hostCores"`
	SoftirqCores float64 `json:"softirqCores"`
	OneMachine   bool    `json:"oneMachine,omitempty"`
}

// NewResult joins what the load has measured with what the flows have shown.
func NewResult(c Case, o Options, node string, r load.Report, m *Meter) Result {
	out := Result{ID: c.ID, Streams: c.streams(o), Size: c.size(o), Report: r}
	if r.Seconds > 0 {
		out.BitsPerSecond = float64(r.Bytes) * 8 / r.Seconds
		out.PerSecond = float64(cmp.Or(r.Datagrams, uint64(r.Requests))) / r.Seconds
	}
	out.HostCores, out.SoftirqCores = r.Client.Busy-r.Client.Idle, r.Client.Softirq
	switch {
	case r.Client.Boot != "" && r.Client.Boot == r.Server.Boot && c.apart():
		out.OneMachine = true
	case c.apart():
		out.HostCores += r.Server.Busy - r.Server.Idle
		out.SoftirqCores += r.Server.Softirq
	}
	out.HostCores = max(out.HostCores, 0)
	if m == nil {
		return out
	}
	if share := m.Share(); share != (offload.Share{}) {
		out.Share, out.Reason = &share, m.Reason()
	}
	out.ToHardware = m.ToHardware(node, r.First).Round(time.Millisecond * 100).Seconds()
	return out
}

// Displaced says that the load took cores from other work: a node had a quarter of its cores in use before the load, and
// almost all of them during it. HostCores is then too little.
func (r Result) Displaced() bool {
	of := func(c load.CPU) bool { return c.Idle > 0.25*float64(c.Count) && c.Busy > 0.9*float64(c.Count) }
	return of(r.Client) || of(r.Server)
}

// apart says that the pods are on two nodes.
func (c Case) apart() bool { return c.To[len(c.To)-1] == 'b' }

// Wrong is why a result is not good; "" for one that is.
func (r Result) Wrong() string {
	switch {
	case r.Failed > 0 && r.Requests > 0:
		return fmt.Sprintf("%d of %d were not answered: %s", r.Failed, r.Failed+r.Requests, r.Error)
	case r.Error != "":
		return r.Error
	case r.Bytes == 0 && r.Requests == 0:
		return "nothing has arrived"
	}
	return ""
}

// BitsPerCore is the throughput for each core of the hosts; 0: it is not known.
func (r Result) BitsPerCore() float64 {
	if r.HostCores <= 0 || r.Displaced() {
		return 0
	}
	return r.BitsPerSecond / r.HostCores
}
