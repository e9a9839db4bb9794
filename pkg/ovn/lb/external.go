package lb

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	facts "github.com/ovn-offload/ovn-offload/pkg/service"
)

// externalAddresses are the addresses of a service beside its cluster address: the addresses in its status, and the
// external IPs without another use in the cluster. Both lists are sorted. An address with ipMode Proxy is left to its load
// balancer.
func externalAddresses(view Gateways, net scope, object *corev1.Service) (external, refused []netip.Addr, err error) {
	var given []string
	for _, ingress := range object.Status.LoadBalancer.Ingress {
		proxied := ingress.IPMode != nil && *ingress.IPMode == corev1.LoadBalancerIPModeProxy
		if object.Spec.Type == corev1.ServiceTypeLoadBalancer && ingress.IP != "" && !proxied {
			given = append(given, ingress.IP)
		}
	}
	if external, err = parseAddresses(given); err != nil {
		return nil, nil, err
	}
	its := map[netip.Addr]bool{}
	for _, addr := range external {
		its[addr] = true
	}
	chosen, err := parseAddresses(object.Spec.ExternalIPs)
	for _, addr := range chosen {
		if its[addr] || !taken(view, net, addr) {
			external = append(external, addr)
		} else {
			refused = append(refused, addr)
		}
	}
	for _, some := range []*[]netip.Addr{&external, &refused} {
		slices.SortFunc(*some, netip.Addr.Compare)
		*some = slices.Compact(*some)
	}
	return external, refused, err
}

// taken says that an address is a node's, or in a network of pods, services or routers:
// who could choose it would get the packets of others.
func taken(view Gateways, net scope, addr netip.Addr) bool {
	networks := slices.Concat(net.Prefixes(), contract.PrefixesOf(net.NamespaceSubnets), net.JoinSubnets, net.MasqueradeSubnets, net.ServiceSubnets, view.ServiceSubnets())
	return view.IsHostAddress(addr) || slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// RefusedExternalIPs tells which addresses that a service's author has chosen it does
// not answer at, "" for none. It names at most 20.
func RefusedExternalIPs(view View, network contract.Network, name types.NamespacedName) string {
	object := view.Service(name.Namespace, name.Name)
	if !facts.IsServed(object) {
		return ""
	}
	_, refused, err := externalAddresses(view, scope{network, view.Zone()}, object)
	if err != nil || len(refused) == 0 {
		return ""
	}
	return fmt.Sprint(refused[:min(len(refused), 20)])
}

// RefusedEndpoints tells which endpoints of a service its node ports and external addresses do not lead to, because they are
// in the subnets of networks of others; "" for none. It names at most five.
func RefusedEndpoints(view View, network contract.Network, name types.NamespacedName) string {
	s, err := readService(view, scope{network, view.Zone()}, name)
	if s == nil || err != nil || s.onFurther(view) != nil || s.isSecondary() {
		return ""
	}
	ports, err := s.ports(view)
	if err != nil {
		return ""
	}
	var all []netip.Addr
	for _, port := range ports {
		if port.guarded {
			all = append(all, s.foreign(view, port.endpoints)...)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	if all = slices.Compact(all); len(all) == 0 {
		return ""
	}
	return fmt.Sprint(all[:min(len(all), 5)])
}
