package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// uplinkKey names, in a Bridge's external_ids, the uplink of a bridge
// that the host has made.
const uplinkKey = "bridge-uplink"

// uplinkOf is the gateway bridge's uplink: the NIC that we took over,
// or of a host's own bridge the one that is named, else the only NIC on a bridge.
// Representors of functions, which bridges of DPUs have as they are delivered, are none.
func uplinkOf(cfg Config, s State, g Gateway) (string, error) {
	if g.owned() {
		return g.NIC, nil
	}
	if name := s.Uplinks[g.Bridge]; name != "" {
		return name, nil
	}
	if name := cfg.GatewayInterface; name != g.Bridge && s.Ports[name] == g.Bridge {
		return name, nil
	}
	var found []string
	for port, bridge := range s.Ports {
		link, ok := s.Links[port]
		internal := link.Type == "openvswitch" || link.Type == "tun" || slices.Contains(s.Bridges, port)
		if ok && bridge == g.Bridge && !internal && !s.Ours[port] && !slices.Contains(s.Eswitch.Functions, port) {
			found = append(found, port)
		}
	}
	slices.Sort(found)
	if len(found) != 1 {
		return "", fmt.Errorf("gateway bridge %s: its uplink is one of %q; name it in external_ids:%s of the bridge", g.Bridge, found, uplinkKey)
	}
	return found[0], nil
}

// choosable refuses the interface that is not configured, such as the port for
// the administration of a DPU, on which no tunnel is offloaded.
func choosable(cfg Config, s State, name string) error {
	switch {
	case !s.Eswitch.DPU || cfg.GatewayInterface != "" || cfg.EncapNetwork.IsValid():
		return nil
	case len(s.Eswitch.Uplinks) == 0:
		return node.NotReady("no NIC in switchdev mode has functions of the host yet")
	case onUplink(s, name):
		return nil
	}
	return fmt.Errorf("interface %s, which has the default route, is not on an uplink of the NIC with the host's functions (%s): "+
		"nothing would be offloaded; set gateway_interface", name, strings.Join(s.Eswitch.Uplinks, ", "))
}

// onUplink reports whether a link is an uplink, or a bond, VLAN, bridge or a port of a
// bridge on one.
func onUplink(s State, name string) bool {
	on := slices.Clone(s.Eswitch.Uplinks)
	for i := 0; i < len(on); i++ {
		lower := s.Links[on[i]]
		for upper, link := range s.Links {
			above := lower.Index != 0 && (link.Index == lower.Master || link.Lower == lower.Index) || s.Ports[on[i]] == upper
			if above && !slices.Contains(on, upper) {
				on = append(on, upper)
			}
		}
	}
	return slices.Contains(on, name) || slices.Contains(on, s.Ports[name])
}
