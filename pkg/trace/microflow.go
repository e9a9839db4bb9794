package trace

import (
	"fmt"
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Connection is the first packet of a connection.
type Connection struct {
	// Port is the logical port by which the packet enters OVN, on the switch Switch.
	Port, Switch string
	MAC, NextHop contract.MAC
	Source       netip.Addr
	Target       netip.AddrPort
	// Protocol is tcp, udp, sctp or icmp.
	Protocol string
	// Network is the primary network of the pod that sends; "": the default one, which Port and Switch are of.
	Network string
	// From and To are the ends: pod/NAMESPACE/NAME, svc/NAMESPACE/NAME, node/NAME, outside or an address.
	From, To string
	// Asked are the arguments of `kubectl offload trace` for it, in any namespace.
	Asked string
	Entry
}

// Computable says why the path cannot be computed.
func (c Connection) Computable() error {
	if c.Network == "" {
		return nil
	}
	return fmt.Errorf("%s sends by its primary network %s, and paths are computed on the default network only: --live follows the primary network", c.From, c.Network)
}

// clientPort is that of the packet: any one in the range of clients.
const clientPort = 40000

// Microflow is the packet in the language of ovn-trace.
func (c Connection) Microflow() string { return c.Packet(clientPort) }

// Packet is the packet with a port of the client.
func (c Connection) Packet(client uint16) string {
	family, icmp := "ip4", "icmp4.type == 8"
	if c.Source.Is6() {
		family, icmp = "ip6", "icmp6.type == 128"
	}
	packet := fmt.Sprintf("inport == %q && eth.src == %s && eth.dst == %s && ip.ttl == 64 && %[4]s.src == %[5]s && %[4]s.dst == %[6]s",
		c.Port, c.MAC, c.NextHop, family, c.Source, c.Target.Addr())
	if c.Protocol == "icmp" {
		return packet + " && " + icmp
	}
	return packet + fmt.Sprintf(" && %[1]s.src == %[2]d && %[1]s.dst == %[3]d", c.Protocol, client, c.Target.Port())
}

// conntracks is how often the packet may meet conntrack: each time as the first one of a connection.
const conntracks = 8

// Command runs ovn-trace beside the Southbound's server.
func (c Connection) Command() []string {
	command := contract.AtMember("ovn-trace", "--db=unix:/run/ovn/ovnsb_db.sock", "-vconsole:off")
	for range conntracks {
		command = append(command, "--ct=new")
	}
	return append(command, c.Switch, c.Microflow())
}
