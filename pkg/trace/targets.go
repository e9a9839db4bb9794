package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

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

// TargetText is the target that split reads.
func TargetText(where, protocol string, port uint16) string {
	if strings.Contains(where, ":") { // an address of IPv6
		where = "[" + where + "]"
	}
	if port != 0 && protocol != "icmp" {
		where += fmt.Sprintf(":%d", port)
	}
	return where + "/" + protocol
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
	if name, ok := strings.CutPrefix(where, "node/"); ok {
		h, err := hostNamed(name, e.Nodes)
		if err != nil {
			return nil, 0, err
		}
		c.To = where
		return h.addresses(), port, nil
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
		return nil, errTarget(text)
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
