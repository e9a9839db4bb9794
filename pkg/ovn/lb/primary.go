package lb

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// primaryFrontends are the addresses and ports of a service in a namespace with a primary network: those on the network's
// switches, and those on all gateway routers. The cluster address is on the switches, so that only pods of the network
// reach it. A node port, or an external address, is on both. Gateway routers lead to the pods if the network's subnets are
// no other network's.
//
// The policies Local, and hints, are not followed: all endpoints are used.
func (s *service) primaryFrontends(view View, nad string, routed bool) (inside, outside []frontend, err error) {
	some := OnNetwork(view, s.Namespace, nad, s.slices)
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

// Pods are those of namespaces, with what the allocator gave them.
type Pods interface {
	// PodsIn are the pods of a namespace, in no order.
	PodsIn(namespace string) []*corev1.Pod
	// Allocated is what the allocator gave to a pod on a network.
	Allocated(pod *corev1.Pod, network string) *contract.PodNetwork
}

// OnNetwork gives EndpointSlices of a namespace the addresses that their pods have on a network. Endpoints that are not at
// the address of a pod of the namespace keep theirs. A pod without an address of the family has none then.
func OnNetwork(view Pods, namespace, nad string, some []*discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice) {
	pods := map[string]*corev1.Pod{}
	for _, pod := range view.PodsIn(namespace) {
		if !contract.WantsNetwork(pod) {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			pods[ip.IP] = pod
		}
	}
	for _, slice := range some {
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

func primaryAddress(view Pods, pod *corev1.Pod, nad string, family discoveryv1.AddressType) []string {
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

// BuildShared gives the load balancers of the services of the default network that pods of primary networks reach, and the
// matches of what passes the isolation for them. The network's switches balance if all endpoints are pods, and else the
// gateway routers, which alone know the addresses of their nodes.
func BuildShared(view View, network contract.Network) (rows []ovsdb.Row, targets map[contract.Family][]string, err error) {
	net := scope{network, view.Zone()}
	targets = map[contract.Family][]string{}
	for _, object := range view.SharedServices() {
		s, err := readService(view, net, types.NamespacedName{Namespace: object.Namespace, Name: object.Name})
		if err != nil {
			return nil, nil, err
		}
		if s == nil { // without a cluster address
			continue
		}
		ports, err := s.ports(view)
		if err != nil {
			return nil, nil, err
		}
		var frontends []frontend
		for _, port := range ports {
			family, vip := contract.FamilyOf(port.address), netip.AddrPortFrom(port.address, uint16(port.Port))
			pass := func(to netip.AddrPort) {
				protocol := strings.ToLower(string(protocolOf(port.Protocol)))
				targets[family] = append(targets[family], fmt.Sprintf("(%s == %s && %s.dst == %d)", acl.Destination.Of(family), to.Addr(), protocol, to.Port()))
			}
			if port.onHostNetwork {
				pass(vip)
				continue
			}
			some := usable(port.endpoints)
			for _, e := range some {
				pass(e.address)
			}
			frontends = append(frontends, frontend{balancer{protocol: protocolOf(port.Protocol), scope: onSwitches}, vip.String(), backends(some)})
		}
		for _, row := range s.rows(net, frontends) {
			row.ID = s.Namespace + "/" + s.Name + " " + row.ID
			rows = append(rows, row)
		}
	}
	return rows, targets, nil
}
