//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// portMirror makes or changes a PortMirror of the pods of a namespace with the label app=web, until the test ends. Fields are
// those beside the sources.
func portMirror(t *testing.T, ns, fields string) {
	t.Helper()
	apply(t, fmt.Sprintf("apiVersion: ovn-offload.io/v1alpha1\nkind: PortMirror\nmetadata: {name: %[1]s}\nspec: {sources: "+
		"{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}, podSelector: {matchLabels: {app: web}}}, %[2]s}\n", ns, fields))
	t.Cleanup(func() {
		_ = objectsOf(t, v1alpha1.PortMirrors(), "").Delete(context.Background(), ns, metav1.DeleteOptions{})
	})
}

// dumped is an address of IPv4 as tcpdump prints bytes.
func dumped(addr netip.Addr) string {
	a := addr.As4()
	return fmt.Sprintf("%02x%02x %02x%02x", a[0], a[1], a[2], a[3])
}

// copiedOutside tells whether a packet that a filter takes comes to the external host with an address in it, while send sends some.
func copiedOutside(filter string, of netip.Addr, send func()) bool {
	done := make(chan error, 1)
	go func() {
		_, err := world.OnNode(outside, "sh", "-c",
			fmt.Sprintf("timeout 5 tcpdump -nnlxx -i eth0 '%s' 2>/dev/null | grep -qm1 '%s'", filter, dumped(of)))
		done <- err
	}()
	for {
		send()
		select {
		case err := <-done:
			return err == nil
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// TestPortMirror_TunnelLeadsOutside: a host outside gets the copies in packets of GRE or ERSPAN from the node of a selected pod,
// and none of an unselected pod, nor without the mirror.
func TestPortMirror_TunnelLeadsOutside(t *testing.T) {
	world.Test(t, world.Networks)
	ns := world.Namespace(t)
	web, other, client := world.Pod(ns, "web", nodes[1]), world.Pod(ns, "other", nodes[1]), world.Pod(ns, "client", nodes[2])
	world.Run(t, web, other, client)
	host := world.NodeAddresses(t, outside)[0]
	filter := fmt.Sprintf("ip proto 47 and src host %s", world.OfFamily(world.NodeAddresses(t, nodes[1]), host))
	if host.Is6() {
		t.Skip("Open vSwitch makes tunnels of type ip6gre in the kernel only")
	}
	sent := func(to *corev1.Pod) bool {
		return copiedOutside(filter, world.OfFamily(world.Addresses(to), host),
			func() { world.MustInPod(t, client, "probe", "dial", "tcp", world.Endpoints(to)[0].String()) })
	}
	if sent(web) {
		t.Error("GRE comes without a mirror, this shows nothing")
	}
	for _, protocol := range []string{"GRE", "ERSPAN"} {
		portMirror(t, ns, fmt.Sprintf("collector: {tunnel: {protocol: %s, address: %s, key: 7}}", protocol, host))
		world.Eventually(t, world.PodWithin, "copies by "+protocol, func() (bool, string) { return sent(web), "" })
		if sent(other) {
			t.Errorf("%s comes of a pod that is not selected", protocol)
		}
	}
	kubectlDelete(t, ns, "portmirror", ns)
	world.Eventually(t, world.PodWithin, "no copies without the mirror", func() (bool, string) { return !sent(web), "" })
}

// TestPortMirror_TakesDirectionAndNetwork: of a pod with two interfaces, the copies are those of the direction and the network
// of the mirror alone, while packets go both ways on both networks.
func TestPortMirror_TakesDirectionAndNetwork(t *testing.T) {
	world.Test(t, world.Networks)
	host := world.NodeAddresses(t, outside)[0]
	if host.Is6() {
		t.Skip("Open vSwitch makes tunnels of type ip6gre in the kernel only")
	}
	ns := world.Namespace(t)
	apply(t, networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.213.0.0/24"`))
	web, client := world.Pod(ns, "web", nodes[1], world.OnNetworks("flat")), world.Pod(ns, "client", nodes[2],
		world.OnNetworks("flat"))
	world.Run(t, web, client)
	ends := map[string][2]netip.Addr{
		"eth0": {world.OfFamily(world.Addresses(web), host), world.OfFamily(world.Addresses(client), host)},
		"net1": {furtherAddress(t, web, "flat"), furtherAddress(t, client, "flat")},
	}
	filter := fmt.Sprintf("ip proto 47 and src host %s", world.OfFamily(world.NodeAddresses(t, nodes[1]), host))
	copies := func() (seen string) {
		done := make(chan string)
		go func() {
			out, _ := world.OnNode(outside, "sh", "-c", fmt.Sprintf("timeout 3 tcpdump -nnlxx -i eth0 '%s' 2>/dev/null", filter))
			done <- out
		}()
		for {
			for _, pair := range ends {
				world.MustInPod(t, client, "probe", "dial", "tcp", netip.AddrPortFrom(pair[0], world.EchoPort).String())
			}
			select {
			case out := <-done:
				for _, link := range []string{"eth0", "net1"} {
					of, peer := dumped(ends[link][0]), dumped(ends[link][1])
					for text, pattern := range map[string]string{" from " + link: of + " " + peer, " to " + link: peer + " " + of} {
						if strings.Contains(out, pattern) {
							seen += text
						}
					}
				}
				return seen
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	if seen := copies(); seen != "" {
		t.Fatalf("copies%s come without a mirror", seen)
	}
	collector := fmt.Sprintf(", collector: {tunnel: {protocol: GRE, address: %s}}", host)
	for _, step := range [][2]string{
		{"direction: FromPods", " from eth0"}, {"direction: ToPods", " to eth0"},
		{"direction: ToPods, network: " + ns + "/flat", " to net1"}, {"direction: FromPods, network: " + ns + "/flat", " from net1"},
	} {
		portMirror(t, ns, step[0]+collector)
		world.Eventually(t, world.PodWithin, "with "+step[0]+" the copies are those"+step[1], func() (bool, string) {
			seen := copies()
			return seen == step[1], seen
		})
	}
}

// copiedTo tells which of several addresses are in packets that come to interface net1 of a pod, while send sends some.
func copiedTo(t *testing.T, collector *corev1.Pod, of map[string]netip.Addr, send func()) (seen []string) {
	t.Helper()
	done := make(chan string)
	go func() {
		out, _ := world.InPod(collector.Namespace, collector.Name, "sh", "-c",
			"timeout 4 tcpdump -nnlxx -i net1 -Q in tcp 2>/dev/null")
		done <- out
	}()
	for {
		send()
		select {
		case out := <-done:
			for _, name := range slices.Sorted(maps.Keys(of)) {
				if strings.Contains(out, dumped(of[name])) {
					seen = append(seen, name)
				}
			}
			return seen
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// TestPortMirror_PodCollectsOnItsNode: a pod gets at its second interface the copies of the packets of a selected pod on its node,
// and none of another pod, of a pod on another node, or without the mirror. Its first interface works as before, and the second
// one carries nothing else until the mirror is deleted. Of two such pods the first by name gets the copies; when it is gone,
// the other one does.
func TestPortMirror_PodCollectsOnItsNode(t *testing.T) {
	world.Test(t, world.Networks)
	if sixes()[0] {
		t.Skip("the test looks for addresses of IPv4")
	}
	ns := world.Namespace(t)
	apply(t, networkOf(ns, "taps", `"topology": "layer2", "subnets": "10.214.0.0/24"`))
	web, other, far, client := world.Pod(ns, "web", nodes[1]), world.Pod(ns, "other", nodes[1]), world.Pod(ns, "far",
		nodes[2]), world.Pod(ns, "client", nodes[2])
	world.Run(t, web, other, far, client)
	world.LabelPod(t, far, `{"app":"web"}`)
	recorders := allOnNetworks(t, wish{ns, "recorder-a", nodes[1], "taps"}, wish{ns, "recorder-b", nodes[1], "taps"}, wish{ns, "peer", nodes[2], "taps"})
	first, second, peer := recorders["recorder-a"], recorders["recorder-b"], recorders["peer"]
	world.LabelPod(t, first, `{"app":"recorder"}`)
	world.LabelPod(t, second, `{"app":"recorder"}`)
	of, like := map[string]netip.Addr{}, netip.IPv4Unspecified()
	for _, pod := range []*corev1.Pod{web, other, far} {
		of[pod.Name] = world.OfFamily(world.Addresses(pod), like)
	}
	copies := func(collector *corev1.Pod) string {
		t.Helper()
		return strings.Join(copiedTo(t, collector, of, func() {
			for _, at := range of {
				world.MustInPod(t, client, "probe", "dial", "tcp", netip.AddrPortFrom(at, world.EchoPort).String())
			}
		}), " ")
	}
	becomesCopied := func(collector *corev1.Pod, want, when string) {
		t.Helper()
		world.Eventually(t, world.PodWithin, fmt.Sprintf("%s has copies of %q %s", collector.Name, want, when),
			func() (bool, string) { seen := copies(collector); return seen == want, seen })
	}
	own := furtherAddress(t, first, "taps")
	world.FromPod(peer).ReachesOn(t, "net1", own)
	if seen := copies(first); seen != "" {
		t.Fatalf("%s has copies of %s without a mirror", first.Name, seen)
	}
	portMirror(t, ns, fmt.Sprintf("collector: {pods: {namespace: %[1]s, podSelector: {matchLabels: {app: recorder}}, network: %[1]s/taps}}", ns))
	becomesCopied(first, "web", "with the mirror")
	if seen := copies(second); seen != "" {
		t.Errorf("%s has copies of %s, which %s gets", second.Name, seen, first.Name)
	}
	world.SilentOn(t, world.FromPod(peer), "net1", own, "eth0", world.Endpoints(client)[0].Addr().String())
	world.FromPod(client).Answered(t, "tcp", world.Endpoints(first)[0].String())

	kubectlDelete(t, ns, "portmirror", ns)
	becomesCopied(first, "", "without the mirror")
	world.FromPod(peer).ReachesOn(t, "net1", own)

	portMirror(t, ns, fmt.Sprintf("collector: {pods: {namespace: %[1]s, podSelector: {matchLabels: {app: recorder}}, network: %[1]s/taps}}", ns))
	becomesCopied(first, "web", "with the mirror again")
	world.DeletePod(t, ns, first.Name)
	waitGone(t, ns, first.Name)
	becomesCopied(second, "web", "as the only collector")
}
