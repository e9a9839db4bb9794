package load

import (
	"slices"
	"time"
)

// Kind is what is measured.
type Kind string

// The kinds: bytes in a time; answers over one connection; connections, each with one request.
const (
	Stream Kind = "stream"
	RR     Kind = "rr"
	CRR    Kind = "crr"
)

// Port is that of the server, of TCP and UDP.
const Port = 18481

// MaxDatagram is the largest payload of a datagram, by the smaller limit, that of IPv4.
const MaxDatagram = 65507

// MinDatagram is the smallest payload of one: it has the number, and is not taken for a greeting.
const MinDatagram = hello + 1

// MaxSize bounds what a request or a write has.
const MaxSize = 1 << 20

// Question is what a client does.
type Question struct {
	Kind Kind
	// Protocol is tcp or udp.
	Protocol string
	// Host is an address.
	Host string
	// Streams are the connections at the same time. A measurement of answers has one.
	Streams int
	// Size is that of a write, a datagram or a request in bytes; 0: what DefaultSize says.
	Size int
	// Time is that of the load, Idle the time before without one, in which the nodes' CPU time is measured.
	Time, Idle time.Duration
}

// DefaultSize is that of a kind and protocol. A datagram fits into the MTU of pods on an underlay with 1500 bytes.
func DefaultSize(kind Kind, protocol string) int {
	switch {
	case kind != Stream:
		return 64
	case protocol == "udp":
		return 1200
	}
	return 128 << 10
}

// Moments are those of the clock of the client's node.
type Moments struct {
	// First is when the client sent its first packet, which is one of the connection that asks for CPU times.
	First time.Time `json:"first"`
	// Started is when the load began.
	Started time.Time `json:"started"`
}

// Report is what came of it.
type Report struct {
	Moments
	Seconds float64 `json:"seconds"`
	// Bytes and Datagrams have arrived, Lost are datagrams that have not.
	Bytes     uint64 `json:"bytes,omitempty"`
	Datagrams uint64 `json:"datagrams,omitempty"`
	Lost      uint64 `json:"lost,omitempty"`
	// Requests were answered. Failed were not.
	Requests int `json:"requests,omitempty"`
	Failed   int `json:"failed,omitempty"`
	// P50 and P99 are percentiles of the time until the answer, in microseconds.
	P50 float64 `json:"p50Microseconds,omitempty"`
	P99 float64 `json:"p99Microseconds,omitempty"`
	// Client and Server are the CPU time of their nodes.
	Client CPU `json:"client"`
	Server CPU `json:"server"`
	// Error is the first thing that went wrong.
	Error string `json:"error,omitempty"`
}

// latencies sets the percentiles.
func (r *Report) latencies(of []time.Duration) {
	slices.Sort(of)
	r.P50, r.P99 = microseconds(Percentile(of, 50)), microseconds(Percentile(of, 99))
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Percentile is the smallest of sorted values that at least p of 100 do not exceed; 0 for no value.
func Percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[min(max(rank, 1), len(sorted))-1]
}
