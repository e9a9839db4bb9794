//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// tenant is a namespace with a primary network, and a server on each worker.
type tenant struct {
	ns   string
	pods []*corev1.Pod
	web  *corev1.Service
}

// tenantWith makes a namespace whose UserDefinedNetwork main has a specification.
func tenantWith(t *testing.T, spec string) tenant {
	t.Helper()
	x := tenant{ns: world.LabelledNamespace(t, map[string]string{contract.PrimaryNetworkLabel: ""})}
	if err := userDefined(t, x.ns, "main", spec); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, objectsOf(t, ovnv1.UserDefinedNetworks(), x.ns), "main", "NetworkCreated", "True")
	var objects []*corev1.Pod
	for i, node := range nodes[1:3] { // whose answers tell the network
		objects = append(objects, world.Pod(x.ns, fmt.Sprintf("server-%d-%s", i, x.ns[len(x.ns)-5:]), node, world.Behind("web")))
	}
	x.pods = world.Run(t, objects...)
	x.web = world.Service(t, x.ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	return x
}

// addresses are a pod's addresses on the primary network.
func (x tenant) addresses(t *testing.T, i int) (own []netip.Addr) {
	t.Helper()
	for _, prefix := range attachmentOf(t, x.pods[i], x.ns+"/main").Addresses {
		own = append(own, prefix.Addr())
	}
	return own
}

// echoes are the ends of a pod's server on the primary network.
func (x tenant) echoes(t *testing.T, i int) (ends []netip.AddrPort) {
	t.Helper()
	for _, addr := range x.addresses(t, i) {
		ends = append(ends, netip.AddrPortFrom(addr, world.EchoPort))
	}
	return ends
}

// served checks that a pod reaches the others of its network, its service, and the cluster's own services.
func (x tenant) served(t *testing.T, from *corev1.Pod) {
	t.Helper()
	for i := range x.pods {
		world.Reaches(t, from, true, x.echoes(t, i)...)
	}
	for _, address := range world.Frontends(x.web) {
		if !world.OfFamily(x.addresses(t, 0), netip.MustParseAddrPort(address).Addr()).IsValid() {
			continue
		}
		for _, network := range []string{"tcp", "udp"} {
			world.FromPod(from).Answered(t, network, address)
		}
	}
	world.MustInPod(t, from, "getent", "hosts", "kubernetes.default.svc.cluster.local")
	world.MustInPod(t, from, "curl", "-sk", "-m", "30", "-o", "/dev/null", "https://kubernetes.default/version")
}

// overlap is two tenants whose networks have the same subnet, the first of topology Layer3, the other of Layer2, and a
// namespace of the default network with a server and a service.
type overlap struct {
	tenants []tenant
	plain   string
	other   *corev1.Pod
	web     *corev1.Service
}

