//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestDNS_PodResolvesServiceNames: a pod of each node resolves a service by its name, and by the short name in its own
// namespace. An unknown name is not found.
func TestDNS_PodResolvesServiceNames(t *testing.T) {
	world.Test(t, world.Node, world.Core)
	w := world.Shared(t)
	ns, web := w.Namespace, world.Service(t, w.Namespace, nil)
	hosts := map[bool]string{true: "ahostsv6", false: "ahostsv4"}[sixes()[0]]
	for _, from := range w.Clients {
		for _, name := range []string{web.Name, web.Name + "." + ns + ".svc.cluster.local"} {
			if out := world.MustInPod(t, from, "getent", hosts, name); !strings.HasPrefix(out, web.Spec.ClusterIP) {
				t.Errorf("%s in %s: %q, want %s", name, from.Name, out, web.Spec.ClusterIP)
			}
			world.FromPod(from).Answered(t, "tcp", name+":80")
		}
		// A lost query would be seen in the time of the look-up: the resolver asks again after 5 s.
		t.Log(from.Name, world.MustInPod(t, from, "curl", "-sk", "-m", "30", "-o", "/dev/null",
			"-w", "name after %{time_namelookup} s, connected after %{time_connect} s, answered after %{time_total} s", "https://kubernetes.default/version"))
		if out, err := world.InPod(ns, from.Name, "getent", "hosts", "unknown."+ns); err == nil {
			t.Errorf("an unknown name: %s", out)
		}
	}
}
