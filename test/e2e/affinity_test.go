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

// wantSame: every further answer is of the server of the first one. A connection whose first packet is lost has none.
func wantSame(t *testing.T, c world.Client, target, server string) {
	t.Helper()
	const times, atLeast = 15, 8
	got, err := world.Count(c, times, 1, []string{target})
	if err != nil {
		t.Fatal(err)
	}
	if wrong := (world.Spot{Target: target, Servers: []string{server}}).Wrong(got[target], atLeast, false); wrong != "" {
		t.Errorf("%s, after %s: %s", c.Name, server, wrong)
	}
}

// TestService_AffinityKeepsClientAtEndpoint: a client stays with its endpoint, also when new endpoints are added. After
// the affinity's timeout without a connection another endpoint may answer. A client whose packet is lost connects from
// another port: see docs/services.md, session affinity.
func TestService_AffinityKeepsClientAtEndpoint(t *testing.T) {
	world.Test(t, world.Services)
	const seconds = 3 // longer than a client waits whose first packet was lost
	w := world.Shared(t)
	from := w.Clients[1]
	ofTwo := func(lasts int32) *corev1.Service {
		return world.Service(t, w.Namespace, func(spec *corev1.ServiceSpec) {
			sticky(spec, lasts)
			selecting("first", "yes")(spec)
		})
	}
	short, long := ofTwo(seconds), ofTwo(600)
	asker, first := world.FromPod(from), map[string]string{}
	for i := range world.Frontends(short) {
		for _, network := range tier.Pick([]string{"tcp", "udp"}[i:i+1], []string{"tcp", "udp"}) {
			stays := world.Frontends(long)[i]
			first[network+":"+stays] = world.FromPod(from).Answered(t, network, stays).Server
			wantSame(t, asker, network+":"+stays, first[network+":"+stays])
			wantAnother(t, from, network, world.Frontends(short)[i], seconds*time.Second)
		}
	}
	world.UpdateService(t, long, selecting("app", "web"))
	late := world.Addresses(w.Servers[2])[0].String()
	world.Eventually(t, world.ServiceWithin, "the third endpoint is there", func() (bool, string) {
		out := vipsOf(t, long)
		return strings.Contains(out, late), out
	})
	for stays, server := range first {
		wantSame(t, asker, stays, server)
	}
}

// wantAnother: when no client has asked for longer than an affinity lasts another of two
// endpoints answers in the end.
func wantAnother(t *testing.T, from *corev1.Pod, network, address string, lasts time.Duration) {
	t.Helper()
	first := world.FromPod(from).Answered(t, network, address)
	for range 12 { // always the same by chance: one in 4096
		time.Sleep(lasts + 2*time.Second)
		if world.FromPod(from).Answered(t, network, address).Server != first.Server {
			return
		}
	}
	t.Errorf("%s %s: always %s, though no client asked for longer than the affinity lasts", network, address, first.Server)
}

// TestService_AffinityWithLocalTrafficPolicy: where the policy is Local a client outside stays with
// one of the node's endpoints.
func TestService_AffinityWithLocalTrafficPolicy(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	serversOn(t, ns, nodes[1], nodes[1], nodes[1])
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
		sticky(spec, 60)
	})
	for _, addr := range world.NodeAddresses(t, nodes[1]) {
		address := netip.AddrPortFrom(addr, uint16(web.Spec.Ports[0].NodePort)).String()
		var first world.Answer
		world.Eventually(t, world.ServiceWithin, address+" answers the external host", func() (bool, string) {
			var err error
			first, err = world.FromNode(outside).Ask("tcp", address)
			return err == nil, fmt.Sprint(err)
		})
		wantSame(t, world.FromNode(outside), "tcp:"+address, first.Server)
	}
}
