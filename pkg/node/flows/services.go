package flows

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	facts "github.com/ovn-offload/ovn-offload/pkg/service"
)

// Protocol is "tcp", "udp" or "sctp", as OpenFlow and nftables call it.
type Protocol string

// Port is a port of a protocol.
type Port struct {
	Protocol Protocol
	Port     uint16
}

// NodePort answers at the node's address; Targets are where the same answers a process
// of the node, one for each family of the service: its own address and port or, when
// its endpoints are elsewhere, the router's for that.
type NodePort struct {
	Port
	Targets []netip.AddrPort
}

// Endpoint is where a service answers beside its own address and node port: an
// external address, or one that a load balancer gave it. Limited is one that only
// Sources may ask for; those of the other family count for nothing. Target is where
// the same answers by another address: the service's own, or the pod's. Local is one
// whose router leads to the node's own endpoints only; Remote says that there are none. Chosen is one that the author of
// the service has chosen, and that may be another's.
type Endpoint struct {
	Addr netip.Addr
	Port
	Chosen  bool
	Limited bool
	Sources []netip.Prefix
	Target  netip.AddrPort
	Local   bool
	Remote  bool
}

// Services are the services that external clients may ask the node for, sorted.
type Services struct {
	NodePorts []NodePort
	External  []Endpoint
	// HostPorts are those of pods that name an address, of whatever node.
	HostPorts []Endpoint
	// Subnets are the ranges of services that the API says.
	Subnets []netip.Prefix
}

// PortsOf reads services and the pods of the node. The bridge treats host ports like node ports. It leaves out what it
// cannot parse, which the API server accepts only in a status.
func PortsOf(services []*corev1.Service, pods []*corev1.Pod, elsewhere Elsewhere) Services {
	var all Services
	for _, pod := range pods {
		all.addHostPorts(pod)
	}
	for _, service := range services {
		if !facts.IsServed(service) { // load balancers do not answer for it, so nothing leads to them
			continue
		}
		addrs := externalAddrs(service)
		for _, p := range service.Spec.Ports {
			protocol := protocolOf(p.Protocol)
			own := targets(service, uint16(p.Port))
			if p.NodePort != 0 {
				all.NodePorts = append(all.NodePorts, NodePort{Port{protocol, uint16(p.NodePort)}, elsewhere.targets(service, uint16(p.NodePort), own)})
			}
			for _, at := range addrs {
				at.Port, at.Target = Port{protocol, uint16(p.Port)}, OfFamily(at.Addr, own)
				at.Remote = at.Local && elsewhere.Services[types.NamespacedName{Namespace: service.Namespace, Name: service.Name}]
				all.External = append(all.External, at)
			}
		}
	}
	return all.sorted()
}

// Elsewhere are the services with policy Local that have no endpoint on the node, and
// the masquerade subnets, in which the router has their node ports.
type Elsewhere struct {
	Services   map[types.NamespacedName]bool
	Masquerade []netip.Prefix
}

// targets are those of a service's node port. By way of another node's node port the
// endpoint sees the node's own address; by way of the service's address the router's.
func (e Elsewhere) targets(service *corev1.Service, port uint16, own []netip.AddrPort) []netip.AddrPort {
	if !e.Services[types.NamespacedName{Namespace: service.Namespace, Name: service.Name}] {
		return own
	}
	var out []netip.AddrPort
	for _, target := range own {
		if subnet, ok := contract.FamilyOf(target.Addr()).Pick(e.Masquerade); ok {
			out = append(out, netip.AddrPortFrom(contract.AddressAt(subnet.Masked(), contract.MasqueradeElsewhere), port))
		}
	}
	return out
}

func protocolOf(p corev1.Protocol) Protocol {
	return Protocol(strings.ToLower(string(cmp.Or(p, corev1.ProtocolTCP))))
}

// HasHostPorts says that a pod on the pod network answers at its node's addresses.
func HasHostPorts(pod *corev1.Pod) bool {
	var all Services
	all.addHostPorts(pod)
	return len(all.NodePorts)+len(all.HostPorts) > 0
}

func (s *Services) addHostPorts(pod *corev1.Pod) {
	if !contract.WantsNetwork(pod) {
		return
	}
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
	if err != nil || network == nil {
		return
	}
	for _, container := range contract.RunningContainers(pod) {
		for _, p := range container.Ports {
			port := Port{protocolOf(p.Protocol), uint16(p.HostPort)}
			var own []netip.AddrPort
			for _, prefix := range network.Addresses {
				own = append(own, netip.AddrPortFrom(prefix.Addr(), uint16(p.ContainerPort)))
			}
			at, ok := contract.HostPort(p)
			switch {
			case !ok:
			case at.IsValid():
				s.HostPorts = append(s.HostPorts, Endpoint{Addr: at, Port: port, Target: OfFamily(at, own)})
			default:
				s.NodePorts = append(s.NodePorts, NodePort{Port: port, Targets: own})
			}
		}
	}
}

