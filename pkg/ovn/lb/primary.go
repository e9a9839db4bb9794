package lb

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// onFurther makes a service of a further network one with the addresses of the pods there.
func (s *service) onFurther(view View) error {
	nad, further, err := view.NetworkOf(s.Service)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if further != nil {
		s.further, s.slices = further, OnNetwork(view, s.Namespace, nad, s.slices)
	}
	return nil
}

func (s *service) isSecondary() bool { return s.further != nil && !s.further.IsPrimary() }

// primaryRows are the load balancers of a service of a primary network: those on the network's switches, and those on all
// gateway routers. Gateway routers lead to the pods if they have routes to the network's subnets.
func (s *service) primaryRows(view View, net scope, all []frontend) []ovsdb.Row {
	var inside, outside []frontend
	for _, f := range all {
		if f.in.scope == onSwitches {
			inside = append(inside, f)
		} else if view.IsRouted(s.further.Name) {
			outside = append(outside, f)
		}
	}
	return append(s.rows(scope{*s.further, net.Zone}, inside), s.rows(net, outside)...)
}

// secondaryFrontends are those of a service on a secondary network with a gateway: its cluster addresses, which pods of the
// network alone reach. Their routes lead there if the network's exits do.
func secondaryFrontends(ports []servicePort) (frontends []frontend) {
	for _, port := range ports {
		t := target{servicePort: port, scope: onSwitches, selection: selectAll}
		frontends = append(frontends, t.at(port.address, uint16(port.Port)))
	}
	return frontends
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
				e.Addresses = furtherAddress(view, pods[e.Addresses[0]], nad, slice.AddressType)
			}
			translated.Endpoints = append(translated.Endpoints, e) // one without addresses is not read
		}
		out = append(out, &translated)
	}
	return out
}

func furtherAddress(view Pods, pod *corev1.Pod, nad string, family discoveryv1.AddressType) []string {
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

// Target is an end of a shared service, with its protocol in lower case.
type Target struct {
	netip.AddrPort
	Protocol string
}

// SharedTargets are the ends of the services of the default network that pods of primary networks reach.
func SharedTargets(view View) (map[contract.Family][]Target, error) {
	_, targets, err := BuildShared(view, contract.Network{})
	return targets, err
}

// BuildShared gives the load balancers of the services of the default network that pods of primary networks reach, and what
// passes the isolation for them. The network's switches balance if all endpoints are pods, and else the gateway routers,
// which alone know the addresses of their nodes.
func BuildShared(view View, network contract.Network) (rows []ovsdb.Row, targets map[contract.Family][]Target, err error) {
	net := scope{network, view.Zone()}
	targets = map[contract.Family][]Target{}
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
				targets[family] = append(targets[family], Target{to, strings.ToLower(string(protocolOf(port.Protocol)))})
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
