//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// client asks, from a pod (pod), from a node's own network (node alone) or outside.
type client struct {
	name, node string
	pod        bool
	own        []netip.Addr // sources that a destination sees without SNAT
	run        func(command ...string) (string, error)
}

func podClient(t *testing.T, pod *corev1.Pod) client {
	t.Helper()
	c := client{name: pod.Name, node: pod.Spec.NodeName, pod: !pod.Spec.HostNetwork, own: addresses(t, pod)}
	c.run = func(command ...string) (string, error) { return inPod(pod.Namespace, pod.Name, command...) }
	return c
}

func machineClient(t *testing.T, machine string) client {
	t.Helper()
	c := client{name: "on-" + machine, node: machine, own: machineAddresses(t, machine)}
	if machine == outside {
		c.name, c.node = outside, ""
	}
	c.run = func(command ...string) (string, error) { return onNode(machine, command...) }
	return c
}

// counted is who answered a target, and how often; without a server, what became of
// those who got no answer.
type counted map[answer]int

// count asks targets, each as often, all at once, and waits seconds for an answer.
func (c client) count(times, seconds int, targets []string) (map[string]counted, error) {
	out, err := c.run(append([]string{"probe", "count", fmt.Sprint(times), fmt.Sprint(seconds)}, targets...)...)
	all := map[string]counted{}
	for line := range strings.Lines(out) {
		target, rest, _ := strings.Cut(line, " ")
		times, said, _ := strings.Cut(strings.TrimSpace(rest), " ")
		n, err := strconv.Atoi(times)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		got := answer{seen: said}
		if !strings.HasPrefix(said, "lost ") {
			if got, err = readAnswer(said, nil); err != nil {
				return nil, err
			}
		}
		if all[target] == nil {
			all[target] = counted{}
		}
		all[target][got] += n
	}
	return all, err
}

// spot is a target with those who are to answer there, none for silence, and the
// address that they are to see; the zero one: any.
type spot struct {
	target  string
	servers []string
	seen    netip.Addr
}

// wrong says what is not as it is to be of so many answers; some servers may be
// missing where so few have asked.
func (s spot) wrong(got counted, times int, some bool) string {
	servers := map[string]bool{}
	n := 0
	for answer, times := range got {
		if answer.server == "" {
			continue
		}
		servers[answer.server] = true
		n += times
		if s.seen.IsValid() && answer.seen != s.seen.String() || !slices.Contains(s.servers, answer.server) {
			return fmt.Sprintf("%s: %v; want %v, who see %v", s.target, got, s.servers, s.seen)
		}
	}
	if len(s.servers) > 0 && n < times || !some && len(servers) < len(s.servers) {
		return fmt.Sprintf("%s, asked %d times: %v; want %v", s.target, times, got, s.servers)
	}
	return ""
}

// patient is the seconds in which a first packet that a busy machine has lost is
// repeated by TCP twice, after one and three.
const patient = 4

// look asks all spots so many times each: once again and again until all is well, or
// patiently.
func (c client) look(times int, some bool, spots []spot) string {
	var targets, wrong []string
	for _, s := range spots {
		targets = append(targets, s.target)
	}
	patience := 1
	if !some {
		patience = patient
	}
	got, err := c.count(times, patience, targets)
	if err != nil {
		return err.Error()
	}
	for _, s := range spots {
		if w := s.wrong(got[s.target], times, some); w != "" {
			wrong = append(wrong, w)
		}
	}
	return strings.Join(wrong, "\n")
}

// oftenEnough: of three servers one is missing by chance once in four million.
const oftenEnough = 40

// finds waits until all spots are as they are to be, and then wants each server at
// those of several, and no loss.
func (c client) finds(t *testing.T, spots []spot) {
	t.Helper()
	eventually(t, serviceWithin, c.name+" finds services as they are to be", func() (bool, string) {
		wrong := c.look(1, true, spots)
		return wrong == "", wrong
	})
	groups := map[int][]spot{} // by how many servers, as far as it matters
	for _, s := range spots {
		n := min(len(s.servers), 2)
		groups[n] = append(groups[n], s)
	}
	for n, spots := range groups {
		if wrong := c.look([]int{2, 2, oftenEnough}[n], n == 0, spots); wrong != "" {
			t.Errorf("%s finds\n%s", c.name, wrong)
		}
	}
}

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
func (m matrix) spot(c client, s matrixService, network string, f front) spot {
	all := slices.Sorted(maps.Values(s.servers))
	out := spot{target: network + ":" + f.at.String()}
	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	snat := func(node string) netip.Addr { return ofFamily(m.router[node], f.at.Addr()) }
	fromWire := func(source []netip.Addr) spot {
		if !local {
			out.servers, out.seen = all, snat(f.node)
		} else if own := s.servers[f.node]; own != "" {
			out.servers, out.seen = []string{own}, ofFamily(source, f.at.Addr())
		}
		return out
	}
	switch {
	case f.kind == atNothing || c.node == "" && f.kind == atCluster:
		return out
	case c.node == "":
		return fromWire(c.own)
	case f.kind == atNodePort && f.node != c.node:
		return fromWire(m.node[c.node])
	case c.pod:
		out.servers, out.seen = all, ofFamily(c.own, f.at.Addr())
	case f.kind == atNodePort && local && s.servers[c.node] == "":
		out.servers, out.seen = all, ofFamily(m.node[c.node], f.at.Addr())
	default:
		out.servers, out.seen = all, snat(c.node)
	}
	return out
}

