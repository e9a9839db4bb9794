package node

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// BridgeMappings is the setting of ovn-controller that gives physical networks their bridges, as physnet:br-ex,other:br1.
const BridgeMappings = "ovn-bridge-mappings"

// mapped gives the physical networks of BridgeMappings that have a bridge, and their bridges.
func mapped(mappings string) iter.Seq2[string, string] {
	return func(yield func(network, bridge string) bool) {
		for m := range strings.SplitSeq(mappings, ",") {
			if network, bridge, _ := strings.Cut(strings.TrimSpace(m), ":"); bridge != "" && !yield(network, bridge) {
				return
			}
		}
	}
}

// BridgeOf is the bridge of a physical network in BridgeMappings, "" when the network has none.
func BridgeOf(mappings, network string) string {
	for name, bridge := range mapped(mappings) {
		if name == network {
			return bridge
		}
	}
	return ""
}

// SameDatapath says which bridge of BridgeMappings has another datapath than the integration bridge. The patch ports of
// OVN between both would pass no packet, and nothing else would say so: a DPU with OVS-DOCA has bridges of the datapath
// netdev from its factory. The bridges are rows of the node's Open_vSwitch database.
func SameDatapath(mappings string, bridges []any, integration string) error {
	datapaths := map[string]string{}
	for _, row := range bridges {
		if bridge, ok := row.(*vswitch.Bridge); ok {
			datapaths[bridge.Name] = cmp.Or(bridge.DatapathType, "system")
		}
	}
	own, there := datapaths[integration]
	if !there {
		return nil
	}
	for _, bridge := range mapped(mappings) {
		if other, there := datapaths[bridge]; there && other != own {
			return fmt.Errorf("bridge %s has the datapath %q and %s has %q: no packet passes between both", bridge, other, integration, own)
		}
	}
	return nil
}

// PhysicalLabels are the labels that a Node gets for BridgeMappings; "" is one that it loses. A name that cannot be a part of
// a key has no label.
func PhysicalLabels(mappings string, has map[string]string) map[string]string {
	labels := map[string]string{}
	for key := range has {
		if strings.HasPrefix(key, contract.PhysicalNetworkLabel) {
			labels[key] = ""
		}
	}
	for name := range mapped(mappings) {
		isOwn := slices.Contains([]string{contract.PhysicalNetwork, contract.SecondPhysicalNetwork}, name)
		if key := contract.PhysicalNetworkLabel + name; !isOwn && len(validation.IsQualifiedName(key)) == 0 {
			labels[key] = "true"
		}
	}
	return labels
}

// Mappings are bridge mappings with the nodes' own bridges, and those of other physical networks as they are; "" is no bridge.
func Mappings(current, first, second string) string {
	var out []string
	for _, m := range [][2]string{{contract.PhysicalNetwork, first}, {contract.SecondPhysicalNetwork, second}} {
		if m[1] != "" {
			out = append(out, m[0]+":"+m[1])
		}
	}
	for m := range strings.SplitSeq(current, ",") {
		network, _, _ := strings.Cut(m, ":")
		if m != "" && network != contract.PhysicalNetwork && network != contract.SecondPhysicalNetwork {
			out = append(out, m)
		}
	}
	return strings.Join(out, ",")
}
