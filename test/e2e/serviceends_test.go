//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestService_ClientsThatNeverPauseAreCut: UDP clients of a service that is deleted, or whose node port becomes another
// one, get no more answers, those of another service all the time. Clients are the external host, a process of a node at
// its own node, and a pod.
func TestService_ClientsThatNeverPauseAreCut(t *testing.T) {
	world.Test(t, world.Services)
	w := world.Shared(t)
	each := map[string]func(*testing.T){}
	for what, end := range map[string]func(*testing.T, *corev1.Service){
		"the service is deleted": func(t *testing.T, web *corev1.Service) { world.DeleteService(t, web.Namespace, web.Name) },
		"the node port is another": func(t *testing.T, web *corev1.Service) {
			world.UpdateService(t, web, func(spec *corev1.ServiceSpec) { withNodePorts(spec) })
		},
	} {
		each[what] = func(t *testing.T) { clientsAreCut(t, w, what == "the service is deleted", end) }
	}
	world.AtOnce(t, each)
}

func clientsAreCut(t *testing.T, w *world.World, whole bool, end func(*testing.T, *corev1.Service)) {
	server := func(spec *corev1.ServiceSpec) {
		selecting("server", "server-2")(spec)
		withNodePorts(spec)
	}
	web, kept := world.Service(t, w.Namespace, server), world.Service(t, w.Namespace, server)
	own := w.Machines[1].Addresses(t)[0]
	udp := func(service *corev1.Service) uint16 {
		for _, port := range service.Spec.Ports {
			if port.Protocol == corev1.ProtocolUDP {
				return uint16(port.NodePort)
			}
		}
		return 0
	}
	at := netip.AddrPortFrom(own, udp(web)).String()
	type client struct {
		world.Client
		to string
	}
	clients := []client{{w.External, at}, {w.Machines[1], at}}
	if whole {
		clients = append(clients, client{world.FromPod(w.Clients[1]), at}, client{world.FromPod(w.Clients[1]),
			netip.AddrPortFrom(world.ClusterAddresses(web)[0], world.ServicePort).String()})
	}
	all := append(slices.Clone(clients), client{w.External, netip.AddrPortFrom(own, udp(kept)).String()})
	for _, c := range all {
		world.Eventually(t, world.ServiceWithin, c.Name+" is answered", func() (bool, string) {
			got, err := c.AskPatiently("udp", c.to)
			return err == nil, fmt.Sprint(got, err)
		})
	}
	begun, asking := time.Now(), sync.WaitGroup{}
	outputs := make([]string, len(all))
	for i, c := range all {
		asking.Go(func() { outputs[i], _ = c.Run("timeout", "12", "probe", "last", c.to) })
	}
	time.Sleep(time.Second)
	end(t, web)
	ended := time.Now()
	asking.Wait()
	for i, out := range outputs {
		lines := strings.Fields(out)
		if len(lines) == 0 || lines[0] != "asking" {
			t.Fatalf("client %d was not answered at all: %q", i, out)
		}
		last, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
		after := time.Unix(0, last).Sub(ended)
		switch {
		case i == len(clients) && err == nil:
			t.Errorf("the client of the service that stays was cut %s after the end of another", after)
		case i == len(clients):
		case err != nil:
			t.Errorf("%s has answers from %s until the end, %s after the first", clients[i].Name, clients[i].to, time.Since(begun))
		default:
			t.Logf("%s: the last answer from %s came %s after the end", clients[i].Name, clients[i].to, after)
		}
	}
}

// TestHostPort_PacketsFollowFromPodToProcess: what one client sends from one port is answered by a pod with a host
// port, by the process of the node that has the port when the pod is gone, and by the pod that replaces the process.
func TestHostPort_PacketsFollowFromPodToProcess(t *testing.T) {
	world.Test(t, world.Services)
	const number, from = 29994, 41009
	w := world.Shared(t)
	h := hostPorts{w: w, ns: world.Namespace(t), own: w.Machines[1].Addresses(t)}
	to := netip.AddrPortFrom(h.own[0], number).String()
	answers := func(want string, source int) {
		t.Helper()
		world.Eventually(t, world.Soon, fmt.Sprintf("%s answers port %d", want, source), func() (bool, string) {
			got, err := world.ReadAnswer(w.External.Run("probe", "from", fmt.Sprint(source), "udp", to))
			return err == nil && got.Server == want, fmt.Sprint(got, err)
		})
	}
	world.Run(t, h.pod("first", hostPort(number)...))
	answers("first", from)
	world.DeletePod(t, h.ns, "first")
	world.MustOnNode(t, nodes[1], "sh", "-c",
		fmt.Sprintf("probe serve %d process </dev/null >/dev/null 2>&1 & echo $! >/run/process-%d", number, number))
	stop := sync.OnceFunc(func() {
		world.OnNode(nodes[1], "sh", "-c", fmt.Sprintf("kill $(cat /run/process-%d); rm /run/process-%d", number, number))
	})
	t.Cleanup(stop)
	answers("process", from)
	answers("process", from+1)
	stop()
	world.Run(t, h.pod("second", hostPort(number)...))
	answers("second", from)
	answers("second", from+1)
}

