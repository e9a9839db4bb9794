//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// serversOn makes the pods server-0, server-1 and so on, one on each of some nodes.
func serversOn(t *testing.T, ns string, some ...string) []*corev1.Pod {
	t.Helper()
	var objects []*corev1.Pod
	for i, node := range some {
		objects = append(objects, world.Pod(ns, fmt.Sprintf("server-%d", i), node, world.Behind("web")))
	}
	return world.Run(t, objects...)
}

// vipsOf is what the database says of a service's load balancers.
func vipsOf(t *testing.T, service *corev1.Service) string {
	t.Helper()
	return nbctl(t, "--bare", "--columns=vips", "find", "Load_Balancer", "external_ids:k8s.ovn.org/owner="+service.Namespace+"/"+service.Name)
}

// TestService_FlowsLeaveRemovedEndpoint: flows that never pause leave an endpoint that
// is no longer one, although its pod still runs: a UDP flow goes on with another
// endpoint, and ends where there is none; a TCP connection ends. The datapath keeps
// the flow by which a stream began for ten idle seconds, by which it would begin
// there again: so the endpoint leaves at once, and later. The flow of another service
// with the same pod, whose endpoint it stays, is not touched.
func TestService_FlowsLeaveRemovedEndpoint(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	gate := []leaving{{"udp", "second", 0}, {"tcp", "second", 0}}
	rest := []leaving{{"udp", "second", 12 * time.Second}, {"udp", "", 0}}
	each := map[string]func(*testing.T){}
	for _, l := range tier.Pick(gate, append(gate, rest...)) {
		each[l.network+" "+l.other+" "+l.later.String()] = l.check
	}
	world.AtOnce(t, each)
}

// leaving is a stream whose endpoint leaves after a time, with another endpoint or without one.
type leaving struct {
	network, other string
	later          time.Duration
}

func (l leaving) check(t *testing.T) {
	ns := world.Namespace(t)
	web := world.Service(t, ns, nil)
	first := world.Pod(ns, "first", nodes[2], world.Behind("web"), world.Labels(map[string]string{"kept": "yes"}))
	from := world.Shared(t).Clients[1]
	pods := []*corev1.Pod{first}
	if l.other != "" {
		pods = append(pods, world.Pod(ns, l.other, nodes[0], world.Behind("waits")))
	}
	world.Run(t, pods...)
	kept := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Selector = map[string]string{"kept": "yes"} })
	world.FromPod(from).Answered(t, "udp", world.Frontends(kept)[0])
	world.FromPod(from).Answered(t, l.network, world.Frontends(web)[0])
	stays := startFlow(t, from.Namespace, from.Name, "udp", netip.MustParseAddrPort(world.Frontends(kept)[0]))
	moves := startFlow(t, from.Namespace, from.Name, l.network, netip.MustParseAddrPort(world.Frontends(web)[0]))
	time.Sleep(l.later)
	if l.other != "" {
		world.LabelPod(t, pods[1], `{"app":"web"}`)
	}
	world.LabelPod(t, first, `{"app":"retired"}`)
	last := "first"
	if l.network == "udp" && l.other != "" {
		last = l.other
		world.Eventually(t, world.PodWithin, last+" answers the stream", func() (bool, string) {
			return moves.answering() == last && moves.answered(time.Second), moves.answering()
		})
	} else {
		wantEnds(t, stays, moves)
	}
	stays.wantAnswer(t, world.Soon)
	if got, kept := moves.answering(), stays.answering(); got != last || kept != "first" {
		t.Errorf("the last answers are of %q and, by the other service, of %q; want %q and \"first\"", got, kept, last)
	}
}

// tracedService is a service with a TCP port for the pods with a label.
func tracedService(t *testing.T, ns, app string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	return world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Selector, spec.Ports = map[string]string{"app": app}, spec.Ports[:1]
		if change != nil {
			change(spec)
		}
	})
}
