package probe

import (
	"cmp"
	"time"
)

// Outcome is how the attempts of a question ended.
type Outcome string

// The outcomes. TooBig is a packet that may not be fragmented and is larger than the path allows.
const (
	Reached     Outcome = "reached"
	Timeout     Outcome = "timeout"
	Refused     Outcome = "refused"
	TooBig      Outcome = "too-big"
	NoName      Outcome = "no-name"
	Unsupported Outcome = "unsupported"
	Failed      Outcome = "failed"
)

// Question is what a client asks.
type Question struct {
	// Protocol is tcp, udp, sctp or icmp.
	Protocol string
	// Host is an address or a name, Family 4 or 6.
	Host   string
	Family int
	Port   int
	// Size is that of the payload in bytes. With OfMTU it is added to the largest payload that one packet has.
	Size  int
	OfMTU bool
	// DontFragment forbids fragments.
	DontFragment bool
	// Over is the time over which the bytes are sent in pieces, by TCP; 0: at once.
	Over time.Duration
	// Times is the number of connections, one after the other.
	Times int
	// Silent is a server that accepts and says no name, such as the API server.
	Silent  bool
	Timeout time.Duration
}

// Reply is what the client saw.
type Reply struct {
	// Outcome is that of the first attempt that failed; Reached if none did.
	Outcome Outcome `json:"outcome"`
	// Names are the servers that answered, with the number of answers.
	Names map[string]int `json:"names,omitempty"`
	// Error is the text of the first failure.
	Error string `json:"error,omitempty"`
}

// DefaultPort is that of the servers.
const DefaultPort = 8080

const (
	ipv4Header, ipv6Header, tcpHeader, udpHeader = 20, 40, 20, 8
	// most bounds what a server reads.
	most = 16 << 20
)

// payload is the number of bytes to send.
func (q Question) payload(mtu int) int {
	if !q.OfMTU {
		return cmp.Or(q.Size, 1)
	}
	ip, above := ipv4Header, udpHeader // ICMP's header is as long as UDP's
	if q.Family == 6 {
		ip = ipv6Header
	}
	if q.Protocol == "tcp" {
		above = tcpHeader
	}
	return mtu - ip - above + q.Size
}
