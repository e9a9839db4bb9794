//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// trace tells the way of the first packet of a pod's TCP connection by the logical
// flows that northd has made. The pod sends it to the MAC address hop.
func trace(t *testing.T, from *corev1.Pod, hop contract.MAC, target netip.AddrPort) string {
	t.Helper()
	source, family := ofFamily(addresses(t, from), target.Addr()), "ip4"
	if source.Is6() {
		family = "ip6"
	}
	microflow := fmt.Sprintf("inport == %q && eth.src == %s && eth.dst == %s && ip.ttl == 64 && %[4]s.src == %[5]s && %[4]s.dst == %[6]s && tcp.src == 40000 && tcp.dst == %[7]d",
		contract.Network{}.PodPort(from.Namespace, from.Name), podNetwork(t, from).MAC, hop, family, source, target.Addr(), target.Port())
	// that of the image: another version does not know the stages of this northd
	command := []string{"exec", "-n", system, "deploy/ovnkube-master", "-c", "ovn-northd", "--", "ovn-trace", "--db=unix:/run/ovn/ovnsb_db.sock", "-vconsole:off"}
	for range 8 { // for each time that conntrack is asked; then it would be an old connection
		command = append(command, "--ct=new")
	}
	out, err := kubectl(t, "", append(command, from.Spec.NodeName, microflow)...)
	if err != nil || !strings.Contains(out, "ingress(dp=") {
		t.Fatalf("trace of %s: %v: %s", microflow, err, out)
	}
	return out
}

func podNetwork(t *testing.T, pod *corev1.Pod) *contract.PodNetwork {
	t.Helper()
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], "default")
	if err != nil || network == nil {
		t.Fatalf("network of %s: %v, %v", pod.Name, network, err)
	}
	return network
}

// traceOut is a trace to what is not on the pod's switch.
func traceOut(t *testing.T, from *corev1.Pod, target netip.AddrPort) string {
	t.Helper()
	return trace(t, from, contract.MACFromAddress(podNetwork(t, from).Gateways[0]), target)
}

// tracePod is a trace to an address of another pod.
func tracePod(t *testing.T, from, to *corev1.Pod, target netip.AddrPort) string {
	t.Helper()
	if from.Spec.NodeName == to.Spec.NodeName {
		return trace(t, from, podNetwork(t, to).MAC, target)
	}
	return traceOut(t, from, target)
}

// outputTo is what a trace says that reaches a pod's port.
func outputTo(pod *corev1.Pod) string {
	return fmt.Sprintf("output to %q,", contract.Network{}.PodPort(pod.Namespace, pod.Name))
}

// TestTrace_PoliciesAllowAndDrop: the trace names the policy that allows or drops a packet to a pod, from pods on its node
// and on another node.
func TestTrace_PoliciesAllowAndDrop(t *testing.T) {
	world.Test(t, world.Policies)
	ns := namespace(t)
	to := running(t, ns, "to", nodes[1])
	sources := []*corev1.Pod{running(t, ns, "near", nodes[1]), running(t, ns, "far", nodes[2])}
	type policy struct {
		policy string
		lets   []string
	}
	all := []policy{{"", []string{"near", "far"}}, {"far", []string{"far"}}, {"no-pod", nil}, {"near", []string{"near"}}, {"", []string{"near", "far"}}}
	for _, tc := range tier.Pick(all[:2], all) {
		if tc.policy != "" {
			createPolicy(t, ns, tc.policy, allowIngress(to.Name, tc.lets...))
		}
		look := func() (bool, string) {
			return traced(t, to, sources, tc.lets, contract.NetworkPolicyOwner(ns, tc.policy))
		}
		eventually(t, policyWithin, fmt.Sprintf("with policy %q traces from %q reach the pod", tc.policy, tc.lets), look)
		if ok, seen := look(); !ok { // not all were traced at one time
			t.Errorf("with policy %q: %s", tc.policy, seen)
		}
		if tc.policy != "" {
			deletePolicy(t, ns, tc.policy)
		}
	}
}

// traced tells whether traces from the sources that a policy lets in reach a pod,
// and the others end at the policy's last rule, that of all that comes to its pods.
func traced(t *testing.T, to *corev1.Pod, sources []*corev1.Pod, lets []string, policy contract.Owner) (bool, string) {
	t.Helper()
	last := "(outport == @" + acl.PolicyGroup(policy) + ")"
	for _, from := range sources {
		want := slices.Contains(lets, from.Name)
		for _, target := range echoTargets(t, to) {
			out := tracePod(t, from, to, target)
			if strings.Contains(out, outputTo(to)) != want || strings.Contains(out, last) == want {
				return false, fmt.Sprintf("from %s, let in: %t: %s", from.Name, want, out)
			}
		}
	}
	return true, ""
}

