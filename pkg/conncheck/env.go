package conncheck

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// Addresses are those of an object by family.
type Addresses map[int]netip.Addr

// Env is what the table's names are in a cluster.
type Env struct {
	Pods, Nodes, Services map[string]Addresses
	// NodePorts are those of services by protocol.
	NodePorts map[string]map[string]int
	// API is the Service of the API server.
	API     Addresses
	APIPort int
}

// NewEnv reads the addresses of the test's objects. The nodes are node-a and node-b.
func NewEnv(pods []corev1.Pod, services []corev1.Service, a, b corev1.Node, api corev1.Service) Env {
	env := Env{
		Pods: map[string]Addresses{}, Services: map[string]Addresses{}, NodePorts: map[string]map[string]int{},
		Nodes: map[string]Addresses{"node-a": nodeAddresses(a), "node-b": nodeAddresses(b)},
		API:   addresses(api.Spec.ClusterIPs...),
	}
	for _, port := range api.Spec.Ports {
		env.APIPort = int(port.Port)
	}
	for _, p := range pods {
		env.Pods[p.Name] = Addresses{}
		for _, ip := range p.Status.PodIPs {
			env.Pods[p.Name].add(ip.IP)
		}
	}
	for _, s := range services {
		env.Services[s.Name], env.NodePorts[s.Name] = addresses(s.Spec.ClusterIPs...), map[string]int{}
		for _, port := range s.Spec.Ports {
			env.NodePorts[s.Name][port.Name] = int(port.NodePort)
		}
	}
	return env
}

func addresses(texts ...string) Addresses {
	found := Addresses{}
	for _, text := range texts {
		found.add(text)
	}
	return found
}

func (a Addresses) add(text string) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil: // None
	case addr.Is4():
		a[4] = addr
	default:
		a[6] = addr
	}
}

func nodeAddresses(n corev1.Node) Addresses {
	found := Addresses{}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			found.add(a.Address)
		}
	}
	return found
}

// Question finds host and port of a case. The second result says why the cluster cannot be asked.
func (env Env) Question(c Case) (probe.Question, string) {
	kind, name, _ := strings.Cut(c.To, "/")
	if !env.podsHave(c.Family) {
		return probe.Question{}, fmt.Sprintf("pods have no IPv%d", c.Family)
	}
	var of Addresses
	port := servicePort
	switch kind {
	case "name":
		return c.question(name, env.namePort(name)), ""
	case external:
		to := netip.MustParseAddrPort(name) // External has read it
		return c.question(to.Addr().String(), int(to.Port())), ""
	case "pod":
		of, port = env.Pods[name], probe.DefaultPort
		if strings.HasPrefix(name, "host-") {
			port = hostPort
		}
	case "svc":
		of = env.Services[name]
	case "node":
		of = env.Nodes[name] // for icmp, which has no port
	case "nodeport":
		service, node, _ := strings.Cut(name, "@")
		of, port = env.Nodes[node], env.NodePorts[service][c.Protocol]
	case "api":
		of, port = env.API, env.APIPort
	}
	addr, has := of[c.Family]
	if !has {
		return probe.Question{}, fmt.Sprintf("%s has no IPv%d", c.To, c.Family)
	}
	return c.question(addr.String(), port), ""
}

// podsHave says whether pods have a family: those in the network of their nodes have the nodes' addresses.
func (env Env) podsHave(family int) bool {
	for name, of := range env.Pods {
		if _, has := of[family]; has && !strings.HasPrefix(name, "host-") {
			return true
		}
	}
	return false
}

// namePort: the name of a headless service is its pods' addresses.
func (env Env) namePort(service string) int {
	if service == "headless" {
		return probe.DefaultPort
	}
	return servicePort
}

// ask is the command that asks.
func ask(q probe.Question) []string {
	return []string{
		"ovn-offload-agent", "probe", "ask", "--protocol=" + q.Protocol, "--host=" + q.Host, fmt.Sprintf("--family=%d", q.Family),
		fmt.Sprintf("--port=%d", q.Port), fmt.Sprintf("--size=%d", q.Size), fmt.Sprintf("--of-mtu=%t", q.OfMTU),
		fmt.Sprintf("--dont-fragment=%t", q.DontFragment), fmt.Sprintf("--times=%d", q.Times), fmt.Sprintf("--silent=%t", q.Silent),
		"--timeout=" + q.Timeout.String(), "--over=" + q.Over.String(),
	}
}
