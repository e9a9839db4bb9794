package node

import "strings"

// BridgeMappings is the setting of ovn-controller that gives physical networks their bridges, as physnet:br-ex,other:br1.
const BridgeMappings = "ovn-bridge-mappings"

// BridgeOf is the bridge of a physical network in BridgeMappings, "" when the network has none.
func BridgeOf(mappings, network string) string {
	for m := range strings.SplitSeq(mappings, ",") {
		if name, bridge, _ := strings.Cut(strings.TrimSpace(m), ":"); name == network && bridge != "" {
			return bridge
		}
	}
	return ""
}
