package ovn

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// primaryFrontends are the addresses and ports of a service in a namespace with a primary network: those on the network's
// switches, and those on all gateway routers. The cluster address is on the switches, so that only pods of the network
// reach it. A node port, or an external address, is on both. Gateway routers lead to the pods if the network's subnets are
// no other network's.
//
// The policies Local, and hints, are not followed: all endpoints are used.
func (s *service) primaryFrontends(view View, nad string, routed bool) (inside, outside []frontend, err error) {
	some := onPrimary(view, s, nad)
	for _, port := range s.Spec.Ports {
		for _, address := range s.addresses {
			family := contract.FamilyOf(address)
			endpoints, err := endpointsOf(some, port, family)
			if err != nil {
				return nil, nil, err
			}
			to := backends(usable(endpoints))
			at := func(scope lbScope, address netip.Addr) frontend {
				return frontend{balancer{protocol: protocolOf(port.Protocol), scope: scope}, netip.AddrPortFrom(address, uint16(port.Port)).String(), to}
			}
			atNode := func(scope lbScope) frontend {
				return frontend{balancer{protocol: protocolOf(port.Protocol), scope: scope, template: true, family: family}, nodeVIP(family, uint16(port.NodePort)), to}
			}
			inside = append(inside, at(onSwitches, address))
			if port.NodePort != 0 {
				inside, outside = append(inside, atNode(onSwitches)), append(outside, atNode(onRouters))
			}
			for _, external := range s.external {
				if family.Has(external) {
					inside, outside = append(inside, at(onSwitches, external)), append(outside, at(onRouters, external))
				}
			}
		}
	}
	if !routed {
		outside = nil
	}
	return inside, outside, nil
}

// onPrimary gives a service's EndpointSlices the addresses that their pods have on the primary network. Endpoints that are
// not at the address of a pod of the namespace keep theirs. A pod without an address of the family is left out.
func onPrimary(view View, s *service, nad string) (out []*discoveryv1.EndpointSlice) {
	pods := map[string]*corev1.Pod{}
	for _, pod := range view.PodsIn(s.Namespace) {
		if !contract.WantsNetwork(pod) {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			pods[ip.IP] = pod
		}
	}
	for _, slice := range s.slices {
		translated := *slice
		translated.Endpoints = nil
		for _, e := range slice.Endpoints {
			if len(e.Addresses) > 0 && pods[e.Addresses[0]] != nil {
				e.Addresses = primaryAddress(view, pods[e.Addresses[0]], nad, slice.AddressType)
			}
			translated.Endpoints = append(translated.Endpoints, e) // one without addresses is not read
		}
		out = append(out, &translated)
	}
	return out
}

func primaryAddress(view View, pod *corev1.Pod, nad string, family discoveryv1.AddressType) []string {
	network := view.Allocated(pod, nad)
	if network == nil {
		return nil
	}
	for _, address := range network.Addresses {
		if addressType(contract.FamilyOf(address.Addr())) == family {
			return []string{address.Addr().String()}
		}
	}
	return nil
}