// newOverlap takes the subnets 10.NUMBER.0.0/16 and fdNUMBER::/48, or /64: networks that exist at once have different numbers.
func newOverlap(t *testing.T, number int) overlap {
	t.Helper()
	four, six := fmt.Sprintf("10.%d.0.0/16", number), fmt.Sprintf("fd%d::", number)
	layer3, layer2 := "{cidr: "+four+"}", four
	if sixes()[0] {
		layer3, layer2 = "{cidr: '"+six+"/48'}", "'"+six+"/64'"
	} else if len(sixes()) > 1 {
		layer3, layer2 = layer3+", {cidr: '"+six+"/48'}", layer2+", '"+six+"/64'"
	}
	o := overlap{plain: world.Namespace(t)}
	o.other = world.Run(t, world.Pod(o.plain, "other", nodes[2], world.Behind("web")))[0]
	o.web = world.Service(t, o.plain, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	world.ServeOutside(t)
	o.tenants = []tenant{
		tenantWith(t, "{topology: Layer3, layer3: {role: Primary, subnets: ["+layer3+"]}}"),
		tenantWith(t, "{topology: Layer2, layer2: {role: Primary, subnets: ["+layer2+"]}}"),
	}
	return o
}

// each looks at both tenants at once; the foreign one is the other of the two.
func (o overlap) each(t *testing.T, look func(t *testing.T, x, foreign tenant)) {
	t.Helper()
	world.AtOnce(t, map[string]func(*testing.T){
		"layer3": func(t *testing.T) { look(t, o.tenants[0], o.tenants[1]) },
		"layer2": func(t *testing.T) { look(t, o.tenants[1], o.tenants[0]) },
	})
}

// nodePorts checks the node ports of a tenant's service: those of the network that was there first answer, and no others.
func (o overlap) nodePorts(t *testing.T, x tenant, some []string, others ...*corev1.Pod) {
	t.Helper()
	if first := o.tenants[0]; x.ns != first.ns {
		world.FailsBeside(t, "node ports of a network with subnets of another one answer", x.anyNodePort(t, some),
			first.anyNodePort(t, some))
		return
	}
	x.nodePorts(t, some, others...)
}

// TestPrimaryNetwork_IsTheNetworkOfItsNamespace: two namespaces have a primary network each, of both topologies and with the
// same subnet. Pods reach each other, services and external hosts on their own network, and no pod of another one. The
// default network leads to the node alone.
func TestPrimaryNetwork_IsTheNetworkOfItsNamespace(t *testing.T) {
	world.Test(t, world.Primary, world.Core, tier.Pick(world.Beside, world.Disruptive), world.Strict)
	o := newOverlap(t, 58)
	o.each(t, func(t *testing.T, x, foreign tenant) {
		for _, pod := range tier.Pick(x.pods[:1], x.pods) {
			x.served(t, pod)
		}
		t.Run("external hosts see the node", x.leaves)
		t.Run("node ports answer", func(t *testing.T) { o.nodePorts(t, x, nodes[:1]) })
		t.Run("others are apart", func(t *testing.T) { x.apart(t, foreign, o.other) })
		t.Run("eth0 leads to the node alone", func(t *testing.T) { x.locked(t, o.other) })
	})
	if tier.IsFull() {
		restarted(t, o.tenants)
	}
}

// TestPrimaryNetwork_ServesAndGuardsItsPods: on two primary networks with the same subnet, node ports of all nodes, policies
// of services, addresses on request, the ports of the cluster's DNS, the ports that a pod opens, copies of EndpointSlices
// and a NetworkPolicy. Processes of nodes do not answer pods of the networks by eth0.
func TestPrimaryNetwork_ServesAndGuardsItsPods(t *testing.T) {
	world.Test(t, world.Primary, world.Strict)
	o := newOverlap(t, 55)
	o.each(t, func(t *testing.T, x, foreign tenant) {
		x.served(t, x.pods[1])
		t.Run("node ports answer", func(t *testing.T) { o.nodePorts(t, x, nodes[:3], foreign.pods[0], o.other) })
		t.Run("node ports of the default network answer", func(t *testing.T) { x.asksNodePorts(t, o.web) })
		t.Run("internalTrafficPolicy Local", x.local)
		if x.ns == o.tenants[1].ns {
			t.Run("a pod asks for its address", x.asks)
		}
		t.Run("the cluster's DNS answers at its ports alone", func(t *testing.T) { x.onlyPorts(t, o.other) })
		t.Run("processes of nodes do not answer by eth0", func(t *testing.T) { x.nodesByEth0(t, o.other) })
		t.Run("opened ports", func(t *testing.T) { x.opens(t, o.other) })
		t.Run("EndpointSlices have copies", func(t *testing.T) { x.mirrored(t, o.plain) })
		t.Run("NetworkPolicy", func(t *testing.T) {
			world.CreatePolicy(t, x.ns, "deny", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}})
			world.Reaches(t, x.pods[1], false, x.echoes(t, 0)...)
			world.MustInPod(t, x.pods[0], "curl", "-sk", "-m", "30", "-o", "/dev/null",
				"https://kubernetes.default/version") // its answers come
			world.DeletePolicy(t, x.ns, "deny")
			world.Reaches(t, x.pods[1], true, x.echoes(t, 0)...)
		})
	})
}

// leaves checks that external hosts see the node's address, in each family, because the default route is that of the network.
func (x tenant) leaves(t *testing.T) {
	a := x.pods[0]
	for _, own := range x.addresses(t, 0) {
		if route := world.MustInPod(t, a, "ip", map[bool]string{false: "-4", true: "-6"}[own.Is6()], "route", "show",
			"default"); !strings.Contains(route, "dev "+contract.PrimaryInterface) {
			t.Errorf("default route %q", route)
		}
		target := world.OfFamily(world.NodeAddresses(t, outside), own)
		node := world.OfFamily(world.NodeAddresses(t, a.Spec.NodeName), target)
		for _, network := range []string{"tcp", "udp"} {
			var seen netip.Addr
			world.Eventually(t, world.Soon, network+": the external host answers "+a.Name, func() (bool, string) {
				var err error
				seen, err = seenAs(a, network, target)
				return err == nil, fmt.Sprint(err)
			})
			if seen != node {
				t.Errorf("%s: the external host sees %v, want %v", network, seen, node)
			}
		}
	}
}

