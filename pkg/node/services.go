package node

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Protocol is "tcp", "udp" or "sctp", as OpenFlow and nftables call it.
type Protocol string

// Port is a port of a protocol.
type Port struct {
	Protocol Protocol
	Port     uint16
}

// NodePort answers at the node's address; Targets are the service's own address
// and port, one for each of its families.
type NodePort struct {
	Port
	Targets []netip.AddrPort
}

// Endpoint is where a service answers beside its own address and node port: an
// external address, or one that a load balancer gave it.
type Endpoint struct {
	Addr netip.Addr
	Port
}

// ServicePorts are the services that the wire may ask the node for, sorted.
type ServicePorts struct {
	NodePorts []NodePort
	External  []Endpoint
}

// PortsOf reads services. What cannot be read is left out: the API server lets
// it pass at most in a status that somebody else writes.
func PortsOf(services []*corev1.Service) ServicePorts {
	var all ServicePorts
	for _, service := range services {
		addrs := externalAddrs(service)
		for _, p := range service.Spec.Ports {
			protocol := Protocol(strings.ToLower(string(cmp.Or(p.Protocol, corev1.ProtocolTCP))))
			if p.NodePort != 0 {
				port := Port{protocol, uint16(p.NodePort)}
				all.NodePorts = append(all.NodePorts, NodePort{Port: port, Targets: targets(service, uint16(p.Port))})
			}
			for _, addr := range addrs {
				all.External = append(all.External, Endpoint{Addr: addr, Port: Port{protocol, uint16(p.Port)}})
			}
		}
	}
	return all.sorted()
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

// externalAddrs leaves out addresses of load balancers that send packets to node
// ports instead.
func externalAddrs(service *corev1.Service) []netip.Addr {
	texts := slices.Clone(service.Spec.ExternalIPs)
	if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if ingress.IPMode == nil || *ingress.IPMode == corev1.LoadBalancerIPModeVIP {
				texts = append(texts, ingress.IP)
			}
		}
	}
	var addrs []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}

// sorted is the same for the same services, each port once.
func (s ServicePorts) sorted() ServicePorts {
	byPort := func(a, b Port) int { return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port)) }
	ports, external := slices.Clone(s.NodePorts), slices.Clone(s.External)
	slices.SortStableFunc(ports, func(a, b NodePort) int { return byPort(a.Port, b.Port) })
	slices.SortFunc(external, func(a, b Endpoint) int { return cmp.Or(a.Addr.Compare(b.Addr), byPort(a.Port, b.Port)) })
	return ServicePorts{
		NodePorts: slices.CompactFunc(ports, func(a, b NodePort) bool { return a.Port == b.Port }),
		External:  slices.Compact(external),
	}
}
