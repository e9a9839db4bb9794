package node

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// What Geneve with OVN's option adds to a packet, outer IP header included, and
// the least MTU that the standards allow for each family.
const (
	overheadIPv4 = 58
	overheadIPv6 = 78
	leastIPv4    = 576
	leastIPv6    = 1280
)

// PodMTU is the function of that name. It keeps what the underlay leaves for CarriedMTU.
func (h *Host) PodMTU(override, underlay int, encap netip.Addr, families []contract.Family) (int, error) {
	h.largest.Store(int64(underlay - overheadOf(encap)))
	return PodMTU(override, underlay, encap, families)
}

// CarriedMTU is the largest one of pods whose packets leave the node by the bridge of a physical network, or by the
// tunnels for ""; 0 while it is not known. Pods may have less by override.
func (h *Host) CarriedMTU(mappings, physicalNetwork string, links interface {
	Link(name string) (netdev.Link, error)
}) int {
	if physicalNetwork == "" {
		return int(h.largest.Load())
	}
	link, err := links.Link(BridgeOf(mappings, physicalNetwork))
	if err != nil {
		return 0
	}
	return link.MTU
}

func overheadOf(encap netip.Addr) int {
	if contract.IPv6.Has(encap) {
		return overheadIPv6
	}
	return overheadIPv4
}

// PodMTU is the MTU of pods: override, or else what the underlay leaves.
func PodMTU(override, underlay int, encap netip.Addr, families []contract.Family) (int, error) {
	overhead := overheadOf(encap)
	mtu := override
	if mtu == 0 {
		mtu = underlay - overhead
	}
	if mtu+overhead > underlay {
		return 0, fmt.Errorf("pod MTU %d and the tunnel's %d bytes are %d, more than the underlay's MTU of %d",
			mtu, overhead, mtu+overhead, underlay)
	}
	least := leastIPv4
	if slices.Contains(families, contract.IPv6) {
		least = leastIPv6
	}
	if mtu < least {
		return 0, fmt.Errorf("pod MTU %d (underlay %d, tunnel %d) is below the least of %d", mtu, underlay, overhead, least)
	}
	return mtu, nil
}
