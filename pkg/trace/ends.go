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

// ErrNoObject is a pod or a service that does not exist.
type ErrNoObject string

// Error implements error.
func (e ErrNoObject) Error() string { return "there is no " + string(e) }

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
	key, network, err := networkOf(pod)
	if err != nil {
		return Connection{}, err
	}
	where, protocol, port, err := split(target)
	if err != nil {
		return Connection{}, err
	}
	c := Connection{Protocol: protocol, Network: key, From: "pod/" + pod.Namespace + "/" + pod.Name}
	families, port, err := e.target(where, protocol, port, &c)
	if err != nil {
		return Connection{}, err
	}
	if port == 0 && protocol != "icmp" {
		return Connection{}, fmt.Errorf("%q: want a port", target)
	}
	c.Target = netip.AddrPortFrom(netip.Addr{}, port)
	return e.between(pod, network, families, c)
}

// Objects are the pods and services "pod/namespace/name" at the ends of a connection, and the address of its target if that is one.
func (e Ends) Objects(source, target string) (objects []string, address netip.Addr) {
	where, _, _, err := split(target)
	if err != nil {
		where = target // Connection says what is wrong
	}
	if address, err = netip.ParseAddr(where); err == nil {
		where = ""
	}
	for _, text := range []string{source, where} {
		if kind, name, ok := strings.Cut(text, "/"); ok {
			namespace, name := e.qualified(name)
			objects = append(objects, kind+"/"+namespace+"/"+name)
		}
	}
	return objects, address
}

// Namespaces are those of the objects at the ends of a connection, and of names without one.
func (e Ends) Namespaces(source, target string) []string {
	names := []string{e.Namespace}
	objects, _ := e.Objects(source, target)
	for _, object := range objects {
		if namespace := strings.Split(object, "/")[1]; !slices.Contains(names, namespace) {
			names = append(names, namespace)
		}
	}
	return names
}

// networkOf is the network that a pod's connections use, and the network's name: that of its primary network, else "".
func networkOf(pod *corev1.Pod) (name string, network *contract.PodNetwork, err error) {
	annotation := pod.Annotations[contract.PodNetworksKey]
	if key, primary := contract.PrimaryOf(annotation); primary != nil {
		return cmp.Or(primary.Network, key), primary, nil
	}
	network, err = contract.ParsePodNetwork(annotation, contract.DefaultNetwork)
	if err == nil && network == nil {
		err = errors.New("it has no address on the default network yet")
	}
	if err != nil {
		return "", nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return "", network, nil
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

// target finds the addresses of a target, and its name.
func (e Ends) target(where, protocol string, port uint16, c *Connection) ([]netip.Addr, uint16, error) {
	if addr, err := netip.ParseAddr(where); err == nil {
		c.To = addr.String()
		return []netip.Addr{addr}, port, nil
	}
	if name, ok := strings.CutPrefix(where, "svc/"); ok {
		namespace, name := e.qualified(name)
		c.To = "svc/" + namespace + "/" + name
		return e.service(namespace, name, protocol, port)
	}
	pod, err := e.pod(where)
	if err != nil {
		return nil, 0, err
	}
	c.To = "pod/" + pod.Namespace + "/" + pod.Name
	addrs, err := addressesOf(pod, c.Network)
	if err != nil {
		return nil, 0, err
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			port = cmp.Or(port, uint16(p.ContainerPort)) //nolint:gosec // the API server refuses others
		}
	}
	return addrs, port, nil
}

// addressesOf are those of a pod on the default network for "", or on another one.
func addressesOf(pod *corev1.Pod, network string) (addrs []netip.Addr, err error) {
	if network == "" {
		for _, ip := range pod.Status.PodIPs {
			if addr, err := netip.ParseAddr(ip.IP); err == nil {
				addrs = append(addrs, addr)
			}
		}
		return addrs, nil
	}
	annotation := pod.Annotations[contract.PodNetworksKey]
	for _, key := range contract.Networks(annotation) {
		if n, err := contract.ParsePodNetwork(annotation, key); key != "" && err == nil && n != nil && cmp.Or(n.Network, key) == network {
			for _, p := range n.Addresses {
				addrs = append(addrs, p.Addr())
			}
		}
	}
	if len(addrs) == 0 {
		err = fmt.Errorf("pod %s/%s is not on the network %s of the pod that sends", pod.Namespace, pod.Name, network)
	}
	return addrs, err
}

func (e Ends) service(namespace, name, protocol string, port uint16) ([]netip.Addr, uint16, error) {
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
	return nil, 0, ErrNoObject("service " + namespace + "/" + name)
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
	return nil, ErrNoObject("pod " + namespace + "/" + name)
}

// NamespaceOf is the namespace of a pod's name "pod/NAME" or "pod/NAMESPACE/NAME".
func (e Ends) NamespaceOf(source string) string {
	namespace, _ := e.qualified(strings.TrimPrefix(source, "pod/"))
	return namespace
}

func (e Ends) qualified(name string) (string, string) {
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return namespace, rest
	}
	return e.Namespace, name
}
