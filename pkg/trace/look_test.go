package trace

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestCompute_RefusesAPathToAnotherNetwork behind a load balancer: ovn-trace says that a router drops it, and packets arrive. The
// controls are the same path by a route of the default network, and without a load balancer.
func TestCompute_RefusesAPathToAnotherNetwork(t *testing.T) {
	const routed = printed + `
ingress(dp="GR_n1", inport="rtoj-GR_n1")
13. lr_in_ip_routing (northd.c:1): ip4.dst == 10.81.0.0/16, priority 3, uuid bbbbbbb1
    next;
16. lr_in_policy (northd.c:1): outport == "x", priority 1004, uuid ccccccc1
    drop;
`
	const routeHint = `{"headings":["_uuid","external_ids"],"data":[[["uuid","bbbbbbb1-0000-0000-0000-000000000001"],["map",[["stage-hint","44444444"]]]]]}`
	const lb = `{"headings":["_uuid","external_ids","name"],"data":[[["uuid","33333333-0000-0000-0000-000000000000"],["map",[["ovn-offload.io/owner","Service/shop/web"]]],"lb"]]}`
	route := func(owner string) string {
		return `{"headings":["_uuid","external_ids","ip_prefix","nexthop"],"data":[[["uuid","44444444-0000-0000-0000-000000000000"],["map",[["ovn-offload.io/owner","` + owner + `"]]],"10.81.0.0/16","169.254.64.1"]]}`
	}
	for name, c := range map[string]struct {
		rows    string
		refused ErrNetwork
	}{
		"to another network":               {lb + route("Node/n1@red"), "red"},
		"to the default network":           {lb + route("Node/n1"), ""},
		"without a load balancer's choice": {route("Node/n1@red"), ""},
	} {
		connection, err := testEnds().Connection("pod/from", "svc/web")
		if err != nil {
			t.Fatal(err)
		}
		connection.Balanced = false
		of, err := Compute(t.Context(), func(_ context.Context, _ string, command []string) ([]byte, error) {
			switch command[0] {
			case "ovn-trace":
				return []byte(routed), nil
			case "ovn-sbctl":
				return []byte(hintsAnswer + routeHint), nil
			}
			return []byte(c.rows), nil
		}, connection)
		var network ErrNetwork
		if errors.As(err, &network); network != c.refused || err != nil && !strings.Contains(err.Error(), "--live") {
			t.Errorf("%s: %v, want %q: %+v", name, err, c.refused, of)
		}
		if err == nil && (of.Verdict != Dropped || of.Steps[len(of.Steps)-1].What != "route 10.81.0.0/16") {
			t.Errorf("%s: %+v", name, of)
		}
	}
}

// TestCheck_KnowsWhatIsWrongInAnyCluster, and takes what Connection takes.
func TestCheck_KnowsWhatIsWrongInAnyCluster(t *testing.T) {
	for _, right := range []string{
		"pod/web svc/db", "pod/shop/web pod/shop/db/icmp", "node/w1 192.0.2.7:80", "outside node/w1:30080/udp", "outside/192.0.2.9 svc/shop/db:80/tcp", "pod/web [fd00::1]:80", "pod/web 192.0.2.7/icmp", "pod/web node/w1/icmp",
	} {
		words := strings.Fields(right)
		if err := Check(words[0], words[1]); err != nil {
			t.Errorf("%s: %v", right, err)
		}
	}
	for wrong, want := range map[string]string{
		"web svc/db": "want pod/NAME", "svc/web svc/db": "want pod/NAME", "pod/ svc/db": "want pod/NAME", "outside/x svc/db": "outside/ADDRESS", "pod/web db:80": "want pod/NAME, svc/NAME", "pod/web deployment/db": "want pod/NAME, svc/NAME",
		"pod/web svc/": "want pod/NAME, svc/NAME", "pod/web svc/db:x": "is no port", "pod/web svc/db:70000": "is no port", "pod/web 192.0.2.7": "want a port", "pod/web node/w1": "want a port", "pod/web example.com:443": "of a host name",
	} {
		words := strings.Fields(wrong)
		if err := Check(words[0], words[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", wrong, err, want)
		}
	}
}