// tracedService is a service with a TCP port for the pods with a label.
func tracedService(t *testing.T, ns, app string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	return service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Selector, spec.Ports = map[string]string{"app": app}, spec.Ports[:1]
		if change != nil {
			change(spec)
		}
	})
}

// TestTrace_ServicesLeadToEndpoints: a service's address leads by its load balancer, which is that
// of the pod's switch, to its endpoints, and where there is none to a reset; when
// the service is gone its address leads by no load balancer and to none of them.
// The option --lb-dst is of no use: it translates the packet before a load balancer
// has seen it.
func TestTrace_ServicesLeadToEndpoints(t *testing.T) {
	world.Test(t, world.Services)
	ns := namespace(t)
	from, near, far := running(t, ns, "from", nodes[1]), running(t, ns, "near", nodes[1]), running(t, ns, "far", nodes[2])
	servers := []*corev1.Pod{server(t, ns, "server-0", nodes[1]), server(t, ns, "server-1", nodes[2])}
	backends := regexp.MustCompile(`ls_in_lb .*\n(?:.*\n){2} *ct_lb_mark\(backends=([^);]*)`)
	type led struct {
		app       string
		endpoints []*corev1.Pod
	}
	all := []led{{"web", servers}, {"none", nil}, {"near", []*corev1.Pod{near}}, {"far", []*corev1.Pod{far}}}
	for _, tc := range tier.Pick(all[:2], all) {
		web := tracedService(t, ns, tc.app, nil)
		for _, address := range frontends(web) {
			target := netip.MustParseAddrPort(address)
			wanted := wantedBackends(t, tc.endpoints, target.Addr())
			eventually(t, serviceWithin, fmt.Sprintf("%s leads to %v", address, wanted), func() (bool, string) {
				out := traceOut(t, from, target)
				var got []string
				if match := backends.FindStringSubmatch(out); match != nil {
					got = strings.Split(match[1], ",")
					slices.Sort(got)
				}
				reset := strings.Contains(out, "tcp_reset") && strings.Contains(out, outputTo(from))
				return slices.Equal(got, wanted) && reset == (len(wanted) == 0), out
			})
			for _, pod := range tc.endpoints {
				eventually(t, serviceWithin, address+" is led to "+pod.Name, func() (bool, string) {
					out := traceOut(t, from, target)
					return strings.Contains(out, outputTo(pod)), out
				})
			}
		}
		deleteService(t, ns, web.Name)
		for _, address := range frontends(web) {
			eventually(t, serviceWithin, address+" leads by no load balancer", func() (bool, string) {
				out := traceOut(t, from, netip.MustParseAddrPort(address))
				leads := strings.Contains(out, "backends=") || strings.Contains(out, "tcp_reset") || strings.Contains(out, `output to "`+ns+"_")
				return !leads && strings.Contains(out, fmt.Sprintf(`output to "breth0_%s"`, nodes[1])), out
			})
		}
	}
}

func wantedBackends(t *testing.T, endpoints []*corev1.Pod, like netip.Addr) (all []string) {
	t.Helper()
	for _, pod := range endpoints {
		all = append(all, netip.AddrPortFrom(ofFamily(addresses(t, pod), like), echoPort).String())
	}
	slices.Sort(all)
	return all
}

// TestTrace_SNATToOutsideOnly: on its way outside a packet takes the node's address in the
// gateway router of its pod's node; on its way to a pod of another node it meets
// no gateway router and keeps its own.
func TestTrace_SNATToOutsideOnly(t *testing.T) {
	world.Test(t, world.Policies)
	ns := namespace(t)
	pods := []*corev1.Pod{running(t, ns, "one", nodes[1]), running(t, ns, "other", nodes[2])}
	for i, from := range pods {
		node, other := from.Spec.NodeName, pods[1-i]
		for _, target := range echoTargets(t, other) {
			address := ofFamily(machineAddresses(t, node), target.Addr())
			snat := fmt.Sprintf("ct_snat(ip4.src=%s)", address)
			if address.Is6() {
				snat = fmt.Sprintf("ct_snat(ip6.src=%s)", address)
			}
			exit := netip.AddrPortFrom(ofFamily(machineAddresses(t, outside), target.Addr()), outsidePort)
			router := contract.Network{}.GatewayRouter(node)
			eventually(t, soon, fmt.Sprintf("from %s to %s: %s in %s, then the wire", from.Name, exit, snat, router), func() (bool, string) {
				out := traceOut(t, from, exit)
				_, after, found := strings.Cut(out, fmt.Sprintf("ingress(dp=%q,", router))
				_, after, translated := strings.Cut(after, snat)
				return found && translated && strings.Contains(after, fmt.Sprintf(`output to "breth0_%s"`, node)), out
			})
			eventually(t, soon, fmt.Sprintf("from %s to %s: no gateway router and no translation", from.Name, target), func() (bool, string) {
				out := tracePod(t, from, other, target)
				return !strings.Contains(out, "ct_snat") && !strings.Contains(out, `dp="GR_`) && strings.Contains(out, outputTo(other)), out
			})
		}
	}
}

