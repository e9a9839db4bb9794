package trace

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Entry is where a packet enters OVN, and what happens before.
type Entry struct {
	// Node is where the packet enters OVN, Chassis the node's name there, and Gateway has its gateway bridge.
	Node, Chassis string
	Gateway       contract.GatewayConfig
	// ByGateway: the packet comes by the gateway bridge to the gateway router.
	ByGateway bool
	// Masquerade is the offset of the address that stands for a process of the node there; 0: the source is known.
	Masquerade uint64
	// NodePort is that of a service with policy Local at which a process of the node has asked; without an endpoint on the node
	// the gateway router leads to those of other nodes.
	NodePort netip.AddrPort
	// Pods are the subnets of the nodes' pods.
	Pods []netip.Prefix
	// Balanced: the target may be one of a load balancer.
	Balanced bool
	// Before are the steps before OVN, and Ended is how the packet ends there.
	Before []Step
	Ended  Verdict
}

// host is a node with what its annotations say.
type host struct {
	*corev1.Node
	// subnets are those of its pods, own its addresses with the networks that they are in.
	subnets, own []netip.Prefix
	gateway      *contract.GatewayConfig
}

func hostNamed(name string, nodes []corev1.Node) (*host, error) {
	for i := range nodes {
		if nodes[i].Name == name {
			return readHost(&nodes[i])
		}
	}
	return nil, ErrNoObject("node " + name)
}

func readHost(node *corev1.Node) (h *host, err error) {
	h = &host{Node: node}
	var errs [3]error
	h.subnets, errs[0] = contract.ParseNodeSubnets(node.Annotations[contract.NodeSubnetsKey], contract.DefaultNetwork)
	h.gateway, errs[1] = contract.ParseGatewayConfig(node.Annotations[contract.GatewayConfigKey], contract.DefaultNetwork)
	h.own, errs[2] = contract.ParseHostCIDRs(node.Annotations[contract.HostCIDRsKey])
	for _, addr := range h.addresses() {
		if !h.has(addr) {
			h.own = append(h.own, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("annotations of node %s: %w", node.Name, err)
	}
	return h, nil
}

// addresses are those that the node's object has, the internal ones first.
func (h *host) addresses() (all []netip.Addr) {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range h.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == kind {
				all = append(all, addr)
			}
		}
	}
	return all
}

// has says that an address is the node's.
func (h *host) has(addr netip.Addr) bool {
	return slices.ContainsFunc(h.own, func(p netip.Prefix) bool { return p.Addr() == addr })
}

// name is the node's as an object.
func (h *host) name() string { return "node/" + h.Name }

// hasGateway says that the node has a gateway router.
func (h *host) hasGateway() bool { return h.gateway != nil && h.gateway.Mode != "disabled" }

func (h *host) entry() Entry {
	at := Entry{Node: h.Name, Chassis: h.Annotations[contract.NodeChassisIDKey]}
	if h.hasGateway() {
		at.Gateway = *h.gateway
	}
	return at
}

// enters says that the packet comes by the gateway bridge.
func (h *host) enters(c Connection) (Connection, error) {
	if !h.hasGateway() {
		return c, fmt.Errorf("%s has no gateway router", h.name())
	}
	before := c.Before
	c.Entry = h.entry()
	c.Before, c.ByGateway, c.Balanced = before, true, true
	c.Switch, c.Port, c.NextHop = contract.Network{}.ExternalSwitch(h.Name), c.Gateway.Interface, c.Gateway.MAC
	return c, nil
}

// managed says that the node sends by its management port.
func (e Ends) managed(h *host, to netip.AddrPort, c Connection) (Connection, error) {
	subnet, ok := contract.FamilyOf(to.Addr()).Pick(h.subnets)
	if !ok {
		return c, fmt.Errorf("%s has no subnet for pods of this address family", h.name())
	}
	before := c.Before
	c.Entry = h.entry()
	c.Switch, c.Port = contract.Network{}.NodeSwitch(h.Name), contract.Network{}.ManagementPort(h.Name)
	c.MAC = contract.MACFromAddress(contract.AddressAt(h.subnets[0], contract.ManagementOffset))
	c.NextHop = contract.MACFromAddress(contract.AddressAt(h.subnets[0], contract.RouterOffset))
	if subnet.Contains(to.Addr()) {
		c.NextHop = macOf(to.Addr(), c.NextHop, e.Pods)
	}
	c.Source, c.Target = contract.AddressAt(subnet, contract.ManagementOffset), to
	c.Before = append(before, Step{Where: h.name(), What: "management port, from " + c.Source.String()})
	return c, nil
}

