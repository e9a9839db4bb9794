package ipam

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// ErrRequest is wrapped when a pod asks for an address or a MAC that it cannot have.
var ErrRequest = errors.New("request refused")

// ErrAddressTaken and ErrMACTaken are ErrRequest where another pod or IPAMClaim has what is asked for.
var (
	ErrAddressTaken = fmt.Errorf("%w: address taken", ErrRequest)
	ErrMACTaken     = fmt.Errorf("%w: MAC taken", ErrRequest)
)

// take gives a pod what it asks for on a further network, or what is free.
func (p *pods) take(owner contract.Owner, pod *corev1.Pod, r Request, blocks blocks) (*holding, error) {
	claim := p.sibling(pod, addressesOf(&contract.PodNetwork{Addresses: r.Addresses}), r.MAC)
	if r.IPAMClaim == nil && claim == nil {
		return p.takeFor(owner, pod, r, blocks)
	}
	if r.IPAMClaim != nil {
		var err error
		if claim, err = p.ofClaim(r, blocks); err != nil {
			return nil, err
		}
	}
	h := p.use(claim, owner, pod)
	h.describe(r)
	return h, nil
}

// takeFor is take for a pod, or for an IPAMClaim in the place of one.
func (p *pods) takeFor(owner contract.Owner, pod *corev1.Pod, r Request, blocks blocks) (*holding, error) {
	addrs := addressesOf(&contract.PodNetwork{Addresses: r.Addresses})
	var err error
	if len(addrs) == 0 {
		addrs, err = p.allocate(blocks, nil)
	} else {
		err = p.requested(addrs, blocks)
	}
	if err != nil {
		return nil, err
	}
	mac := r.MAC
	if mac == nil && len(addrs) == 0 {
		mac = p.macWithoutAddress(owner, pod)
	}
	if mac == nil {
		mac = contract.MACFromAddress(addrs[0])
	}
	if p.isOthers(pod, blocks, [6]byte(mac)) {
		return nil, p.macTaken(blocks, mac)
	}
	h := p.holdFor(owner, pod, addrs, mac)
	h.describe(r)
	return h, nil
}

// requested says why a pod cannot have the addresses that it asks for.
func (p *pods) requested(addrs []netip.Addr, blocks blocks) error {
	for _, addr := range addrs {
		if b := blocks.of(addr); len(blocks) > 0 && (b == nil || !b.allows(addr)) {
			return fmt.Errorf("%w: address %s is excluded from the subnets %v of network %s, or in none of them",
				ErrRequest, addr, blocks.subnets(), p.network.Name)
		}
	}
	if err := p.free(addrs); err != nil {
		return fmt.Errorf("%w: %w", ErrAddressTaken, err)
	}
	return nil
}

// macWithoutAddress follows from the pod's UID.
func (p *pods) macWithoutAddress(owner contract.Owner, pod *corev1.Pod) contract.MAC {
	for i := 0; ; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", pod.UID, owner, i))
		mac := contract.MAC{0x0a, 0x58, sum[0], sum[1], sum[2], sum[3]}
		if !p.hasMAC(nil, [6]byte(mac)) {
			return mac
		}
	}
}

// describe decides the value of the annotation for a request. Without addresses in it, the network's subnets have given
// them.
func (h *holding) describe(r Request) {
	n := &contract.PodNetwork{
		MAC: contract.MAC(h.mac[:]), Gateways: r.Gateways, Role: string(h.pool.network.Role),
		Further: contract.Further{
			Interface: r.Interface, Network: r.Network.Name, Owner: r.Network.Owner, MTU: r.Network.MTU, Resource: r.Resource, DNS: r.Network.DNS,
		},
	}
	if r.Network.Topology == contract.Localnet {
		n.PhysicalNetwork = r.Network.PhysicalNetwork
	}
	for i, addr := range h.addrs {
		bits := addr.BitLen()
		if b := h.at[i]; b != nil {
			bits = b.prefix.Bits()
		} else if i < len(r.Addresses) {
			bits = r.Addresses[i].Bits()
		}
		n.Addresses = append(n.Addresses, netip.PrefixFrom(addr, bits))
	}
	n.Routes = h.routes(r, n.Addresses)
	if r.Network.IsPrimary() {
		n.Gateways = h.routers()
	}
	if len(n.Addresses) == 1 {
		n.IPAddress = &n.Addresses[0]
	}
	if len(n.Gateways) == 1 {
		n.GatewayIP = &n.Gateways[0]
	}
	h.further = n
}

// routers are those of the subnets that the addresses are of.
func (h *holding) routers() (routers []netip.Addr) {
	for _, b := range h.at {
		if b != nil {
			routers = append(routers, h.pool.router(b))
		}
	}
	return routers
}

// routes are those of a pod with these addresses: the network's own, then those of its request, then the exits'.
func (h *holding) routes(r Request, addresses []netip.Prefix) (routes []contract.Route) {
	led := map[netip.Prefix]bool{}
	for _, b := range h.at {
		if b == nil {
			continue
		}
		for _, route := range b.routes {
			routes, led[route.Dest] = append(routes, route), true
		}
	}
	for _, route := range r.Routes {
		if slices.ContainsFunc(addresses, func(own netip.Prefix) bool { return own.Contains(route.NextHop) }) && !led[route.Dest] {
			routes, led[route.Dest] = append(routes, route), true
		}
	}
	routers := h.routers()
	for _, exit := range r.Network.Exits {
		if at := slices.IndexFunc(routers, contract.FamilyOf(exit.Addr()).Has); at >= 0 {
			routes = append(routes, contract.Route{Dest: exit, NextHop: routers[at]})
		}
	}
	return routes
}

// reroute gives a pod the routes that it would get now. All else stays as it was at its start. A pod with an address that is no
// longer in the network's subnets keeps its routes, too.
func (h *holding) reroute(r Request) {
	switch {
	case h.pool.isDefault():
		return
	case h.further == nil: // of a row
		h.describe(r)
		return
	}
	if len(r.Network.Subnets) > 0 && slices.Contains(h.at, nil) {
		return
	}
	if now := h.routes(r, h.further.Addresses); !slices.Equal(now, h.further.Routes) {
		next := *h.further
		next.Routes = now
		h.further, h.recorded = &next, ""
	}
}

// router is the router's address on the switch of a block.
func (p *pods) router(b *block) netip.Addr {
	if at := slices.IndexFunc(p.network.Gateways, func(g netip.Prefix) bool { return b.prefix.Contains(g.Addr()) }); at >= 0 {
		return p.network.Gateways[at].Addr()
	}
	return contract.AddressAt(b.prefix, contract.RouterOffset)
}

// validFurther says why a pod cannot have this value on a further network. A running pod keeps an address that is no
// longer in the network's subnets.
func (p *pods) validFurther(network *contract.PodNetwork, pod *corev1.Pod, blocks blocks) error {
	if len(network.MAC) != 6 || network.MAC[0]&1 != 0 {
		return fmt.Errorf("MAC %q is not a unicast address", network.MAC)
	}
	if len(pod.Status.PodIPs) > 0 {
		return nil
	}
	if len(network.Addresses) == 0 && len(blocks) > 0 {
		return errors.New("no address")
	}
	for _, addr := range network.Addresses {
		b := blocks.of(addr.Addr())
		if len(blocks) > 0 && (b == nil || !b.allows(addr.Addr()) || addr.Bits() != b.prefix.Bits()) {
			return fmt.Errorf("address %s is excluded from the subnets %v, or in none of them", addr, blocks.subnets())
		}
	}
	return nil
}
