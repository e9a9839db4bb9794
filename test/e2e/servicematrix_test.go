//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// gatewayAddresses are the addresses of a node's gateway router towards the cluster. The router applies SNAT with them to
// clients of services.
func gatewayAddresses(t *testing.T, node string) []netip.Addr {
	t.Helper()
	var out []netip.Addr
	for _, text := range strings.Fields(nbctl(t, "--bare", "--columns=networks", "find", "Logical_Router_Port", "name=rtoj-GR_"+node)) {
		out = append(out, netip.MustParsePrefix(text).Addr())
	}
	return out
}

// matrix is what TestService_EachClientReachesEachAddress asks of: the addresses of the lab's machines.
type matrix struct {
	node, router map[string][]netip.Addr
}

// frontKind is which of a service's addresses an address is.
type frontKind int

const (
	atCluster frontKind = iota
	atNodePort
	atExternal
	atNothing
)

// front is an address of a service. Node is whose node port it is, or by which node
// the outside gets to an external address.
type front struct {
	kind frontKind
	node string
	at   netip.AddrPort
}

// matrixService has servers by node.
type matrixService struct {
	*corev1.Service
	servers map[string]string
	fronts  []front
}

// spot is what a client is to find at an address of a service.
func (m matrix) spot(t *testing.T, c world.Client, s matrixService, network string, f front) world.Spot {
	all := slices.Sorted(maps.Values(s.servers))
	out := world.Spot{Target: network + ":" + f.at.String()}
	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	snat := func(node string) netip.Addr { return world.OfFamily(m.router[node], f.at.Addr()) }
	fromWire := func(source []netip.Addr) world.Spot {
		if !local {
			out.Servers, out.Seen = all, snat(f.node)
		} else if own := s.servers[f.node]; own != "" {
			out.Servers, out.Seen = []string{own}, world.OfFamily(source, f.at.Addr())
		}
		return out
	}
	switch {
	case f.kind == atNothing || c.Node == "" && f.kind == atCluster:
		return out
	case c.Node == "":
		return fromWire(c.Addresses(t))
	case f.kind == atNodePort && f.node != c.Node:
		return fromWire(m.node[c.Node])
	case c.InPodNetwork:
		out.Servers, out.Seen = all, world.OfFamily(c.Addresses(t), f.at.Addr())
	case f.kind == atNodePort && local && s.servers[c.Node] == "":
		out.Servers, out.Seen = all, world.OfFamily(m.node[c.Node], f.at.Addr())
	default:
		out.Servers, out.Seen = all, snat(c.Node)
	}
	return out
}

// matrixServices are one of each policy with one endpoint and with one on each node.
func matrixServices(t *testing.T, m matrix) []matrixService {
	t.Helper()
	ns := world.Namespace(t)
	three := map[string]string{}
	for i, pod := range world.RunOnEachNode(t, ns, "server-", world.Behind("web")) {
		three[pod.Spec.NodeName] = pod.Name
		if i == 1 {
			world.LabelPod(t, pod, `{"one":"yes"}`)
		}
	}
	var out []matrixService
	for _, policy := range []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal} {
		for selector, servers := range map[string]map[string]string{"app=web": three, "one=yes": {nodes[1]: three[nodes[1]]}} {
			key, value, _ := strings.Cut(selector, "=")
			given := m.externalFronts(len(out))
			web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
				spec.Type, spec.ExternalTrafficPolicy, spec.Selector = corev1.ServiceTypeLoadBalancer, policy, map[string]string{key: value}
				for _, f := range given[:len(given)/2] {
					spec.ExternalIPs = append(spec.ExternalIPs, f.at.Addr().String())
				}
			})
			var ingress []string
			for _, f := range given[len(given)/2:] {
				ingress = append(ingress, f.at.Addr().String())
			}
			out = append(out, matrixService{world.GiveAddresses(t, web, ingress...), servers, append(m.fronts(web), given...)})
		}
	}
	return out
}

