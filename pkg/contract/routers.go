package contract

import (
	"fmt"
	"net/netip"
	"slices"
)

// RouterMAC is that of the router's port on the switch of a network of topology layer2 or localnet: the network's own
// router's, or that of a chain. It is nil for a network without gateways.
func RouterMAC(n Network) MAC {
	if len(n.Gateways) == 0 {
		return nil
	}
	return MACFromAddress(n.Gateways[0].Addr())
}

// LinkMAC is that of a network's router on the transit switches of all nodes. The masquerade subnets are the zone's.
func LinkMAC(masquerade []netip.Prefix, id int) MAC {
	return MACFromAddress(NetworkAddress(masquerade[0], id))
}

// RouterMACs are those that no pod of a network may have, beside those in the nodes' parts of topology layer3: of all
// ports of the network's router, and those that follow from the other addresses of routers and nodes.
func RouterMACs(n Network, masquerade []netip.Prefix) (macs []MAC) {
	for _, gateway := range n.Gateways {
		macs = append(macs, MACFromAddress(gateway.Addr()))
		if n.Topology == Layer2 && n.HasGateway() {
			macs = append(macs, MACFromAddress(nodeAddress(gateway)))
		}
	}
	if n.HasGateway() && n.ID != 0 && len(masquerade) > 0 && HasPrimaries(masquerade[0]) {
		macs = append(macs, LinkMAC(masquerade, n.ID))
	}
	return macs
}

// nodeAddress is the one of the first two addresses of a gateway's subnet that nodes have in OVN-Kubernetes.
func nodeAddress(gateway netip.Prefix) netip.Addr {
	if second := AddressAt(gateway.Masked(), ManagementOffset); second != gateway.Addr() {
		return second
	}
	return AddressAt(gateway.Masked(), RouterOffset)
}

// OfRouter says what a pod has that the router on its switch has as well: the MAC or an address. It is "" where the pod
// has nothing of a router, and for networks without a router.
func OfRouter(n Network, pod *PodNetwork) string {
	if pod == nil || !n.HasGateway() && !n.Forward { // a chain needs networks whose pods forward
		return ""
	}
	if mac := RouterMAC(n); mac != nil && slices.Equal(mac, pod.MAC) {
		return fmt.Sprintf("MAC %s", mac)
	}
	for _, gateway := range n.Gateways {
		if slices.ContainsFunc(pod.Addresses, func(own netip.Prefix) bool { return own.Addr() == gateway.Addr() }) {
			return fmt.Sprintf("address %s", gateway.Addr())
		}
	}
	return ""
}