// TestService_ClusterIPIsFourLogicalFlows: a cluster address with one port is four rows of logical
// flows, two for the switches of all nodes and two for all gateway routers.
func TestService_ClusterIPIsFourLogicalFlows(t *testing.T) {
	world.Test(t, world.Services)
	ns := namespace(t)
	server(t, ns, "server", nodes[2])
	web := tracedService(t, ns, "web", nil)
	want := []string{"lr_in_defrag", "lr_in_dnat", "ls_in_lb", "ls_in_pre_stateful"}
	for _, address := range frontends(web) {
		vip := netip.MustParseAddrPort(address).Addr()
		eventually(t, serviceWithin, fmt.Sprintf("%s is in %v, each for %d nodes or more", vip, want, len(nodes)), func() (bool, string) {
			rows, out := flowRows(t, vip)
			var stages []string
			for row, datapaths := range rows {
				stages = append(stages, row.stage)
				if datapaths < len(nodes) {
					return false, out
				}
			}
			slices.Sort(stages)
			return slices.Equal(stages, want), out
		})
	}
	if rows, out := flowRows(t, netip.MustParseAddr("192.0.2.200")); len(rows) > 0 {
		t.Errorf("rows of an address that no service has: %s", out)
	}
}

// TestNodePort_IsOneFrontend: with a variable, of which each node has a value of its
// own. With affinity, the control, it is one for each node.
func TestNodePort_IsOneFrontend(t *testing.T) {
	world.Test(t, world.Services)
	ns := namespace(t)
	server(t, ns, "server", nodes[2])
	for _, affinity := range []bool{false, true} {
		web := tracedService(t, ns, "web", func(spec *corev1.ServiceSpec) {
			spec.Type = corev1.ServiceTypeNodePort
			if affinity {
				sticky(spec, 600)
			}
		})
		port := fmt.Sprint(":", web.Spec.Ports[0].NodePort)
		want := []string{"^NODEIP_IPv4_0" + port}
		if affinity {
			want = nil
			for _, node := range nodes {
				want = append(want, nodeAddress(t, node).String()+port)
			}
			slices.Sort(want)
		}
		eventually(t, serviceWithin, fmt.Sprintf("%s answers at %v", web.Name, want), func() (bool, string) {
			got := nodePortFrontends(t, web, port)
			return slices.Equal(got, want), fmt.Sprint(got)
		})
	}
	for _, node := range nodes {
		chassis := strings.Trim(strings.TrimSpace(mustOnNode(t, node, "ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:system-id")), `"`)
		values := strings.Fields(nbctl(t, "--bare", "--columns=variables", "find", "Chassis_Template_Var", "chassis="+chassis))
		if value := "NODEIP_IPv4_0=" + nodeAddress(t, node).String(); !slices.Contains(values, value) {
			t.Errorf("%s: want %s among %q", node, value, values)
		}
	}
}

type flowRow struct{ stage, uuid string }

// flowRows are the rows of logical flows that match an address as the destination,
// and how many switches or routers each is of.
func flowRows(t *testing.T, address netip.Addr) (rows map[flowRow]int, out string) {
	t.Helper()
	rows = map[flowRow]int{}
	match := regexp.MustCompile(`dst == ` + regexp.QuoteMeta(address.String()) + `[ )]`)
	line := regexp.MustCompile(`uuid=(\S+), table=\d+ *\((\S+) *\)`)
	for text := range strings.Lines(mustOnNode(t, nodes[0], "ovn-sbctl", "--timeout=60", "--uuid", "lflow-list")) {
		if fields := line.FindStringSubmatch(text); fields != nil && match.MatchString(text) {
			rows[flowRow{stage: fields[2], uuid: fields[1]}]++
			out += text
		}
	}
	return rows, out
}

// nodePortFrontends are the IPv4 frontends of a service's load balancers at a port.
func nodePortFrontends(t *testing.T, service *corev1.Service, port string) (all []string) {
	t.Helper()
	for _, field := range strings.Fields(vipsOf(t, service)) {
		frontend, _, _ := strings.Cut(field, "=")
		six := strings.HasPrefix(frontend, "[") || strings.HasPrefix(frontend, "^NODEIP_IPv6_")
		if strings.HasSuffix(frontend, port) && !six {
			all = append(all, frontend)
		}
	}
	slices.Sort(all)
	return all
}
