package contract

import (
	"encoding/json"
	"net/netip"
)

// NodeNamespaceSubnetsKey holds a JSON list of NamespaceSubnet: those that the agent leads to the pods; controller to agents, on
// a Node.
const NodeNamespaceSubnetsKey = "ovn-offload.io/namespace-subnets"

// NamespaceSubnetFinalizer keeps a NamespaceSubnet until no pod has an address of it.
const NamespaceSubnetFinalizer = "ovn-offload.io/addresses-in-use"

// NamespaceSubnet has the addresses of pods of some namespaces on the default network, on all nodes.
type NamespaceSubnet struct {
	Name string `json:"name"`
	// Prefixes are one for each family of the cluster.
	Prefixes []netip.Prefix `json:"subnets"`
	// Routed says that the pods keep these addresses outside the cluster, which has routes to the nodes: there is no SNAT.
	Routed bool `json:"routed,omitempty"`
}

// PrefixesOf are those of all subnets.
func PrefixesOf(subnets []NamespaceSubnet) (all []netip.Prefix) {
	for _, subnet := range subnets {
		all = append(all, subnet.Prefixes...)
	}
	return all
}

// RoutedOf are the subnets that are Routed, or those that are not.
func RoutedOf(subnets []NamespaceSubnet, routed bool) (some []NamespaceSubnet) {
	for _, subnet := range subnets {
		if subnet.Routed == routed {
			some = append(some, subnet)
		}
	}
	return some
}

// FormatNamespaceSubnets gives the value of NodeNamespaceSubnetsKey, "" for none.
func FormatNamespaceSubnets(subnets []NamespaceSubnet) string {
	if len(subnets) == 0 {
		return ""
	}
	value, _ := json.Marshal(subnets) // every part has a JSON form
	return string(value)
}

// ParseNamespaceSubnets reads NodeNamespaceSubnetsKey.
func ParseNamespaceSubnets(value string) (subnets []NamespaceSubnet, err error) {
	if value == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(value), &subnets)
	return subnets, err
}

// IsRouted says that a pod's address on the default network is not in its node's subnet: routers lead to it alone.
func IsRouted(address netip.Prefix) bool { return address.IsSingleIP() }