// fromHost finds how the packet of a process of a node enters OVN.
func (e Ends) fromHost(h *host, targets []netip.Addr, c Connection) (Connection, error) {
	at := slices.IndexFunc(targets, func(to netip.Addr) bool {
		return slices.ContainsFunc(h.own, func(p netip.Prefix) bool { return p.Addr().Is4() == to.Is4() })
	})
	if at < 0 {
		return c, errFamily
	}
	to := netip.AddrPortFrom(targets[at], c.Target.Port())
	c.Target = to
	svc, kind := e.serviceAt(to, c.Protocol, h)
	switch {
	case e.isPod(to.Addr()):
		return e.managed(h, to, c)
	case kind == clusterIP && contract.IsDPUHost(h.Node): // the gateway bridge is the DPU's
		c, err := e.managed(h, to, c)
		c.Balanced = true
		return c, err
	case kind == clusterIP:
		c.Masquerade = contract.MasqueradeHost
		return h.asks(c)
	case h.has(to.Addr()) || kind == external && h.redirects(svc, to.Addr()):
		return e.redirected(h, svc, kind, c)
	}
	if other := hostAt(to.Addr(), e.Nodes); other != nil && (svc != nil || other.hostPort(to, c.Protocol, e.Pods) != nil) {
		c.Source = h.sourceTo(to.Addr())
		c.MAC = contract.MACFromAddress(c.Source)
		c.Before = append(c.Before, Step{Where: h.name(), What: "to the physical network, from " + c.Source.String()})
		return other.enters(c)
	}
	return c, fmt.Errorf("%s sends to %s by the physical network: OVN does not see it there, and no policy of pods is about it", h.name(), to.Addr())
}

// asks says that a process of the node asks for a service.
func (h *host) asks(c Connection) (Connection, error) {
	masquerade, port := c.Masquerade, c.NodePort
	c, err := h.enters(c)
	c.Masquerade, c.NodePort = masquerade, port
	return c, err
}

// sourceTo is the node's address to which a target is nearest.
func (h *host) sourceTo(to netip.Addr) netip.Addr {
	best := netip.Prefix{}
	for _, p := range h.own {
		if p.Addr().Is4() == to.Is4() && (!best.IsValid() || p.Contains(to) && !best.Contains(to)) {
			best = p
		}
	}
	return best.Addr()
}

// redirects says that the kernel leads processes of the node from an external address to the service's own one.
func (h *host) redirects(svc *corev1.Service, at netip.Addr) bool {
	if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return false
	}
	chosen := !slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return in.IP == at.String() })
	return !chosen || !slices.ContainsFunc(h.own, func(p netip.Prefix) bool { return p.Contains(at) })
}

// redirected is a packet to the node's own address or to an external one, which the kernel leads to a service or a pod.
func (e Ends) redirected(h *host, svc *corev1.Service, kind frontend, c Connection) (Connection, error) {
	asked := c.Target
	if p := h.hostPort(asked, c.Protocol, e.Pods); svc == nil && p != nil {
		to, ok := p.behind(asked.Addr())
		if !ok {
			return c, errFamily
		}
		c.Before = append(c.Before, redirection(h, to, "Pod/"+p.pod.Namespace+"/"+p.pod.Name))
		return e.managed(h, to, c)
	}
	if svc == nil {
		return c, fmt.Errorf("%s keeps what it sends to its own address %s: OVN does not see it, and no service has port %d there", h.name(), asked.Addr(), asked.Port())
	}
	own, port := clusterIPOf(svc, asked.Addr()), portAt(svc, c.Protocol, asked.Port(), kind)
	if !own.IsValid() {
		return c, errFamily
	}
	c.Target = netip.AddrPortFrom(own, port)
	if kind == nodePort && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		c.NodePort = asked
		if h.hasGateway() { // load balancers have one of the node's addresses
			if at, ok := contract.FamilyOf(asked.Addr()).Pick(h.gateway.Addresses); ok {
				c.NodePort = netip.AddrPortFrom(at.Addr(), asked.Port())
			}
		}
	}
	c.Masquerade = contract.MasqueradeBound
	if !h.has(asked.Addr()) {
		c.Masquerade = contract.MasqueradeOther
	}
	c.Before = append(c.Before, redirection(h, c.Target, "Service/"+svc.Namespace+"/"+svc.Name))
	return h.asks(c)
}

func redirection(h *host, to netip.AddrPort, owner string) Step {
	return Step{Where: h.name(), What: "nftables table ovn-offload: to " + to.String(), Object: owner}
}

// hostAt is the node with an address.
func hostAt(addr netip.Addr, nodes []corev1.Node) *host {
	for i := range nodes {
		if h, err := readHost(&nodes[i]); err == nil && h.has(addr) {
			return h
		}
	}
	return nil
}

