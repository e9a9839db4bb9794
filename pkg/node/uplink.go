package node

import (
	"fmt"
	"slices"
)

// uplinkKey names, in a Bridge's external_ids, the port to the wire of a bridge
// that the host has made.
const uplinkKey = "bridge-uplink"

// uplinkOf is the gateway bridge's port to the wire: the NIC that we took over,
// or of a host's own bridge the one that is named, else the only NIC on a bridge.
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
		if ok && bridge == g.Bridge && !internal && !s.Ours[port] {
			found = append(found, port)
		}
	}
	slices.Sort(found)
	if len(found) != 1 {
		return "", fmt.Errorf("gateway bridge %s: its port to the wire is one of %q; name it in external_ids:%s of the bridge", g.Bridge, found, uplinkKey)
	}
	return found[0], nil
}
