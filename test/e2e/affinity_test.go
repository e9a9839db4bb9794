//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// sticky gives a service an affinity of so many seconds.
func sticky(spec *corev1.ServiceSpec, seconds int32) {
	spec.SessionAffinity = corev1.ServiceAffinityClientIP
	spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
}

// wantSame: every further answer is the first one's server.
func wantSame(t *testing.T, address string, first answer, ask func() answer) {
	t.Helper()
	for range 15 {
		if next := ask(); next.server != first.server {
			t.Errorf("%s: %s after %s", address, next.server, first.server)
		}
	}
}

// TestService_AffinityKeepsClientAtEndpoint: a client stays with its endpoint, also when new endpoints are added. After
// the affinity's timeout without a connection another endpoint may answer. A client whose packet is lost connects from
// another port: see docs/services.md, session affinity.
func TestService_AffinityKeepsClientAtEndpoint(t *testing.T) {
	world.Test(t, world.Services)
	const seconds = 3
	ns := namespace(t)
	server(t, ns, "server-0", nodes[1])
	server(t, ns, "server-1", nodes[2])
	short := service(t, ns, func(spec *corev1.ServiceSpec) { sticky(spec, seconds) })
	long := service(t, ns, func(spec *corev1.ServiceSpec) { sticky(spec, 600) })
	from := running(t, ns, "from", nodes[1])
	type target struct{ network, address string }
	first := map[target]answer{}
	for i := range frontends(short) {
		for _, network := range tier.Pick([]string{"tcp", "udp"}[i:i+1], []string{"tcp", "udp"}) {
			stays := target{network, frontends(long)[i]}
			first[stays] = answers(t, from, network, stays.address)
			wantSame(t, stays.address, first[stays], func() answer { return answers(t, from, network, stays.address) })
			wantAnother(t, from, network, frontends(short)[i], seconds*time.Second)
		}
	}
	late := addresses(t, server(t, ns, "server-2", nodes[0]))[0].String()
	eventually(t, serviceWithin, "the third endpoint is there", func() (bool, string) {
		out := vipsOf(t, long)
		return strings.Contains(out, late), out
	})
	for stays, server := range first {
		wantSame(t, stays.address, server, func() answer { return answers(t, from, stays.network, stays.address) })
	}
}

// wantAnother: when no client has asked for longer than an affinity lasts another of two
// endpoints answers in the end.
func wantAnother(t *testing.T, from *corev1.Pod, network, address string, lasts time.Duration) {
	t.Helper()
	first := answers(t, from, network, address)
	for range 12 { // always the same by chance: one in 4096
		time.Sleep(lasts + 2*time.Second)
		if answers(t, from, network, address).server != first.server {
			return
		}
	}
	t.Errorf("%s %s: always %s, though no client asked for longer than the affinity lasts", network, address, first.server)
}

// TestService_AffinitiesOfSharedAddress: two services with affinity share an address, and a
// third an endpoint with them; a client of all three gets each one's endpoint.
func TestService_AffinitiesOfSharedAddress(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	const shared = "203.0.113.77"
	ns := namespace(t)
	for i := range 2 {
		name := fmt.Sprintf("server-%d", i)
		label(t, server(t, ns, name, nodes[1+i]), fmt.Sprintf(`{"of":%q}`, name))
	}
	of := func(name string, port int32, addrs ...string) {
		service(t, ns, func(spec *corev1.ServiceSpec) {
			sticky(spec, 600)
			spec.Selector, spec.ExternalIPs = map[string]string{"of": name}, addrs
			spec.Ports[0].Port, spec.Ports[1].Port = port, port
		})
	}
	of("server-0", 80, shared)
	of("server-1", 81, shared)
	of("server-1", 80, "203.0.113.78")
	from := running(t, ns, "from", nodes[1])
	want := map[string]string{shared + ":80": "server-0", shared + ":81": "server-1", "203.0.113.78:80": "server-1"}
	for range 3 {
		for address, server := range want {
			for _, network := range []string{"tcp", "udp"} {
				if got := answers(t, from, network, address); got.server != server {
					t.Errorf("%s %s: %s answers, want %s", network, address, got.server, server)
				}
			}
		}
	}
}

// TestService_AffinityWithLocalTrafficPolicy: where the policy is Local a client outside stays with
// one of the node's endpoints.
func TestService_AffinityWithLocalTrafficPolicy(t *testing.T) {
	world.Test(t, world.Services)
	ns := namespace(t)
	for i := range 3 {
		server(t, ns, fmt.Sprintf("server-%d", i), nodes[1])
	}
	web := service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
		sticky(spec, 60)
	})
	for _, addr := range machineAddresses(t, nodes[1]) {
		address := netip.AddrPortFrom(addr, uint16(web.Spec.Ports[0].NodePort)).String()
		ask := func() (got answer) {
			eventually(t, serviceWithin, address+" answers the outside", func() (bool, string) {
				var err error
				got, err = readAnswer(onNode(outside, "probe", "dial", "tcp", address))
				return err == nil, fmt.Sprint(err)
			})
			return got
		}
		wantSame(t, address, ask(), ask)
	}
}
