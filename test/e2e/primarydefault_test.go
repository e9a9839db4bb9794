//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// reachable tells how many addresses answer a client at the port of the tests' server, and its pings, asked all at once.
func reachable(c world.Client, addrs []netip.Addr) (string, error) {
	const script = `for a in $0; do ping -c1 -W1 $a >/dev/null && echo icmp & done; probe reach "$@" | cut -c 1-3; wait`
	var texts, words []string
	for _, addr := range addrs {
		end := netip.AddrPortFrom(addr, world.EchoPort).String()
		texts, words = append(texts, addr.String()), append(words, "tcp:"+end, "udp:"+end)
	}
	out, err := c.Run(append([]string{"sh", "-c", script, strings.Join(texts, " ")}, words...)...)
	return fmt.Sprintf("tcp=%d udp=%d icmp=%d", strings.Count(out, "tcp"), strings.Count(out, "udp"), strings.Count(out, "icmp")), err
}

// answers says by which protocols an address answers: 1 for each.
type answers struct{ tcp, udp, icmp int }

// reaches waits until each address of a list answers so.
func reaches(t *testing.T, c world.Client, addrs []netip.Addr, some answers) {
	t.Helper()
	n := len(addrs)
	want := fmt.Sprintf("tcp=%d udp=%d icmp=%d", some.tcp*n, some.udp*n, some.icmp*n)
	world.Eventually(t, world.PolicyWithin, fmt.Sprintf("%s reaches %s of %v", c.Name, want, addrs), func() (bool, string) {
		got, err := reachable(c, addrs)
		return got == want, fmt.Sprint(got, err)
	})
}

// locked checks that eth0 of the first pod leads to its node, and to no pod and no other node. The controls are the node, a
// pod of the default network, and the pod's own network.
func (x tenant) locked(t *testing.T, other *corev1.Pod) {
	t.Helper()
	a, clients := x.pods[0], map[string]world.Client{}
	for _, pod := range []*corev1.Pod{a, x.pods[1], other} {
		clients[pod.Name] = world.FromPod(pod)
	}
	own := world.Addresses(a)
	reaches(t, clients[x.pods[1].Name], x.addresses(t, 0), answers{1, 1, 1})
	reaches(t, world.FromNode(a.Spec.NodeName), own, answers{1, 1, 1})
	reaches(t, world.FromNode(nodes[0]), world.Addresses(other), answers{1, 1, 1})
	for _, c := range []world.Client{clients[other.Name], world.FromNode(nodes[0]), world.FromNode(other.Spec.NodeName)} {
		if got, err := reachable(c, append(own, x.addresses(t, 0)...)); got != "tcp=0 udp=0 icmp=0" {
			t.Errorf("%s reaches %s of %s: %v", c.Name, got, a.Name, err)
		}
	}
	if got, err := reachable(clients[a.Name], world.Addresses(other)); got != "tcp=0 udp=0 icmp=0" {
		t.Errorf("%s reaches %s of %s: %v", a.Name, got, other.Name, err)
	}
}

// nodesByEth0 checks that API servers and kubelets do not answer the first pod by eth0, for which it has routes. They answer by
// its network, those of its own node, too, and they answer a pod of the default network.
func (x tenant) nodesByEth0(t *testing.T, other *corev1.Pod) {
	t.Helper()
	const script = `for u; do curl -sk -m 5 -o /dev/null "$u" && echo "$u" & done; wait`
	a := x.pods[0]
	var urls, routes []string
	for _, to := range world.Addresses(other) {
		way := world.MustInPod(t, a, "ip", "route", "get", to.String())
		_, hop, found := strings.Cut(way, " via ")
		if hop, _, _ = strings.Cut(hop, " "); !found || !strings.Contains(way, " dev eth0 ") {
			t.Fatalf("the way to the default network is %q", way)
		}
		for i, node := range nodes[:2] {
			addr := world.OfFamily(world.NodeAddresses(t, node), to)
			routes = append(routes, addr.String()+" via "+hop+" dev eth0")
			for _, port := range []uint16{10250, 6443}[:2-i] { // the first node has an API server
				urls = append(urls, "https://"+netip.AddrPortFrom(addr, port).String()+"/")
			}
		}
	}
	answered := func(pod *corev1.Pod) (int, string) {
		out, err := world.InPod(pod.Namespace, pod.Name, append([]string{"sh", "-c", script, "sh"}, urls...)...)
		return len(strings.Fields(out)), fmt.Sprint(out, err)
	}
	for _, pod := range []*corev1.Pod{other, a} {
		world.Eventually(t, world.Soon, fmt.Sprintf("%s has the answers of %v", pod.Name, urls), func() (bool, string) {
			n, seen := answered(pod)
			return n == len(urls), seen
		})
	}
	for _, route := range routes {
		world.MustInPod(t, a, append([]string{"ip", "route", "add"}, strings.Fields(route)...)...)
	}
	if n, seen := answered(a); n > 0 {
		t.Errorf("by eth0 there are answers of %s", seen)
	}
	for _, route := range routes {
		world.MustInPod(t, a, append([]string{"ip", "route", "del"}, strings.Fields(route)...)...)
	}
}

