package ipam

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// routersOf are the MACs of a network that no pod gets.
func routersOf(network contract.Network, masquerade []netip.Prefix) map[[6]byte]bool {
	macs := map[[6]byte]bool{}
	for _, mac := range contract.RouterMACs(network, masquerade) {
		macs[[6]byte(mac)] = true
	}
	return macs
}

// macTaken says to which port a MAC belongs that a pod cannot have.
func (p *pods) macTaken(blocks blocks, mac contract.MAC) error {
	whose := "another pod's"
	if p.routers[[6]byte(mac)] || slices.ContainsFunc(blocks, func(b *block) bool { return b.hasRouter([6]byte(mac)) }) {
		whose = "a router's or a node's"
	}
	return fmt.Errorf("%w: MAC %s is %s on network %s", ErrMACTaken, mac, whose, p.network.Name)
}

// isOff says why the port of a pod is off: the router of the network has got what the pod has, or had it already when a
// former version gave it to the pod.
func isOff(h *holding) error {
	if what := contract.OfRouter(h.pool.network, h.further); what != "" {
		return fmt.Errorf("%w: %s of the pod is also that of the router of network %s, so the pod has no connection to this network: "+
			"replace the pod, without asking for this MAC or address", ErrRequest, what, h.pool.network.Name)
	}
	return nil
}
