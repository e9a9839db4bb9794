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
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// nodePortService is a service of both protocols in every family of the lab, in
// front of the pods with a label app.
func nodePortService(t *testing.T, ns, app string, port int32) *corev1.Service {
	t.Helper()
	families := corev1.IPFamilyPolicyPreferDualStack
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &families, Selector: map[string]string{"app": app},
	}}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: strings.ToLower(string(protocol)), Protocol: protocol, Port: port})
	}
	made, err := cluster.client.CoreV1().Services(ns).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestNode_ReachesServicesAndNodePorts: every node reaches a service at its own address and at
// the node ports of all nodes, itself included, whether a pod of this node, of
// another, or the node itself is behind it; so does the outside at the node ports.
// A service that has lost its pod refuses both, at once.
func TestNode_ReachesServicesAndNodePorts(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	services := map[string]*corev1.Service{}
	world.Run(t, world.Pod(ns, "pod", nodes[1]))
	services["pod"] = nodePortService(t, ns, "pod", world.EchoPort)
	services["host"] = nodePortService(t, ns, "host",
		int32(world.Port(world.Run(t, world.Pod(ns, "host", nodes[1], world.OnHost()))[0])))
	atNodes, atService := map[string][]string{}, map[string][]string{} // by protocol
	for _, service := range services {
		for _, port := range service.Spec.Ports {
			network := strings.ToLower(string(port.Protocol))
			for _, ip := range world.ClusterAddresses(service) {
				atService[network] = append(atService[network], netip.AddrPortFrom(ip, uint16(port.Port)).String())
				for _, node := range nodes {
					atNodes[network] = append(atNodes[network],
						netip.AddrPortFrom(world.OfFamily(world.NodeAddresses(t, node), ip), uint16(port.NodePort)).String())
				}
			}
		}
	}
	for _, network := range []string{"tcp", "udp"} {
		for _, from := range nodes {
			reachesAll(t, from, network, slices.Concat(atNodes[network], atService[network])...)
		}
		reachesAll(t, outside, network, atNodes[network]...)
	}
	zero := int64(0)
	if err := cluster.client.CoreV1().Pods(ns).Delete(t.Context(), "pod", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	service := services["pod"]
	own := netip.AddrPortFrom(netip.MustParseAddr(service.Spec.ClusterIP), uint16(world.EchoPort)).String()
	at := netip.AddrPortFrom(world.OfFamily(world.NodeAddresses(t, nodes[0]),
		netip.MustParseAddr(service.Spec.ClusterIP)), uint16(service.Spec.Ports[0].NodePort)).String()
	for from, target := range map[string]string{nodes[0]: own, outside: at} {
		world.Eventually(t, world.Soon, fmt.Sprintf("%s is refused %s", from, target), func() (bool, string) {
			out, err := world.OnNode(from, "probe", "dial", "tcp", target)
			return err != nil && !strings.Contains(out, "timeout"), out
		})
	}
}

// reachesAll waits until a machine has answers of all targets, each with a thousand bytes.
func reachesAll(t *testing.T, from, network string, targets ...string) {
	t.Helper()
	const script = `network=$1; shift; for to; do probe dial "$network" "$to" 1000 >/dev/null 2>&1 && echo "$to" & done; wait`
	world.Eventually(t, world.Soon, fmt.Sprintf("%s reaches %s %v", from, network, targets), func() (bool, string) {
		out, err := world.OnNode(from, append([]string{"sh", "-c", script, "sh", network}, targets...)...)
		return err == nil && len(strings.Fields(out)) == len(targets), fmt.Sprint(out, err)
	})
}

// TestService_KubernetesLeadsToAPIServer: the service kubernetes, whose endpoint is a node's
// own address, answers on each node and in a pod of each; an address beside it,
// which no service has, does not.
func TestService_KubernetesLeadsToAPIServer(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	service, err := cluster.client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr(service.Spec.ClusterIP)
	host := func(addr netip.Addr, seconds string) []string {
		return []string{"curl", "-sk", "-m", seconds, "-o", "/dev/null", "https://" + netip.AddrPortFrom(addr, 443).String() + "/version"}
	}
	for _, pod := range world.Shared(t).Clients {
		node := pod.Spec.NodeName
		world.MustOnNode(t, node, host(addr, "30")...)
		world.MustInPod(t, pod, host(addr, "30")...)
		world.FailsBeside(t, "an address that no service has answers",
			world.FromNode(node).Tries(host(netip.MustParseAddr("10.96.200.200"), "2")...),
			world.FromNode(node).Tries(host(addr, "2")...))
	}
}

// TestServiceCIDR_AddedRangeAnswers: a service whose address is of a range that was added
// while the cluster runs answers pods and every node; when the range goes, nodes
// are not led there any more. Services of tests beside it would get addresses of the range, too.
func TestServiceCIDR_AddedRangeAnswers(t *testing.T) {
	world.Test(t, world.Services, world.Core, world.Disruptive)
	ns := world.Namespace(t)
	ranges := cluster.client.NetworkingV1().ServiceCIDRs()
	further := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.111.0.0/24"}}}
	if len(world.NodeAddresses(t, nodes[0])) > 1 {
		further.Spec.CIDRs = append(further.Spec.CIDRs, "fd00:10:111::/112")
	}
	routes := func(node string) string {
		four, _ := world.OnNode(node, "ip", "route", "show", "10.111.0.0/24")
		six, _ := world.OnNode(node, "ip", "-6", "route", "show", "fd00:10:111::/112")
		return four + six
	}
	if got := routes(nodes[0]); got != "" {
		t.Fatalf("there before the range: %s", got)
	}
	if _, err := ranges.Create(t.Context(), further, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ranges.Delete(context.Background(), ns, metav1.DeleteOptions{})
		world.Eventually(t, world.PodWithin, "the range is gone, which services of later tests are not to use",
			func() (bool, string) {
				_, err := ranges.Get(context.Background(), ns, metav1.GetOptions{})
				return apierrors.IsNotFound(err), fmt.Sprint(err)
			})
	})
	from := world.Run(t, world.Pod(ns, "server", nodes[2], world.Behind("web")), world.Pod(ns, "from", nodes[1]))[1]
	var made []string
	for _, ip := range []string{"10.111.0.77", "fd00:10:111::77"}[:len(further.Spec.CIDRs)] {
		var web *corev1.Service
		world.Eventually(t, world.ServiceWithin, "the API takes "+ip, func() (bool, string) {
			var err error
			web, err = cluster.client.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "web-"},
				Spec: corev1.ServiceSpec{
					Selector: map[string]string{"app": "web"}, ClusterIP: ip, Ports: []corev1.ServicePort{{Port: world.ServicePort,
						TargetPort: intstr.FromInt32(world.EchoPort)}},
				},
			}, metav1.CreateOptions{})
			return err == nil, fmt.Sprint(err)
		})
		made = append(made, web.Name)
		address := world.Frontends(web)[0]
		world.FromPod(from).Answered(t, "tcp", address)
		for _, node := range nodes {
			world.Eventually(t, world.ServiceWithin, address+" answers "+node, func() (bool, string) {
				got, err := world.FromNode(node).Ask("tcp", address)
				return err == nil, fmt.Sprint(got, err)
			})
		}
	}
	for _, name := range made {
		world.DeleteService(t, ns, name)
	}
	if err := ranges.Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		world.Eventually(t, world.PodWithin, "the routes of "+node+" are gone", func() (bool, string) {
			got := routes(node)
			return got == "", got
		})
	}
}
