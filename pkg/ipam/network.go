package ipam

import (
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// rolePrimary marks the network that has the pod's default route.
const rolePrimary = "primary"

// hairpinOffset is where in the masquerade subnet a service's packets come from
// when they return to the pod that sent them.
const hairpinOffset = 5

// podRoutes send the cluster's own networks through the subnet's gateway, also
// in a pod whose default route leads elsewhere. Their order is the contract's.
func (c Config) podRoutes(subnet netip.Prefix) []kube.Route {
	gateway := AddressAt(subnet, gatewayOffset)
	var routes []kube.Route
	add := func(dest netip.Prefix) {
		if dest.Addr().Is4() == gateway.Is4() {
			routes = append(routes, kube.Route{Dest: dest, NextHop: gateway})
		}
	}
	for _, dest := range c.Prefixes() {
		add(dest)
	}
	for _, dest := range c.Services {
		add(dest)
	}
	for _, dest := range c.Masquerade {
		hairpin := AddressAt(dest, hairpinOffset)
		add(netip.PrefixFrom(hairpin, hairpin.BitLen()))
	}
	for _, dest := range c.Join {
		add(dest)
	}
	return routes
}

// network is what the pod's annotation says. Its routes are shared.
func (p *pods) network(h *holding) *kube.PodNetwork {
	n := &kube.PodNetwork{
		Addresses: p.prefixes(h),
		MAC:       kube.MACFromAddress(h.addrs[0]),
		Gateways:  make([]netip.Addr, len(h.addrs)),
		Role:      rolePrimary,
	}
	for i, addr := range h.addrs {
		b := p.nodes.block(addr)
		n.Gateways[i] = AddressAt(b.prefix, gatewayOffset)
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
		out[i] = netip.PrefixFrom(addr, p.nodes.block(addr).prefix.Bits())
	}
	return out
}

// format cannot fail: every part of a PodNetwork has a JSON form.
func (p *pods) format(h *holding) string {
	value, _ := kube.FormatNetwork(kube.DefaultNetwork, p.network(h))
	return value
}
