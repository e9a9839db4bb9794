package flows

import (
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Masquerade are the masquerade addresses of one family between the node's own
// processes and a gateway router. Both have Address, so each sees the other under
// another one. Host is the source that a process has by its route; Bound and Other
// stand for sources that a process chooses: Address, or any further one. The router
// has the node ports that lead to other nodes at Elsewhere, and sees Client there in
// place of Address.
type Masquerade struct {
	Address, Router, Host, NextHop netip.Addr
	Bound, Other                   netip.Addr
	Elsewhere, Client              netip.Addr
	Subnet                         netip.Prefix
	// Services are the ranges of services that the router balances.
	Services []netip.Prefix
}

// Masquerades gives one for each family in which the node has an address and the
// cluster services.
func Masquerades(masquerade, services, addresses []netip.Prefix) []Masquerade {
	var out []Masquerade
	for _, own := range addresses {
		family := contract.FamilyOf(own.Addr())
		var ranges []netip.Prefix
		for _, prefix := range services {
			if family.Has(prefix.Addr()) {
				ranges = append(ranges, prefix.Masked())
			}
		}
		subnet, ok := family.Pick(masquerade)
		if !ok || len(ranges) == 0 {
			continue
		}
		subnet = subnet.Masked()
		at := func(offset uint64) netip.Addr { return contract.AddressAt(subnet, offset) }
		out = append(out, Masquerade{
			Address: own.Addr(), Subnet: subnet, Services: ranges,
			Router: at(contract.MasqueradeRouter), Host: at(contract.MasqueradeHost), NextHop: at(contract.MasqueradeNextHop),
			Bound: at(contract.MasqueradeBound), Other: at(contract.MasqueradeOther),
			Elsewhere: at(contract.MasqueradeElsewhere), Client: at(contract.MasqueradeClient),
		})
	}
	return out
}