// apart checks that a pod of the default network, and pods of another network with the same subnet, have no answers of this
// network, and that the first pod has none of them.
func (x tenant) apart(t *testing.T, foreign tenant, other *corev1.Pod) {
	t.Helper()
	a := x.pods[0]
	world.Reaches(t, other, false, append(x.echoes(t, 0), world.Endpoints(a)...)...)
	world.Reaches(t, a, false, world.Endpoints(other)...)
	var ends []string
	for _, address := range world.Frontends(x.web) {
		ends = append(ends, "tcp:"+address, "udp:"+address)
	}
	for _, from := range []*corev1.Pod{other, foreign.pods[0]} {
		if got, err := world.FromPod(from).Reached(ends...); err != nil || len(got) > 0 {
			t.Errorf("%s reaches the service of the other network at %v: %v", from.Name, got, err)
		}
	}
	ends = nil
	for j := range foreign.pods { // whose address is free here, or a pod's of this network
		for _, end := range foreign.echoes(t, j) {
			ends = append(ends, "tcp:"+end.String())
		}
	}
	if got := world.MustInPod(t, a, append([]string{"probe", "count", "3", "1"}, ends...)...); strings.Contains(got,
		foreign.pods[0].Name) || strings.Contains(got, foreign.pods[1].Name) {
		t.Errorf("servers of the other network answer: %s", got)
	}
}

// mirrored checks the copies of the service's EndpointSlices: they have the pods' addresses on the network. They go with the
// service, and a service in another namespace has none.
func (x tenant) mirrored(t *testing.T, other string) {
	t.Helper()
	const byCopy, byService = "k8s.ovn.org/service-name=", discoveryv1.LabelServiceName + "="
	addresses := func(ns, selector string) (found []string) {
		list, err := cluster.client.DiscoveryV1().EndpointSlices(ns).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				found = append(found, endpoint.Addresses...)
			}
		}
		slices.Sort(found)
		return found
	}
	var want []string
	for i := range x.pods {
		for _, own := range x.addresses(t, i) {
			want = append(want, own.String())
		}
	}
	slices.Sort(want)
	world.Eventually(t, world.ServiceWithin, "copies with the addresses "+fmt.Sprint(want), func() (bool, string) {
		got := addresses(x.ns, byCopy+x.web.Name)
		return slices.Equal(got, want), fmt.Sprint(got)
	})
	name := "copied-" + x.ns
	copied := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *x.web.Spec.DeepCopy()}
	copied.Spec.ClusterIP, copied.Spec.ClusterIPs, copied.Spec.Type, copied.Spec.ExternalTrafficPolicy = corev1.ClusterIPNone, nil, "", ""
	for i := range copied.Spec.Ports {
		copied.Spec.Ports[i].NodePort = 0
	}
	for _, ns := range []string{x.ns, other} { // headless ones have copies, too
		if _, err := cluster.client.CoreV1().Services(ns).Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	world.Eventually(t, world.ServiceWithin, "copies of a headless service", func() (bool, string) {
		got := addresses(x.ns, byCopy+name)
		return slices.Equal(got, want), fmt.Sprint(got)
	})
	x.onHost(t, func(name string) []string { return addresses(x.ns, byCopy+name) })
	if got := addresses(other, byCopy+name); len(got) > 0 {
		t.Errorf("a service of a namespace without a primary network has copies: %v", got)
	}
	if err := cluster.client.CoreV1().Services(x.ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, world.ServiceWithin, "no copies without the service", func() (bool, string) {
		got := append(addresses(x.ns, byCopy+name), addresses(x.ns, byService+name)...)
		return len(got) == 0, fmt.Sprint(got)
	})
}

// onHost checks that the copies of a service with an endpoint on a node have the node's address, and that the endpoint answers
// pods of this node and of another one.
func (x tenant) onHost(t *testing.T, copies func(service string) []string) {
	t.Helper()
	host := world.Run(t, world.Pod(x.ns, "host", nodes[1], world.OnHost()))[0]
	web := world.Service(t, x.ns, func(spec *corev1.ServiceSpec) {
		spec.Selector = map[string]string{"app": host.Name}
		for i := range spec.Ports {
			spec.Ports[i].TargetPort = intstr.FromInt32(int32(world.Port(host)))
		}
	})
	var want []string
	ask := []string{"probe", "count", "1", world.Patience}
	for _, own := range x.addresses(t, 0) {
		want = append(want, world.OfFamily(world.NodeAddresses(t, nodes[1]), own).String())
		end := netip.AddrPortFrom(world.OfFamily(world.ClusterAddresses(web), own), world.ServicePort).String()
		ask = append(ask, "tcp:"+end, "udp:"+end)
	}
	slices.Sort(want)
	world.Eventually(t, world.ServiceWithin, "copies with the node's addresses "+fmt.Sprint(want), func() (bool, string) {
		got := copies(web.Name)
		return slices.Equal(got, want), fmt.Sprint(got)
	})
	for _, pod := range x.pods {
		world.Eventually(t, world.ServiceWithin, "the endpoint on a node answers "+pod.Name, func() (bool, string) {
			out, err := world.InPod(pod.Namespace, pod.Name, ask...)
			return err == nil && !strings.Contains(out, " lost "), fmt.Sprint(out, err)
		})
	}
	world.DeletePod(t, x.ns, host.Name)
	world.Eventually(t, world.ServiceWithin, "no copy and no answer without the endpoint", func() (bool, string) {
		out, err := world.InPod(x.ns, x.pods[0].Name, ask...)
		left := copies(web.Name)
		return err == nil && len(left) == 0 && strings.Count(out, " lost ") == 2*len(want), fmt.Sprint(out, left, err)
	})
}