// matrixServices are one of each policy with one endpoint and with one on each node.
func matrixServices(t *testing.T, m matrix) []matrixService {
	t.Helper()
	ns := namespace(t)
	three := map[string]string{}
	for i, node := range nodes {
		three[node] = fmt.Sprintf("server-%d", i)
		pod := server(t, ns, three[node], node)
		if i == 1 {
			label(t, pod, `{"one":"yes"}`)
		}
	}
	var out []matrixService
	for _, policy := range []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal} {
		for selector, servers := range map[string]map[string]string{"app=web": three, "one=yes": {nodes[1]: "server-1"}} {
			key, value, _ := strings.Cut(selector, "=")
			given := m.externalFronts(len(out))
			web := service(t, ns, func(spec *corev1.ServiceSpec) {
				spec.Type, spec.ExternalTrafficPolicy, spec.Selector = corev1.ServiceTypeLoadBalancer, policy, map[string]string{key: value}
				for _, f := range given[:len(given)/2] {
					spec.ExternalIPs = append(spec.ExternalIPs, f.at.Addr().String())
				}
			})
			var ingress []string
			for _, f := range given[len(given)/2:] {
				ingress = append(ingress, f.at.Addr().String())
			}
			out = append(out, matrixService{giveAddresses(t, web, ingress...), servers, append(m.fronts(web), given...)})
		}
	}
	return out
}

// giveAddresses is what a load balancer does.
func giveAddresses(t *testing.T, service *corev1.Service, addrs ...string) *corev1.Service {
	t.Helper()
	for _, addr := range addrs {
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: addr})
	}
	made, err := cluster.client.CoreV1().Services(service.Namespace).UpdateStatus(t.Context(), service, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
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
				out = append(out, front{atExternal, node, netip.AddrPortFrom(netip.MustParseAddr(given), servicePort)})
			}
		}
	}
	return out
}

// fronts are the other addresses, each with an unused port beside it.
func (m matrix) fronts(web *corev1.Service) []front {
	var out []front
	for _, addr := range clusterAddresses(web) {
		out = append(out, front{atCluster, "", netip.AddrPortFrom(addr, servicePort)}, front{atNothing, "", netip.AddrPortFrom(addr, servicePort+1)})
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
		m.node[node], m.router[node] = machineAddresses(t, node), gatewayAddresses(t, node)
	}
	services := matrixServices(t, m)
	ns := services[0].Namespace
	clients := []client{machineClient(t, outside)}
	for _, node := range nodes[1:] {
		clients = append(clients, podClient(t, running(t, ns, "pod-"+node, node)),
			machineClient(t, node), podClient(t, hostPod(t, ns, "host-"+node, node)))
	}
	for _, s := range services {
		for _, f := range s.fronts {
			if f.kind == atExternal {
				routeOutside(t, f.at.Addr().String(), ofFamily(m.node[f.node], f.at.Addr()))
			}
		}
	}
	spots := func(c client) []spot {
		var out []spot
		for _, s := range services {
			for _, f := range s.fronts {
				for _, port := range s.Spec.Ports {
					if f.kind == atNodePort {
						f.at = netip.AddrPortFrom(f.at.Addr(), uint16(port.NodePort))
					}
					out = append(out, m.spot(c, s, strings.ToLower(string(port.Protocol)), f))
				}
			}
		}
		return out
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) { c.finds(t, spots(c)) })
	}
	for _, s := range services {
		deleteService(t, ns, s.Name)
	}
	for _, c := range clients {
		gone := spots(c)
		for i := range gone {
			gone[i].servers = nil
		}
		eventually(t, serviceWithin, c.name+" gets no answer", func() (bool, string) {
			wrong := c.look(1, true, gone)
			return wrong == "", wrong
		})
	}
}
