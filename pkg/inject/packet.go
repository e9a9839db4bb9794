package inject

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// MostPackets bounds the packets of one injection.
const MostPackets = 10

// Ports of the client. Linux gives none of these to programs by itself, so that no other connection of the pod has them.
const (
	firstPort = 61_000
	lastPort  = 65_000
)

// Packets are those of an injection: of a client's port each, so that each is the first of its connection.
type Packets struct {
	trace.Connection
	// Client is the first one's port, of Count.
	Client uint16
	Count  int
	// Backends are those that a service may choose.
	Backends []netip.AddrPort
}

// NewPackets chooses the ports.
func NewPackets(c trace.Connection, count int, backends []netip.AddrPort) (Packets, error) {
	switch {
	case count < 1 || count > MostPackets:
		return Packets{}, fmt.Errorf("--count=%d: want 1 to %d", count, MostPackets)
	case c.Protocol == "sctp":
		return Packets{}, errors.New("ovn-controller makes no packets of sctp that conntrack takes: want tcp, udp or icmp")
	}
	return Packets{Connection: c, Client: firstPort + rand.N[uint16](lastPort-firstPort), Count: count, Backends: backends}, nil
}

// Microflows are the packets in the language of ovn-controller.
func (p Packets) Microflows() []string {
	var all []string
	for i := range p.Count {
		text := p.Packet(p.Client + uint16(i)) //nolint:gosec // MostPackets
		if p.Protocol == "tcp" {
			text += " && tcp.flags == 2" // SYN: conntrack refuses one without flags
		}
		all = append(all, text)
	}
	return all
}

// Filter finds the packets with tcpdump, also behind a service and SNAT. The identifier of an echo is 0, which that of
// no ping is.
func (p Packets) Filter() string {
	hosts := []string{"src host " + p.Source.String(), "dst host " + p.Target.Addr().String()}
	for _, b := range p.Backends {
		if host := "dst host " + b.Addr().String(); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	what := fmt.Sprintf("%s and src portrange %d-%d", p.Protocol, p.Client, int(p.Client)+p.Count-1)
	switch { // only first packets: answers of the pod's kernel to answers are of the same port
	case p.Protocol == "tcp" && p.Source.Is6():
		what += " and ip6[53] == 2"
	case p.Protocol == "tcp":
		what += " and tcp[tcpflags] == tcp-syn"
	case p.Protocol == "icmp" && p.Source.Is6():
		what = "icmp6 and ip6[40] == 128 and ip6[44:4] == 0"
	case p.Protocol == "icmp":
		what = "icmp[icmptype] == icmp-echo and icmp[4:4] == 0"
	}
	return what + " and (" + strings.Join(hosts, " or ") + ")"
}

// Where is the target as trace reads it.
func (p Packets) Where() string { return trace.TargetText(p.To, p.Protocol, p.Target.Port()) }

// Says is what the receiver sees.
func (p Packets) Says() string {
	what := "a datagram without content, from a port where no program is"
	switch p.Protocol {
	case "tcp":
		what = "a SYN, whose answer the pod's kernel ends with a reset"
	case "icmp":
		what = "an echo request, whose answer no program takes"
	}
	return fmt.Sprintf("%s gets %s, in the name of %s: a firewall or an intrusion detection may take it for a scan", p.To, what, p.From)
}

// command runs in the container of ovn-controller.
func (p Packets) command() []string {
	const script = `for packet; do ovn-appctl -t /run/ovn/ovn-controller.ctl inject-pkt "$packet"; done`
	return append([]string{"sh", "-euc", script, "inject"}, p.Microflows()...)
}
