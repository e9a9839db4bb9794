package node

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// What Geneve with OVN's option adds to a packet, outer IP header included, and
// the least MTU that the standards allow for each family.
const (
	overheadIPv4 = 58
	overheadIPv6 = 78
	leastIPv4    = 576
	leastIPv6    = 1280
)

// PodMTU is the MTU of pods: override, or else what the underlay leaves.
func PodMTU(override, underlay int, encap netip.Addr, families []contract.Family) (int, error) {
	overhead := overheadIPv4
	if contract.IPv6.Has(encap) {
		overhead = overheadIPv6
	}
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