func targets(service *corev1.Service, port uint16) []netip.AddrPort {
	var out []netip.AddrPort
	for _, ip := range service.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(ip); err == nil {
			out = append(out, netip.AddrPortFrom(addr, port))
		}
	}
	return out
}

// OfFamily is the one of an address' family, invalid if there is none.
func OfFamily(addr netip.Addr, targets []netip.AddrPort) netip.AddrPort {
	for _, target := range targets {
		if contract.FamilyOf(addr).Has(target.Addr()) {
			return target
		}
	}
	return netip.AddrPort{}
}

// externalAddrs leaves out addresses of load balancers that send packets to node
// ports instead. The ports are to be filled in.
func externalAddrs(service *corev1.Service) []Endpoint {
	var out []Endpoint
	add := func(text string, e Endpoint) {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			e.Addr, e.Local = addr.Unmap(), service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
			out = append(out, e)
		}
	}
	if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		limits := Endpoint{Limited: len(service.Spec.LoadBalancerSourceRanges) > 0, Sources: sources(service)}
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if ingress.IPMode == nil || *ingress.IPMode == corev1.LoadBalancerIPModeVIP {
				add(ingress.IP, limits)
			}
		}
	}
	for _, text := range service.Spec.ExternalIPs {
		add(text, Endpoint{Chosen: true})
	}
	return out
}

// sources are sorted. One that cannot be parsed allows no client.
func sources(service *corev1.Service) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range service.Spec.LoadBalancerSourceRanges {
		if prefix, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
			out = append(out, prefix.Masked())
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// Redirected are the endpoints at which a process of a node of these addresses is led to
// their targets.
func (s Services) Redirected(own []netip.Prefix) []Endpoint {
	var out []Endpoint
	for _, e := range s.External {
		if (e.Local || slices.ContainsFunc(own, e.isOf)) && !e.passesBy(own) {
			out = append(out, e)
		}
	}
	return slices.DeleteFunc(append(out, s.HostPorts...), func(e Endpoint) bool { return !e.Target.IsValid() })
}

// At is the same at a node of these addresses. A host port of another address is
// nothing there, as it is no load balancer. Of HostPorts those at loopback addresses
// remain, which are for the node's own processes only.
func (s Services) At(own []netip.Prefix) Services {
	var here, loopback []Endpoint
	for _, e := range s.HostPorts {
		switch {
		case e.Addr.IsLoopback():
			loopback = append(loopback, e)
		case slices.ContainsFunc(own, e.isOf):
			here = append(here, e)
		}
	}
	if s.HostPorts = loopback; len(here) == 0 {
		return s
	}
	s.External = slices.Concat(s.External, here)
	return s.sorted()
}

// Without leaves out chosen addresses that are in networks of others: the router has no
// load balancer for them, and would keep the packets from the owner of the address.
func (s Services) Without(taken []netip.Prefix) Services {
	s.External = slices.DeleteFunc(slices.Clone(s.External), func(e Endpoint) bool {
		return e.Chosen && slices.ContainsFunc(taken, func(p netip.Prefix) bool { return p.Contains(e.Addr) })
	})
	return s
}

// passesBy says that the node's own processes do not ask the router for an address: one
// that was chosen and is in a network that the node is in may be another node's, of
// which this one does not know. On the physical network the owner of the address answers.
func (e Endpoint) passesBy(own []netip.Prefix) bool {
	return e.Chosen && slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(e.Addr) })
}

// isOf says that the endpoint is at a node's own address.
func (e Endpoint) isOf(own netip.Prefix) bool { return own.Addr() == e.Addr }

// sorted is the same for the same services, each port once: an address that is
// also limited is limited.
func (s Services) sorted() Services {
	byPort := func(a, b Port) int { return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port)) }
	ports := slices.Clone(s.NodePorts)
	slices.SortStableFunc(ports, func(a, b NodePort) int { return byPort(a.Port, b.Port) })
	endpoints := func(all []Endpoint) []Endpoint {
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b Endpoint) int {
			return cmp.Or(a.Addr.Compare(b.Addr), byPort(a.Port, b.Port), compareLimits(a, b), a.Target.Compare(b.Target), compareChosen(a, b))
		})
		return slices.CompactFunc(all, func(a, b Endpoint) bool { return a.Addr == b.Addr && a.Port == b.Port })
	}
	return Services{
		NodePorts: slices.CompactFunc(ports, func(a, b NodePort) bool { return a.Port == b.Port }),
		External:  endpoints(s.External), HostPorts: endpoints(s.HostPorts), Subnets: s.Subnets,
	}
}

// compareChosen puts those last that are chosen.
func compareChosen(a, b Endpoint) int {
	switch {
	case a.Chosen == b.Chosen:
		return 0
	case a.Chosen:
		return 1
	}
	return -1
}

// compareLimits puts those first that are limited.
func compareLimits(a, b Endpoint) int {
	switch {
	case a.Limited == b.Limited:
		return slices.CompareFunc(a.Sources, b.Sources, netip.Prefix.Compare)
	case a.Limited:
		return -1
	}
	return 1
}
