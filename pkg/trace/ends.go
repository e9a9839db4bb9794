package trace

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Ends finds the ends of connections among the objects of a cluster.
type Ends struct {
	Pods     []corev1.Pod
	Services []corev1.Service
	// Namespace is that of names without one.
	Namespace string
}

// Connection reads a source "pod/NAME" and a target "pod/NAME:PORT/PROTOCOL", "svc/NAME:PORT/PROTOCOL" or
// "ADDRESS:PORT/PROTOCOL". A name may have its namespace before it. Without a protocol it is tcp; without a port, that of
// the service or of the pod's first container. Protocol icmp has no port.
func (e Ends) Connection(source, target string) (Connection, error) {
	pod, err := e.pod(source)
	if err != nil {
		return Connection{}, err
	}
	if pod.Spec.HostNetwork {
		return Connection{}, fmt.Errorf("pod %s/%s has the network of its node: OVN does not see what it sends", pod.Namespace, pod.Name)
	}
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
	if err != nil {
		return Connection{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if network == nil {
		return Connection{}, fmt.Errorf("pod %s/%s has no address on the default network yet", pod.Namespace, pod.Name)
	}
	where, protocol, port, err := split(target)
	if err != nil {
		return Connection{}, err
	}
	families, port, err := e.target(where, protocol, port)
	if err != nil {
		return Connection{}, err
	}
	if port == 0 && protocol != "icmp" {
		return Connection{}, fmt.Errorf("%q: want a port", target)
	}
	return e.between(pod, network, families, Connection{Protocol: protocol, Target: netip.AddrPortFrom(netip.Addr{}, port)})
}

// between chooses a family that both ends have.
func (e Ends) between(pod *corev1.Pod, network *contract.PodNetwork, targets []netip.Addr, c Connection) (Connection, error) {
	c.Switch, c.MAC = contract.Network{}.NodeSwitch(pod.Spec.NodeName), network.MAC
	c.Port = contract.Network{}.PodPort(pod.Namespace, pod.Name)
	for _, to := range targets {
		for i, own := range network.Addresses {
			if own.Addr().Is4() != to.Is4() || i >= len(network.Gateways) {
				continue
			}
			c.Source, c.Target = own.Addr(), netip.AddrPortFrom(to, c.Target.Port())
			c.NextHop = contract.MACFromAddress(network.Gateways[i])
			if own.Masked().Contains(to) {
				c.NextHop = e.mac(to, c.NextHop)
			}
			return c, nil
		}
	}
	return c, errors.New("the two ends have no address family in common")
}

// mac is that of the pod with an address.
func (e Ends) mac(addr netip.Addr, otherwise contract.MAC) contract.MAC {
	for i := range e.Pods {
		network, err := contract.ParsePodNetwork(e.Pods[i].Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
		if err != nil || network == nil {
			continue
		}
		if slices.ContainsFunc(network.Addresses, func(p netip.Prefix) bool { return p.Addr() == addr }) {
			return network.MAC
		}
	}
	return otherwise
}

// split reads "WHERE:PORT/PROTOCOL".
func split(target string) (where, protocol string, port uint16, err error) {
	where, protocol = target, "tcp"
	for _, p := range []string{"tcp", "udp", "sctp", "icmp"} {
		if rest, ok := strings.CutSuffix(where, "/"+p); ok {
			where, protocol = rest, p
		}
	}
	if addr, err := netip.ParseAddr(strings.Trim(where, "[]")); err == nil {
		return addr.String(), protocol, 0, nil
	}
	if i := strings.LastIndexByte(where, ':'); i >= 0 {
		n, err := strconv.ParseUint(where[i+1:], 10, 16)
		if err != nil {
			return "", "", 0, fmt.Errorf("%q: %q is no port", target, where[i+1:])
		}
		where, port = strings.Trim(where[:i], "[]"), uint16(n)
	}
	return where, protocol, port, nil
}

func (e Ends) target(where, protocol string, port uint16) ([]netip.Addr, uint16, error) {
	if addr, err := netip.ParseAddr(where); err == nil {
		return []netip.Addr{addr}, port, nil
	}
	if name, ok := strings.CutPrefix(where, "svc/"); ok {
		return e.service(name, protocol, port)
	}
	pod, err := e.pod(where)
	if err != nil {
		return nil, 0, err
	}
	var addrs []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			addrs = append(addrs, addr)
		}
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			port = cmp.Or(port, uint16(p.ContainerPort)) //nolint:gosec // the API server refuses others
		}
	}
	return addrs, port, nil
}

func (e Ends) service(name, protocol string, port uint16) ([]netip.Addr, uint16, error) {
	namespace, name := e.qualified(name)
	for i := range e.Services {
		svc := &e.Services[i]
		if svc.Namespace != namespace || svc.Name != name {
			continue
		}
		var addrs []netip.Addr
		for _, ip := range svc.Spec.ClusterIPs {
			if addr, err := netip.ParseAddr(ip); err == nil {
				addrs = append(addrs, addr)
			}
		}
		if len(addrs) == 0 {
			return nil, 0, fmt.Errorf("service %s/%s has no cluster IP: trace to one of its pods", namespace, name)
		}
		for _, p := range svc.Spec.Ports {
			if strings.EqualFold(string(p.Protocol), protocol) {
				port = cmp.Or(port, uint16(p.Port)) //nolint:gosec // the API server refuses others
			}
		}
		return addrs, port, nil
	}
	return nil, 0, fmt.Errorf("there is no service %s/%s", namespace, name)
}

func (e Ends) pod(text string) (*corev1.Pod, error) {
	name, ok := strings.CutPrefix(text, "pod/")
	if !ok {
		return nil, fmt.Errorf("%q: want pod/NAME, svc/NAME or an address", text)
	}
	namespace, name := e.qualified(name)
	for i := range e.Pods {
		if e.Pods[i].Namespace == namespace && e.Pods[i].Name == name {
			return &e.Pods[i], nil
		}
	}
	return nil, fmt.Errorf("there is no pod %s/%s", namespace, name)
}

func (e Ends) qualified(name string) (string, string) {
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return namespace, rest
	}
	return e.Namespace, name
}
