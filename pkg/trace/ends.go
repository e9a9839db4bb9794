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

// Ends finds the ends of connections among the objects of a cluster.
type Ends struct {
	Nodes    []corev1.Node
	Pods     []corev1.Pod
	Services []corev1.Service
	// Namespace is that of names without one.
	Namespace string
	// At is the node that gets the packets of a client outside; empty: that of the target.
	At string
}

// ErrNoObject is a pod, a service or a node that does not exist.
type ErrNoObject string

// Error implements error.
func (e ErrNoObject) Error() string { return "there is no " + string(e) }

var errFamily = errors.New("the two ends have no address family in common")

// Connection reads a source "pod/NAME", "node/NAME", "outside" or "outside/ADDRESS", and a target "pod/NAME:PORT/PROTOCOL",
// "svc/NAME:PORT/PROTOCOL", "node/NAME:PORT/PROTOCOL" or "ADDRESS:PORT/PROTOCOL". The name of a pod or a service may have its
// namespace before it. Without a protocol it is tcp; without a port, that of the service or of the pod's first container.
// Protocol icmp has no port.
func (e Ends) Connection(source, target string) (Connection, error) {
	from, err := e.source(source)
	if err != nil {
		return Connection{}, err
	}
	if e.At != "" && from.clients == nil {
		return Connection{}, fmt.Errorf("--at is for clients outside, and %s enters at its node", source)
	}
	where, protocol, port, err := split(target)
	if err != nil {
		return Connection{}, err
	}
	c := Connection{Protocol: protocol, Network: from.network, From: from.name}
	families, port, err := e.target(where, protocol, port, &c)
	if err != nil {
		return Connection{}, err
	}
	if port == 0 && protocol != "icmp" {
		return Connection{}, errPort(target)
	}
	c.Target, c.Asked = netip.AddrPortFrom(netip.Addr{}, port), from.name+" "+TargetText(c.To, protocol, port)
	if e.At != "" {
		c.Asked += " --at " + e.At
	}
	switch {
	case from.pod != nil:
		c, err = e.between(from.pod, from.on, families, c)
	case from.host != nil:
		c.Before = from.before
		c, err = e.fromHost(from.host, families, c)
	default:
		c, err = exposed{e, from.clients}.reach(families, c)
	}
	c.Pods = podSubnets(e.Nodes)
	return c, err
}

// sender is a source: a pod with its network, a host, or the addresses of clients outside, one for each family.
type sender struct {
	name    string
	pod     *corev1.Pod
	on      *contract.PodNetwork
	network string
	host    *host
	before  []Step
	clients []netip.Addr
}

// source reads a source.
func (e Ends) source(text string) (sender, error) {
	kind, name, _ := strings.Cut(text, "/")
	switch kind {
	case Outside:
		clients, err := clientsOf(name)
		return sender{name: text, clients: clients}, err
	case "node":
		h, err := hostNamed(name, e.Nodes)
		return sender{name: text, host: h}, err
	case "pod":
	default:
		return sender{}, errSource(text)
	}
	pod, err := e.pod(text)
	if err != nil {
		return sender{}, err
	}
	of := sender{name: "pod/" + pod.Namespace + "/" + pod.Name, pod: pod}
	if pod.Spec.HostNetwork {
		h, err := hostNamed(pod.Spec.NodeName, e.Nodes)
		before := []Step{{Where: of.name, What: "has the network of its node"}}
		return sender{name: "node/" + pod.Spec.NodeName, host: h, before: before}, err
	}
	of.network, of.on, err = networkOf(pod)
	return of, err
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
		if kind, name, _ := strings.Cut(text, "/"); kind == "pod" || kind == "svc" {
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

// Hosts are the nodes at the ends of a connection.
func Hosts(source, target string) (names []string) {
	where, _, _, err := split(target)
	if err != nil {
		where = target
	}
	for _, text := range []string{source, where} {
		if name, ok := strings.CutPrefix(text, "node/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// between chooses a family that both ends have.
func (e Ends) between(pod *corev1.Pod, network *contract.PodNetwork, targets []netip.Addr, c Connection) (Connection, error) {
	if h, err := hostNamed(pod.Spec.NodeName, e.Nodes); err == nil {
		c.Entry = h.entry()
	}
	c.Switch, c.MAC = contract.Network{}.NodeSwitch(pod.Spec.NodeName), network.MAC
	c.Port = contract.Network{}.PodPort(pod.Namespace, pod.Name)
	for _, to := range targets {
		for i, own := range network.Addresses {
			if own.Addr().Is4() != to.Is4() || i >= len(network.Gateways) {
				continue
			}
			c.Source, c.Target = own.Addr(), netip.AddrPortFrom(to, c.Target.Port())
			c.NextHop = contract.MACFromAddress(network.Gateways[0]) // the router has one for both families
			c.Balanced = c.Network == "" && isBalanced(to, c.Entry, e.Services)
			if own.Masked().Contains(to) {
				c.NextHop = macOf(to, c.NextHop, e.Pods)
			}
			return c, nil
		}
	}
	return c, errFamily
}

// macOf is that of the pod with an address.
func macOf(addr netip.Addr, otherwise contract.MAC, pods []corev1.Pod) contract.MAC {
	for i := range pods {
		network, err := contract.ParsePodNetwork(pods[i].Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
		if err != nil || network == nil {
			continue
		}
		if slices.ContainsFunc(network.Addresses, func(p netip.Prefix) bool { return p.Addr() == addr }) {
			return network.MAC
		}
	}
	return otherwise
}