// opens opens, changes and closes ports of the first pod while it runs. A list that cannot be read closes all.
func (x tenant) opens(t *testing.T, other *corev1.Pod) {
	t.Helper()
	a := x.pods[0]
	from, node := world.FromPod(other), world.FromNode(nodes[0])
	open := func(value string, tcp, udp, icmp int) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, contract.OpenPortsKey, value)
		if _, err := cluster.client.CoreV1().Pods(x.ns).Patch(t.Context(), a.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		reaches(t, from, world.Addresses(a), answers{tcp, udp, icmp})
	}
	open(fmt.Sprintf(`"[{protocol: tcp, port: %d}, {protocol: udp, port: %[1]d}]"`, world.EchoPort), 1, 1, 0)
	reaches(t, node, world.Addresses(a), answers{1, 1, 0})
	open(fmt.Sprintf(`"[{protocol: tcp, port: %d}, {protocol: udp, port: %d}, {protocol: icmp}]"`, world.EchoPort+1,
		world.EchoPort), 0, 1, 1)
	open(fmt.Sprintf(`"[{protocol: tcp, port: %d}, {protocol: udp, port: %[1]d"`, world.EchoPort), 0, 0, 0)
	wantEvent(t, x.ns, "PartRefused", a.Name, "annotation "+contract.OpenPortsKey)
	open(fmt.Sprintf(`"[{protocol: tcp, port: %d}]"`, world.EchoPort), 1, 0, 0)
	open("null", 0, 0, 0)
}

// onlyPorts checks that pods of the network reach the cluster's DNS at its ports alone: not by ping, nor at another port of its pods,
// which answer a pod of the default network there, and pods of the network by a node port that leads to it.
func (x tenant) onlyPorts(t *testing.T, other *corev1.Pod) {
	t.Helper()
	const health = 8080 // of CoreDNS
	list, err := cluster.client.CoreV1().Pods(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("%d pods of the cluster's DNS: %v", len(list.Items), err)
	}
	a, dns := x.pods[0], &list.Items[0]
	name := "health-" + x.ns
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: dns.Labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(health)}},
	}}
	web, err := cluster.client.CoreV1().Services(metav1.NamespaceSystem).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cluster.client.CoreV1().Services(metav1.NamespaceSystem).Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	via := func(link string, at netip.AddrPort) []string {
		return []string{"curl", "-s", "-m", world.Patience, "-o", "/dev/null", "--interface", link,
			fmt.Sprintf("http://%s/health", at)}
	}
	for _, own := range x.addresses(t, 0) {
		to := world.OfFamily(world.Addresses(dns), own)
		world.MustInPod(t, other, "ping", "-c1", "-w10", to.String())
		world.MustInPod(t, other, via("eth0", netip.AddrPortFrom(to, health))...)
		world.FailsBeside(t, "a pod of the cluster's DNS answers the ping of "+a.Name,
			world.FromPod(a).Tries(world.Pings([]string{"-I", contract.PrimaryInterface,
				to.String()})...), world.FromPod(other).Tries(world.Pings([]string{to.String()})...))
		world.FailsBeside(t, fmt.Sprintf("a pod of the cluster's DNS answers %s at port %d", a.Name, health),
			world.FromPod(a).Tries(via(contract.PrimaryInterface,
				netip.AddrPortFrom(to, health))...), world.FromPod(other).Tries(via("eth0", netip.AddrPortFrom(to, health))...))
		if at := world.OfFamily(world.NodeAddresses(t, nodes[0]), own); at.Is4() == world.ClusterAddresses(web)[0].Is4() {
			world.Eventually(t, world.ServiceWithin, "the node port answers", func() (bool, string) {
				out, err := world.InPod(x.ns, a.Name, via(contract.PrimaryInterface,
					netip.AddrPortFrom(at, uint16(web.Spec.Ports[0].NodePort)))...)
				return err == nil, fmt.Sprint(out, err)
			})
		}
	}
	world.MustInPod(t, a, "getent", "hosts", "kubernetes.default.svc.cluster.local")
}
