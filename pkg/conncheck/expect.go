package conncheck

import (
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// Port is the kind of port by which packets enter or leave a node's switch.
type Port string

// The kinds. Other is a port about which the table says nothing, such as that of a gateway.
const (
	VF     Port = "VF"
	Veth   Port = "veth"
	Host   Port = "host"
	Tunnel Port = "tunnel"
	Other  Port = "other"
)

// Expected is where packets are to be handled: in hardware, or outside because of a reason. The zero value expects nothing.
type Expected struct {
	Hardware bool
	Because  offload.Reason
}

// String is "hardware", or "software (port)".
func (e Expected) String() string {
	if e.Hardware {
		return "hardware"
	}
	return "software (" + string(e.Because) + ")"
}

// Expect is the table of places. A node that takes no flows to hardware has all of them in software.
func Expect(enters, leaves Port, protocol string, offloads bool) Expected {
	function := func(p Port) bool { return p == VF || p == Tunnel }
	switch {
	case enters == Veth:
		return Expected{Because: offload.ReasonPort}
	case leaves == Veth:
		return Expected{Because: offload.ReasonOutput}
	case !function(enters) || !function(leaves):
		return Expected{}
	case !offloads:
		return Expected{Because: offload.ReasonOff}
	case protocol == "tcp":
		return Expected{Hardware: true}
	}
	return Expected{} // one packet of UDP, SCTP and ICMP: it depends on the NIC
}

// allows says whether a flow outside hardware may have the reason: the expected one, or one of wider reach. Where offload is
// off, a NIC's settings may be the cause, which flows name by their ports.
func (e Expected) allows(reason offload.Reason) bool {
	widest := offload.ReasonOutput
	if e.Because == offload.ReasonPort {
		widest = offload.ReasonPort
	}
	order := offload.Reasons()
	at := slices.Index(order, reason)
	return at >= 0 && at <= slices.Index(order, widest)
}

// Devices are what the table of places needs to know of the cluster.
type Devices struct {
	// Node is that of each pod.
	Node map[string]string
	// VF has the pods with a VF on the default network.
	VF map[string]bool
	// Offloads has the nodes whose NICs take flows.
	Offloads map[string]bool
}

func (d Devices) port(pod string) Port {
	switch {
	case strings.HasPrefix(pod, "host-"):
		return Host
	case d.VF[pod]:
		return VF
	}
	return Veth
}

// Leg is the way of the packets of a case on one node. To is a pod, or an object such as svc/other.
type Leg struct {
	Node, From, To, Protocol string
	Family                   int
	// Receives: To is a pod of this node, which From is not.
	Receives bool
	Expected
}

// Legs are the parts of a case's way about which the table says something: the way from the pod that asks, and on another
// node the way to the pod that answers. Packets to the own pod do not leave it.
func (c Case) Legs(d Devices) (legs []Leg) {
	if c.Want != probe.Reached || c.Group == external || len(c.Names) == 1 && c.Names[0] == c.From {
		return nil
	}
	leg := func(node, to string, receives bool, e Expected) {
		if e != (Expected{}) {
			legs = append(legs, Leg{Node: node, From: c.From, To: to, Protocol: c.Protocol, Family: c.Family, Receives: receives, Expected: e})
		}
	}
	from, node := d.port(c.From), d.Node[c.From]
	if from != Host {
		leg(node, c.To, false, Expect(from, c.leaves(d), c.Protocol, d.Offloads[node]))
	}
	if len(c.Names) != 1 || d.port(c.Names[0]) == Host { // of several pods any may have answered
		return legs
	}
	switch to := c.Names[0]; {
	case d.Node[to] != node:
		leg(d.Node[to], "pod/"+to, true, Expect(Tunnel, d.port(to), c.Protocol, d.Offloads[d.Node[to]]))
	case from == Host:
		leg(node, "pod/"+to, true, Expect(Host, d.port(to), c.Protocol, d.Offloads[node]))
	}
	return legs
}

// leaves is the port by which packets leave the node of the pod that asks.
func (c Case) leaves(d Devices) Port {
	kind, _, _ := strings.Cut(c.To, "/")
	switch {
	case kind != "pod" && kind != "svc" && kind != "name" || len(c.Names) != 1:
		return Other
	case d.port(c.Names[0]) == Host:
		return Other
	case d.Node[c.Names[0]] != d.Node[c.From]:
		return Tunnel
	}
	return d.port(c.Names[0])
}