// local checks that with the policy Local the endpoint is that of the client's node. The service web, without the policy, has
// both endpoints.
func (x tenant) local(t *testing.T) {
	t.Helper()
	both := []string{x.pods[0].Name, x.pods[1].Name}
	web := world.Service(t, x.ns, func(spec *corev1.ServiceSpec) {
		inside := corev1.ServiceInternalTrafficPolicyLocal
		spec.InternalTrafficPolicy = &inside
	})
	for i, pod := range x.pods {
		world.FromPod(pod).Finds(t, []world.Spot{{Target: "tcp:" + world.Frontends(web)[0], Servers: both[i : i+1]},
			{Target: "tcp:" + world.Frontends(x.web)[0], Servers: both}})
	}
}

// further is another address of the subnet of a pod, /16 or /64.
func further(own netip.Addr) netip.Prefix {
	if own.Is4() {
		a := own.As4()
		a[2], a[3] = 7, 7
		return netip.PrefixFrom(netip.AddrFrom4(a), 16)
	}
	a := own.As16()
	clear(a[8:])
	a[13], a[15] = 7, 7
	return netip.PrefixFrom(netip.AddrFrom16(a), 64)
}

// asks checks that a pod has the address and the MAC that it asks for, and that a second pod does not get the address.
func (x tenant) asks(t *testing.T) {
	var texts []string
	for _, own := range x.addresses(t, 0) {
		texts = append(texts, fmt.Sprintf("%q", further(own)))
	}
	ips := strings.Join(texts, ", ")
	ask := func(name, mac string) *corev1.Pod {
		pod := world.Pod(x.ns, name, nodes[2], world.Named())
		pod.Annotations = map[string]string{contract.DefaultNetworkKey: fmt.Sprintf(`[{"name":"default","namespace":"ovn-kubernetes","ips":[%s],"mac":%q}]`, ips, mac)}
		return pod
	}
	const mac = "02:00:00:58:07:07"
	world.Create(t, ask("asked", mac))
	pod := world.Running(t, x.ns, "asked")
	network := attachmentOf(t, pod, x.ns+"/main")
	if got := network.MAC.String(); got != mac || !strings.Contains(ips, network.Addresses[0].String()) {
		t.Errorf("the pod has %s %v, asked for %s %s", got, network.Addresses, mac, ips)
	}
	for _, address := range network.Addresses {
		world.Reaches(t, x.pods[0], true, netip.AddrPortFrom(address.Addr(), world.EchoPort))
	}
	annotate := func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"[]"}}}`, key)
			_, err := cluster.client.CoreV1().Pods(x.ns).Patch(ctx, "asked", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}
	}
	refusal{
		name: "another request", with: annotate(contract.DefaultNetworkKey), without: annotate("mine"),
		message: "annotation " + contract.DefaultNetworkKey + " can be set only when a pod is created",
	}.check(t)
	world.Create(t, ask("second", "02:00:00:58:07:08"))
	refused := []string{"second"}
	if len(network.Addresses) > 1 {
		half := ask("half", "02:00:00:58:07:09")
		half.Annotations[contract.DefaultNetworkKey] = `[{"name":"default","namespace":"ovn-kubernetes","ips":["` + netip.PrefixFrom(further(x.addresses(t, 0)[0]).Addr().Next(), 16).String() + `"]}]`
		world.Create(t, half)
		wantEvent(t, x.ns, "NetworkNotFound", "half", "needs one address of each family")
		refused = append(refused, "half")
	}
	wantEvent(t, x.ns, "NetworkFailed", "second", network.Addresses[0].Addr().String())
	for _, name := range refused {
		staysPending(t, x.ns, name, "")
	}
	for _, name := range append(refused, "asked") {
		world.DeletePod(t, x.ns, name)
	}
}
