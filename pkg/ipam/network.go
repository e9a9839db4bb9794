package ipam

import (
	"encoding/json"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// podRoutes send the cluster's own networks through the subnet's gateway, also
// in a pod whose default route leads elsewhere. Their order is the contract's.
func (c Config) podRoutes(subnet netip.Prefix) []contract.Route {
	gateway := contract.AddressAt(subnet, contract.RouterOffset)
	var routes []contract.Route
	add := func(dest netip.Prefix) {
		if dest.Addr().Is4() == gateway.Is4() {
			routes = append(routes, contract.Route{Dest: dest, NextHop: gateway})
		}
	}
	for _, dest := range c.Prefixes() {
		add(dest)
	}
	for _, dest := range c.Services {
		add(dest)
	}
	for _, dest := range c.Masquerade {
		hairpin := contract.AddressAt(dest, contract.MasqueradeHairpin)
		add(netip.PrefixFrom(hairpin, hairpin.BitLen()))
	}
	for _, dest := range c.Join {
		add(dest)
	}
	return routes
}

// value is what the pod's annotation says. Its routes are shared.
func (p *pods) value(h *holding) *contract.PodNetwork {
	n := &contract.PodNetwork{
		Addresses: p.prefixes(h),
		MAC:       contract.MACFromAddress(h.addrs[0]),
		Gateways:  make([]netip.Addr, len(h.addrs)),
		Role:      string(contract.RolePrimary),
	}
	for i, addr := range h.addrs {
		b := p.block(addr)
		n.Gateways[i] = contract.AddressAt(b.prefix, contract.RouterOffset)
		if i == 0 {
			n.Routes = b.routes
		} else {
			n.Routes = slices.Concat(n.Routes, b.routes)
		}
	}
	if len(h.addrs) == 1 {
		n.IPAddress, n.GatewayIP = &n.Addresses[0], &n.Gateways[0]
	}
	return n
}

func (p *pods) prefixes(h *holding) []netip.Prefix {
	out := make([]netip.Prefix, len(h.addrs))
	for i, addr := range h.addrs {
		out[i] = netip.PrefixFrom(addr, p.block(addr).prefix.Bits())
	}
	return out
}

// format cannot fail: every part of a PodNetwork has a JSON form.
func (p *pods) format(h *holding) string {
	value, _ := json.Marshal(p.value(h))
	return string(value)
}
