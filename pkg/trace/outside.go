package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Outside is the source of any client outside the cluster, and begins that of one with an address: "outside/192.0.2.7".
const Outside = "outside"

// clientsOf are a client's address, or one of each family that is reserved for documentation (RFC 5737, RFC 3849).
func clientsOf(address string) ([]netip.Addr, error) {
	if address == "" {
		return []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, 1}), netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1})}, nil
	}
	client, err := netip.ParseAddr(address)
	if err != nil {
		return nil, fmt.Errorf("%q: want outside, or outside/ADDRESS of the client", Outside+"/"+address)
	}
	return []netip.Addr{client}, nil
}

// exposed is what clients outside reach of a cluster.
type exposed struct {
	Ends
	clients []netip.Addr
}

// reach finds where the packet of a client enters OVN.
func (e exposed) reach(targets []netip.Addr, c Connection) (Connection, error) {
	if name, ok := strings.CutPrefix(c.To, "svc/"); ok {
		return e.service(name, c)
	}
	for _, to := range targets {
		client, ok := like(e.clients, to)
		if !ok {
			continue
		}
		c.Source, c.MAC, c.Target = client, contract.MACFromAddress(client), netip.AddrPortFrom(to, c.Target.Port())
		if e.isPod(to) {
			return c, fmt.Errorf("the gateway bridge of a node drops what comes from outside for the address %s of a pod: trace to a service of the pod", to)
		}
		if h := hostAt(to, e.Nodes); h != nil && (e.At == "" || e.At == h.Name) {
			return h.gets(c)
		}
		svc, kind := e.serviceAt(c.Target, c.Protocol, nil)
		if kind != external {
			return c, fmt.Errorf("no node and no service answers clients outside at %s port %d", to, c.Target.Port())
		}
		return e.external(svc, c)
	}
	return c, errFamily
}

func like(all []netip.Addr, addr netip.Addr) (netip.Addr, bool) {
	i := slices.IndexFunc(all, func(a netip.Addr) bool { return a.Is4() == addr.Is4() })
	if i < 0 {
		return netip.Addr{}, false
	}
	return all[i], true
}

// gets says that a node gets the packet of a client outside.
func (h *host) gets(c Connection) (Connection, error) {
	if c.Protocol == "icmp" {
		c.Entry = h.entry()
		c.Before, c.Ended = []Step{h.byBridge("so the node itself gets the packet")}, Delivered
		return c, nil
	}
	return h.enters(c)
}

func (h *host) byBridge(what string) Step {
	return Step{Where: h.name(), What: "gateway bridge: " + what}
}

// service is a packet to a service: to an address that it has for clients outside, or else to its node port.
func (e exposed) service(name string, c Connection) (Connection, error) {
	namespace, short, _ := strings.Cut(name, "/")
	at := slices.IndexFunc(e.Services, func(s corev1.Service) bool { return s.Namespace == namespace && s.Name == short })
	if at < 0 {
		return c, ErrNoObject("service " + name)
	}
	svc := &e.Services[at]
	for _, text := range externalIPs(svc) {
		to, err := netip.ParseAddr(text)
		client, ok := like(e.clients, to)
		if err == nil && ok {
			c.Source, c.MAC, c.Target = client, contract.MACFromAddress(client), netip.AddrPortFrom(to, c.Target.Port())
			return e.external(svc, c)
		}
	}
	i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.NodePort != 0 && portAt(&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{p}}}, c.Protocol, c.Target.Port(), clusterIP) != 0
	})
	if i < 0 {
		return c, fmt.Errorf("service %s has no address for clients outside, and no node port of port %d", name, c.Target.Port())
	}
	h, err := e.receiver()
	if err != nil {
		return c, err
	}
	for _, to := range h.addresses() {
		if client, ok := like(e.clients, to); ok && clusterIPOf(svc, to).IsValid() {
			c.Source, c.MAC, c.Target = client, contract.MACFromAddress(client), netip.AddrPortFrom(to, uint16(svc.Spec.Ports[i].NodePort)) //nolint:gosec // the API server refuses others
			return h.gets(c)
		}
	}
	return c, errFamily
}

// external is a packet to a service's external address, which comes to a node by routes that OVN does not know.
func (e exposed) external(svc *corev1.Service, c Connection) (Connection, error) {
	h, err := e.receiver()
	if err != nil {
		return c, err
	}
	if c, err = h.enters(c); err == nil && !mayAsk(svc, c.Source, c.Target.Addr()) {
		step := h.byBridge("drop, loadBalancerSourceRanges do not have " + c.Source.String())
		step.Object = "Service/" + svc.Namespace + "/" + svc.Name
		c.Before, c.Ended = append(c.Before, step), Dropped
	}
	return c, err
}

// mayAsk says whether a service's source ranges allow a client at an address of its load balancer.
func mayAsk(svc *corev1.Service, client, at netip.Addr) bool {
	given := slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return in.IP == at.String() })
	if !given || svc.Spec.Type != corev1.ServiceTypeLoadBalancer || len(svc.Spec.LoadBalancerSourceRanges) == 0 {
		return true
	}
	return slices.ContainsFunc(svc.Spec.LoadBalancerSourceRanges, func(text string) bool {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		return err == nil && p.Contains(client)
	})
}

// receiver is the node that gets the packets of a client outside.
func (e exposed) receiver() (*host, error) {
	if e.At != "" {
		return hostNamed(e.At, e.Nodes)
	}
	if len(e.Nodes) == 1 {
		return readHost(&e.Nodes[0])
	}
	return nil, errors.New("want --at NODE: the node that gets the packets of the client")
}
