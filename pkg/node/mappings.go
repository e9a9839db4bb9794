package node

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

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

// PhysicalLabels are the labels that a Node gets for BridgeMappings; "" is one that it loses. A name that cannot be a part of
// a key has no label.
func PhysicalLabels(mappings string, has map[string]string) map[string]string {
	labels := map[string]string{}
	for key := range has {
		if strings.HasPrefix(key, contract.PhysicalNetworkLabel) {
			labels[key] = ""
		}
	}
	for m := range strings.SplitSeq(mappings, ",") {
		name, bridge, _ := strings.Cut(strings.TrimSpace(m), ":")
		isOwn := slices.Contains([]string{contract.PhysicalNetwork, contract.SecondPhysicalNetwork}, name)
		if key := contract.PhysicalNetworkLabel + name; bridge != "" && !isOwn && len(validation.IsQualifiedName(key)) == 0 {
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