// TestNode_SendsFromPortsOfServices: a process of a node is answered that sends from a port that is a node port or a
// host port, by TCP and UDP, and once to each packet. The node port is the service's meanwhile.
func TestNode_SendsFromPortsOfServices(t *testing.T) {
	world.Test(t, world.Services)
	w := world.Shared(t)
	world.ServeOutside(t)
	const hostPortNumber = 29995
	h := hostPorts{w: w, ns: world.Namespace(t), own: w.Machines[1].Addresses(t)}
	world.Run(t, h.pod("pod", hostPort(hostPortNumber)...))
	r := newServiceRow(t, w, "", func(spec *corev1.ServiceSpec) {
		selecting("server", "server-2")(spec)
		withNodePorts(spec)
	})
	answered := func() {
		t.Helper()
		w.External.Finds(t, append(r.atNodePort(t, w.Machines[1], []string{"server-2"}, nil),
			world.SpotsAt(h.own, hostPortNumber, []string{"pod"}, nil)...))
	}
	answered()
	for _, target := range world.NodeAddresses(t, outside) {
		to := netip.AddrPortFrom(target, world.OutsidePort).String()
		for _, network := range []string{"tcp", "udp"} {
			for _, port := range []int32{r.web.Spec.Ports[0].NodePort, hostPortNumber} {
				from := netip.AddrPortFrom(world.OfFamily(h.own, target), uint16(port)).String()
				if out, err := world.OnNode(nodes[1], "probe", "from", from, network, to); err != nil {
					t.Errorf("%s from %s to %s is not answered: %v %s", network, from, to, err, out)
				}
			}
		}
	}
	answered()
	out, _ := world.OnNode(nodes[1], "timeout", "3", "probe", "stream", "udp",
		netip.AddrPortFrom(world.NodeAddresses(t, outside)[0], world.OutsidePort).String())
	count, most := map[string]int{}, 0
	for line := range strings.Lines(out) {
		number, _, _ := strings.Cut(line, " ")
		if _, err := strconv.Atoi(number); err == nil {
			count[number]++
			most = max(most, count[number])
		}
	}
	if len(count) < 20 || most != 1 {
		t.Errorf("%d packets are answered, each up to %d times", len(count), most)
	}
}

// TestExternalAddress_NothingTakesEndsAtTheNode: packets to an external address that no service takes are not forwarded
// by the node to which they come, and neither are those to an address that no service has.
func TestExternalAddress_NothingTakesEndsAtTheNode(t *testing.T) {
	world.Test(t, world.Services)
	const address, none = "203.0.113.33", "203.0.113.34"
	w := world.Shared(t)
	world.Service(t, w.Namespace, func(spec *corev1.ServiceSpec) {
		selecting("server", "server-2")(spec)
		spec.ExternalIPs = []string{address}
	})
	via := world.InternalIP(t, nodes[0])
	world.RouteOutside(t, "203.0.113.32/30", via)
	w.External.Finds(t, append(world.SpotsAt([]netip.Addr{netip.MustParseAddr(address)}, world.ServicePort, []string{"server-2"}, nil),
		world.SpotsAt([]netip.Addr{netip.MustParseAddr(address)}, world.ServicePort+1, nil, nil)...))
	// A packet that has one hop left ends at the host that would forward it, and the host says so.
	expired := func(to string) bool {
		out, _ := w.External.Run("ping", "-c3", "-i0.2", "-W1", "-t1", to)
		return strings.Contains(out, "Time to live exceeded")
	}
	if expired(address) || !expired(none) {
		t.Errorf("the host forwards packets to %s: %t, and to %s: %t", address, expired(address), none, expired(none))
	}
	const table = "inet e2e-forwarded"
	world.MustOnNode(t, nodes[0], "nft", "add table "+table+"; add chain "+table+" out { type filter hook postrouting priority 0; }; "+
		"add rule "+table+" out ip daddr "+none+" counter")
	t.Cleanup(func() { world.OnNode(nodes[0], "nft", "delete table "+table) })
	if n := forwardedBy(t, nodes[0], table, w.External, none); n > 0 {
		t.Errorf("%s has forwarded %d packets", nodes[0], n)
	}
	world.Eventually(t, world.Soon, "the node forwards without the rule, which the agent writes again", func() (bool, string) {
		world.MustOnNode(t, nodes[0], "nft", "flush chain inet ovn-offload forward")
		return forwardedBy(t, nodes[0], table, w.External, none) > 0, ""
	})
	world.MustOnNode(t, nodes[0], "nft", "add rule inet ovn-offload forward iifname @gateway oifname @gateway drop")
}

// forwardedBy sends 20 packets to an address and gives what the rule of a table in the node's kernel has counted.
func forwardedBy(t *testing.T, node, table string, from world.Client, to string) int {
	t.Helper()
	_, _ = from.Run("ping", "-c20", "-i0.05", "-W1", to)
	out := world.MustOnNode(t, node, "nft", "list table "+table)
	_, rest, _ := strings.Cut(out, "counter packets ")
	number, _, ok := strings.Cut(rest, " ")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		t.Fatalf("no counter in %s", out)
	}
	return n
}