// externalFronts are a service's addresses for each node to be reached by and each
// family, external ones and then as many that a load balancer gives.
func (m matrix) externalFronts(nth int) []front {
	var out []front
	for _, kind := range []int{0, 1} {
		for i, node := range nodes {
			for _, addr := range m.node[node] {
				given := fmt.Sprintf("198.51.100.%d", 100+nth*10+kind*5+i)
				if addr.Is6() {
					given = fmt.Sprintf("2001:db8:51::%d", 100+nth*10+kind*5+i)
				}
				out = append(out, front{atExternal, node, netip.AddrPortFrom(netip.MustParseAddr(given), world.ServicePort)})
			}
		}
	}
	return out
}

// fronts are the other addresses, each with an unused port beside it.
func (m matrix) fronts(web *corev1.Service) []front {
	var out []front
	for _, addr := range world.ClusterAddresses(web) {
		out = append(out, front{atCluster, "", netip.AddrPortFrom(addr, world.ServicePort)},
			front{atNothing, "", netip.AddrPortFrom(addr, world.ServicePort+1)})
	}
	for _, node := range nodes {
		for _, addr := range m.node[node] {
			out = append(out, front{atNodePort, node, netip.AddrPortFrom(addr, uint16(web.Spec.Ports[0].NodePort))}, front{atNothing, node, netip.AddrPortFrom(addr, 29999)})
		}
	}
	return out
}

// TestService_EachClientReachesEachAddress: the clients are pods and host-network pods, on the node with the only endpoint
// and on another node, and an external client by each node. They connect to services of each policy with one endpoint and
// with three, at all addresses, in each family and protocol. Exactly the expected endpoints answer, with the expected
// source. There is no answer at an unused port, for Local at a node without endpoints, and when the services are deleted.
func TestService_EachClientReachesEachAddress(t *testing.T) {
	world.Test(t, world.Services, world.Disruptive)
	tier.Full(t, "it is the matrix of what the other tests of services show")
	m := matrix{node: map[string][]netip.Addr{}, router: map[string][]netip.Addr{}}
	for _, node := range nodes {
		m.node[node], m.router[node] = world.NodeAddresses(t, node), gatewayAddresses(t, node)
	}
	services := matrixServices(t, m)
	ns := services[0].Namespace
	clients := []world.Client{world.FromNode(outside)}
	var pods []*corev1.Pod
	for _, node := range nodes[1:] {
		pods = append(pods, world.Pod(ns, "pod-"+node, node), world.Pod(ns, "host-"+node, node, world.OnHost()))
		clients = append(clients, world.FromNode(node))
	}
	for _, pod := range world.Run(t, pods...) {
		clients = append(clients, world.FromPod(pod))
	}
	for _, s := range services {
		for _, f := range s.fronts {
			if f.kind == atExternal {
				world.RouteOutside(t, f.at.Addr().String(), world.OfFamily(m.node[f.node], f.at.Addr()))
			}
		}
	}
	spots := func(c world.Client) []world.Spot {
		var out []world.Spot
		for _, s := range services {
			for _, f := range s.fronts {
				for _, port := range s.Spec.Ports {
					if f.kind == atNodePort {
						f.at = netip.AddrPortFrom(f.at.Addr(), uint16(port.NodePort))
					}
					out = append(out, m.spot(t, c, s, strings.ToLower(string(port.Protocol)), f))
				}
			}
		}
		return out
	}
	for _, c := range clients {
		t.Run(c.Name, func(t *testing.T) { c.Finds(t, spots(c)) })
	}
	for _, s := range services {
		world.DeleteService(t, ns, s.Name)
	}
	for _, c := range clients {
		gone := spots(c)
		for i := range gone {
			gone[i].Servers = nil
		}
		world.Eventually(t, world.ServiceWithin, c.Name+" gets no answer", func() (bool, string) {
			wrong := world.Mismatches(c, 1, true, gone)
			return wrong == "", wrong
		})
	}
}
