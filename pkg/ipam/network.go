package ipam

import (
	"encoding/json"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// lockedRoutes are those of a pod whose primary network is another one: to the pods of the default network alone.
func lockedRoutes(plan Config, subnet netip.Prefix) []contract.Route {
	return Config{Cluster: plan.Cluster, Join: plan.Join}.podRoutes(subnet)
}

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

// value is what the pod's annotation says, nil on a further network until that is decided. Its routes are shared.
func (h *holding) value() *contract.PodNetwork {
	if !h.pool.isDefault() {
		return h.further
	}
	n := &contract.PodNetwork{Addresses: make([]netip.Prefix, len(h.addrs)), MAC: contract.MAC(h.mac[:]), Role: string(contract.RolePrimary)}
	if h.locked {
		n.Role = string(contract.RoleLocked)
	}
	for i, addr := range h.addrs {
		b := h.at[i]
		n.Addresses[i] = netip.PrefixFrom(addr, b.prefix.Bits())
		if b.subnet != "" {
			n.Addresses[i] = netip.PrefixFrom(addr, addr.BitLen())
			if b = h.router(addr); b == nil {
				continue
			}
		}
		if !h.locked && !slices.Contains(h.elsewhere, contract.FamilyOf(addr)) {
			n.Gateways = append(n.Gateways, contract.AddressAt(b.prefix, contract.RouterOffset))
		}
		switch {
		case h.locked:
			n.Routes = append(n.Routes, lockedRoutes(h.pool.cfg, b.prefix)...)
		case i == 0:
			n.Routes = b.routes
		default:
			n.Routes = slices.Concat(n.Routes, b.routes)
		}
		n.Routes = append(slices.Clip(n.Routes), h.toNamespaces(b)...)
	}
	if len(n.Addresses) == 1 {
		n.IPAddress = &n.Addresses[0]
	}
	if len(n.Gateways) == 1 && len(h.addrs) == 1 {
		n.GatewayIP = &n.Gateways[0]
	}
	return n
}

// lead notes the families whose default route the pod has through a further network.
func (h *holding) lead(pod *corev1.Pod, r Request, through blocks) {
	if !h.pool.isDefault() {
		return
	}
	h.elsewhere, h.locked, h.through, h.namespaces = nil, r.Locked, through, nil
	if r.Locked || !contract.AsksForNetworks(pod) {
		return
	}
	h.namespaces = contract.PrefixesOf(namespaceSubnets(h.pool.cfg))
	attachments, _ := contract.Attachments(pod) // the pod has no network while it cannot be read
	for _, a := range attachments {
		for _, gateway := range a.Gateways {
			h.elsewhere = append(h.elsewhere, contract.FamilyOf(gateway))
		}
	}
}

// toNamespaces are routes to NamespaceSubnets by the router of a block.
func (h *holding) toNamespaces(b *block) (routes []contract.Route) {
	for _, subnet := range h.namespaces {
		if contract.FamilyOf(subnet.Addr()).Has(b.prefix.Addr()) {
			routes = append(routes, contract.Route{Dest: subnet, NextHop: contract.AddressAt(b.prefix, contract.RouterOffset)})
		}
	}
	return routes
}

// router is the block of the node's subnet whose router is the gateway for an address of a namespace's subnet.
func (h *holding) router(addr netip.Addr) *block {
	at := slices.IndexFunc(h.through, func(b *block) bool { return contract.FamilyOf(addr).Has(b.prefix.Addr()) })
	if at < 0 {
		return nil
	}
	return h.through[at]
}

// format cannot fail: every part of a PodNetwork has a JSON form.
func (h *holding) format() string {
	value, _ := json.Marshal(h.value())
	return string(value)
}