// podSubnets are those of the pods of all nodes.
func podSubnets(nodes []corev1.Node) (all []netip.Prefix) {
	for _, n := range nodes {
		subnets, _ := contract.ParseNodeSubnets(n.Annotations[contract.NodeSubnetsKey], contract.DefaultNetwork) // a new node has none
		all = append(all, subnets...)
	}
	return all
}

// isPod says that an address is one of pods on the default network.
func (e Ends) isPod(addr netip.Addr) bool {
	if slices.ContainsFunc(podSubnets(e.Nodes), func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return true
	}
	for _, pod := range e.Pods {
		network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
		if err == nil && network != nil && slices.ContainsFunc(network.Addresses, func(p netip.Prefix) bool { return p.Addr() == addr }) {
			return true
		}
	}
	return false
}

// frontend is a kind of a service's address.
type frontend int

const (
	clusterIP frontend = iota + 1
	external
	nodePort
)

// serviceAt is the service that answers at an address: at a node port if it is an address of a node, which may be a host that
// is known already.
func (e Ends) serviceAt(at netip.AddrPort, protocol string, h *host) (*corev1.Service, frontend) {
	isNode := h != nil && h.has(at.Addr()) || hostAt(at.Addr(), e.Nodes) != nil
	for i := range e.Services {
		svc := &e.Services[i]
		kind := frontend(0)
		switch text := at.Addr().String(); {
		case slices.Contains(svc.Spec.ClusterIPs, text):
			return svc, clusterIP // with whatever port
		case slices.Contains(externalIPs(svc), text):
			kind = external
		}
		if kind != 0 && portAt(svc, protocol, at.Port(), kind) != 0 {
			return svc, kind
		}
		if isNode && portAt(svc, protocol, at.Port(), nodePort) != 0 {
			return svc, nodePort
		}
	}
	return nil, 0
}

// externalIPs are the addresses of a service that clients outside use.
func externalIPs(svc *corev1.Service) []string {
	var all []string
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP) {
			all = append(all, in.IP)
		}
	}
	return append(all, svc.Spec.ExternalIPs...)
}

// portAt is the service's port that answers at a port of one of its frontends; 0: none does.
func portAt(svc *corev1.Service, protocol string, port uint16, kind frontend) uint16 {
	for _, p := range svc.Spec.Ports {
		asked := p.Port
		if kind == nodePort {
			asked = p.NodePort
		}
		if asked == int32(port) && port != 0 && strings.EqualFold(string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), protocol) {
			return uint16(p.Port) //nolint:gosec // the API server refuses others
		}
	}
	return 0
}

// clusterIPOf is a service's own address of a family.
func clusterIPOf(svc *corev1.Service, like netip.Addr) netip.Addr {
	for _, text := range svc.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Is4() == like.Is4() {
			return addr
		}
	}
	return netip.Addr{}
}

// hostPort is a port of a pod at its node.
type hostPort struct {
	pod  *corev1.Pod
	port uint16
}

// hostPort is that of a pod at an address of the node.
func (h *host) hostPort(at netip.AddrPort, protocol string, pods []corev1.Pod) *hostPort {
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != h.Name || !contract.WantsNetwork(pod) {
			continue
		}
		for _, container := range pod.Spec.Containers {
			for _, p := range container.Ports {
				only, ok := contract.HostPort(p)
				if ok && (!only.IsValid() || only == at.Addr()) && p.HostPort == int32(at.Port()) && strings.EqualFold(string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), protocol) {
					return &hostPort{pod, uint16(p.ContainerPort)} //nolint:gosec // HostPort has checked it
				}
			}
		}
	}
	return nil
}

// behind is the pod's own address and port.
func (p hostPort) behind(like netip.Addr) (netip.AddrPort, bool) {
	for _, ip := range p.pod.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil && addr.Is4() == like.Is4() {
			return netip.AddrPortFrom(addr, p.port), true
		}
	}
	return netip.AddrPort{}, false
}

// isBalanced says that the target of a pod may be one of a load balancer: an address of a service or of the pod's own node.
func isBalanced(to netip.Addr, at Entry, services []corev1.Service) bool {
	text := to.String()
	return at.isOwn(to) || slices.ContainsFunc(services, func(svc corev1.Service) bool {
		return slices.Contains(svc.Spec.ClusterIPs, text) || slices.Contains(externalIPs(&svc), text)
	})
}

// isOwn says that node ports of the node answer at an address.
func (at Entry) isOwn(addr netip.Addr) bool {
	return slices.ContainsFunc(at.Gateway.Addresses, func(p netip.Prefix) bool { return p.Addr() == addr })
}
