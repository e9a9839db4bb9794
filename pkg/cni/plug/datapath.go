package plug

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// bridgeMappings is the setting of OVN with the bridges of physical networks.
const bridgeMappings = "ovn-bridge-mappings"

// Tables are those of the node's Open_vSwitch database; *ovsdb.DB has them.
type Tables interface {
	Table(name string) []any
}

// SameDatapath says which bridge of a physical network has another datapath than the integration bridge. The patch
// ports of OVN between both would pass no packet, and nothing else would say so: a DPU with OVS-DOCA has bridges of
// the datapath netdev from its factory.
func SameDatapath(db Tables, integration string) error {
	datapaths := map[string]string{}
	for _, row := range db.Table(vswitch.BridgeTable) {
		if bridge, ok := row.(*vswitch.Bridge); ok {
			datapaths[bridge.Name] = cmp.Or(bridge.DatapathType, "system")
		}
	}
	own, there := datapaths[integration]
	for _, row := range db.Table(vswitch.OpenvSwitchTable) {
		global, ok := row.(*vswitch.OpenvSwitch)
		if !ok || !there {
			continue
		}
		for mapping := range strings.SplitSeq(global.ExternalIDs[bridgeMappings], ",") {
			_, bridge, _ := strings.Cut(mapping, ":")
			if other, there := datapaths[bridge]; there && other != own {
				return fmt.Errorf("bridge %s has the datapath %q and %s has %q: no packet passes between both", bridge, other, integration, own)
			}
		}
	}
	return nil
}
