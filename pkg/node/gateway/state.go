package gateway

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// State is everything that planners look at, as it was at one moment.
type State struct {
	node.State
	// Bridges, Ports, by name with the port's bridge, and Settings are what the Open_vSwitch database says, whoever
	// wrote it.
	Bridges  []string
	Ports    map[string]string
	Settings map[string]string
	// NoLengthCheck says that OVS cannot check the length of packets: it has flows in hardware, or gets what TCP
	// senders have not cut up yet (userspace-tso).
	NoLengthCheck bool
	// Uplinks are the uplinks that the host has named, by bridge.
	Uplinks map[string]string
	// OFPorts are the OpenFlow ports that ovs-vswitchd has opened, by name; not pods'.
	OFPorts map[string]int
	// VF is to have the node's addresses, with both ends here; nil: the gateway bridge's own interface is.
	VF *node.VF
	// Saved is nil before a takeover. Its uplink has the name of this moment; Renamed says that the file has another
	// one, and Lost why the uplink is not found.
	Saved   *Checkpoint
	Renamed bool
	Lost    error
	// Boot is the id of the host's boot, "" where it does not matter. Renewed says that the file has another one, and
	// that Saved is what this boot makes of it.
	Boot    string
	Renewed bool
	// LinksChanged says that links have changed since the last pass, so that the kernel may have removed routes.
	LinksChanged bool
	// SwitchAbsent says that no ovs-vswitchd has run for longer than a restart takes.
	SwitchAbsent bool
	// NodeAddrs are the addresses in the Node object, none until it is synced.
	NodeAddrs []netip.Addr
	// Eswitch is what the ports of NICs' switches lead to.
	Eswitch Eswitch
	// Second is the second external bridge; it is empty where there is none.
	Second Gateway
	// Services are the ranges of services to which the node's processes are led.
	Services []netip.Prefix
	// Reachable names the probes that succeed; they are asked before a takeover only.
	Reachable []string
}

// Eswitch names the links of NICs in switchdev mode.
type Eswitch struct {
	// DPU says that the node is the network side of a host with functions of the NIC.
	DPU bool
	// Uplinks are those to the physical network, of the switches that have functions of the host of a DPU.
	Uplinks []string
	// Functions are the representors of all functions, Guests among them those of the host of a DPU.
	Functions, Guests []string
}

// Gateway says which interface is the node's uplink.
type Gateway struct {
	// Bridge has the node's address, unless hostLink does. NIC is the bridge's uplink; it is empty when the bridge is
	// the host's and not ours.
	Bridge, NIC string
}

// owned reports whether we made the bridge, or will.
func (g Gateway) owned() bool { return g.NIC != "" }

// chooseGateway finds the uplink: the checkpoint's, the configured one, or that of the default route.
func chooseGateway(cfg Config, s State) (Gateway, error) {
	if s.Saved != nil {
		return savedGateway(cfg, s)
	}
	name := gatewayName(cfg, s)
	if name == "" {
		return Gateway{}, node.NotReady("no default route and no interface with the node's address")
	}
	if err := choosable(cfg, s, name); err != nil {
		return Gateway{}, err
	}
	link, ok := s.Links[name]
	switch {
	case slices.Contains(s.Bridges, name) && s.Ours[name]:
		// Ours, but its checkpoint is lost.
		return Gateway{Bridge: name, NIC: bridgedNIC(s, name)}, nil
	case slices.Contains(s.Bridges, name):
		return Gateway{Bridge: name}, nil
	case s.Ports[name] == contract.IntegrationBridge:
		return Gateway{}, fmt.Errorf("gateway interface %s: it is a port of %s", name, contract.IntegrationBridge)
	case s.Ports[name] != "" && !s.Ours[name]:
		return Gateway{Bridge: s.Ports[name]}, nil
	case s.Ports[name] != "":
		// The port of a bridge of ours, with the host's addresses: the checkpoint is lost, and the host has booted.
		return Gateway{Bridge: s.Ports[name], NIC: name}, nil
	case !ok:
		return Gateway{}, node.NotReady("gateway interface %s is absent", name)
	case link.Master != 0:
		return Gateway{}, fmt.Errorf("gateway interface %s: it is the port of another device", name)
	}
	return Gateway{Bridge: node.BridgeName(name), NIC: name}, nil
}

// savedGateway is the uplink of the checkpoint.
func savedGateway(cfg Config, s State) (Gateway, error) {
	want := cfg.GatewayInterface
	_, exists := s.Links[want]
	former := !exists && slices.Contains(s.Saved.Former, want)
	switch {
	case s.Lost != nil:
		return Gateway{}, s.Lost
	case want != "" && want != s.Saved.Interface && want != s.Saved.Bridge && !former:
		return Gateway{}, fmt.Errorf("gateway interface %s: %s is taken over already; clean the node up first", want, s.Saved.Interface)
	}
	return Gateway{Bridge: s.Saved.Bridge, NIC: s.Saved.Interface}, nil
}

// bridgedNIC is the NIC of a bridge that we have made.
func bridgedNIC(s State, bridge string) string {
	for name := range s.Links {
		if name != bridge && node.BridgeName(name) == bridge {
			return name
		}
	}
	return strings.TrimPrefix(bridge, "br")
}

// gatewayName is the configured interface, or that of the default route, or the one with the node's address. If that is
// the gateway VF, its bridge's checkpoint is lost.
func gatewayName(cfg Config, s State) string {
	name := cmp.Or(cfg.GatewayInterface, s.DefaultLink(), s.LinkOf(s.NodeAddrs...))
	if f := s.VF; f != nil && s.Links[name].Parent == f.Device {
		if i := slices.IndexFunc(s.Bridges, func(bridge string) bool { return s.Ours[bridge] }); i >= 0 {
			return s.Bridges[i]
		}
	}
	return name
}

// movable are the addresses of a link that make up the node. An address with no subnet is a virtual one that its owner
// moves from node to node, unless the Node object has it.
func movable(s State, link string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range s.Addrs[link] {
		if !p.IsSingleIP() || slices.Contains(s.NodeAddrs, p.Addr()) {
			out = append(out, p)
		}
	}
	return out
}

// primary gives one address of each of the cluster's families, IPv4 first: the one in the Node object, else the first.
func primary(cfg Config, s State, link string) []netip.Prefix {
	var out []netip.Prefix
	for _, family := range []contract.Family{contract.IPv4, contract.IPv6} {
		var found netip.Prefix
		for _, p := range movable(s, link) {
			if !family.Has(p.Addr()) || !slices.Contains(cfg.Network.Families(), family) {
				continue
			}
			if !found.IsValid() || slices.Contains(s.NodeAddrs, p.Addr()) && !slices.Contains(s.NodeAddrs, found.Addr()) {
				found = p
			}
		}
		if found.IsValid() {
			out = append(out, found)
		}
	}
	return out
}
