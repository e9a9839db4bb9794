package answer

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// headlessShop has the service "db" without an address, of TCP port 5432 that the pods call "sql".
func headlessShop(t *testing.T, port, selector map[string]any) *snapshot.Snapshot {
	t.Helper()
	s := shop(t)
	s.Add(snapshot.Pods, map[string]any{
		"metadata": map[string]any{"name": "db-1", "namespace": "shop", "labels": map[string]any{"app": "db"}}, "spec": map[string]any{"nodeName": "w1", "containers": []any{
			map[string]any{"name": "c", "ports": []any{map[string]any{"name": "sql", "containerPort": int64(5432)}}},
		}},
	})
	s.Add(snapshot.Services, map[string]any{
		"metadata": map[string]any{"name": "headless", "namespace": "shop"},
		"spec":     map[string]any{"clusterIP": "None", "clusterIPs": []any{"None"}, "selector": selector, "ports": []any{port}},
	})
	return s
}

// toPod is a flow to the pod db-1 of a protocol and a port.
func toPod(id, protocol, port, direction string) flowapi.Flow {
	return flowapi.Flow{
		ID: id, Node: "w1", From: flowapi.End{Namespace: "shop", Pod: "web-0"}, To: []flowapi.End{{Namespace: "shop", Pod: "db-1"}},
		Packet: flowapi.Packet{Protocol: protocol, TargetPort: port, Direction: direction}, Traffic: flowapi.Traffic{Packets: 5},
	}
}

// TestExplainService_HeadlessHasTheStreamsOfItsPods on its ports, and of no others.
func TestExplainService_HeadlessHasTheStreamsOfItsPods(t *testing.T) {
	flows := []flowapi.Flow{
		toPod("a", "tcp", "5432", ""), toPod("b", "tcp", "", ""), toPod("c", "", "", ""), toPod("d", "tcp", "22", ""), toPod("e", "udp", "5432", ""), toPod("f", "tcp", "", flowapi.Reply),
	}
	app := map[string]any{"app": "db"}
	for name, c := range map[string]struct {
		port, selector map[string]any
		streams        int
		says           string
	}{
		"a number":           {map[string]any{"port": int64(5432)}, app, 3, "its pods: pod/shop/db-1\nheadless: it has no address"},
		"a name":             {map[string]any{"port": int64(1), "targetPort": "sql"}, app, 3, "headless: it has no address"},
		"another port":       {map[string]any{"port": int64(1)}, app, 2, "headless: it has no address"},
		"another protocol":   {map[string]any{"port": int64(5432), "protocol": "UDP"}, app, 2, "headless: it has no address"},
		"other pods":         {map[string]any{"port": int64(5432)}, map[string]any{"app": "web"}, 0, "selects 0 pods"},
		"without a selector": {map[string]any{"port": int64(5432)}, nil, 0, "EndpointSlices that are made by hand"},
	} {
		d, err := ExplainService(headlessShop(t, c.port, c.selector), "shop/headless", flows, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, d); len(d.Streams) != c.streams || !strings.Contains(got, c.says) {
			t.Errorf("%s: %d streams, want %d, and %q in\n%s", name, len(d.Streams), c.streams, c.says, got)
		}
	}
	if d, err := ExplainService(shop(t), "shop/db", shopFlows(), nil); err != nil || d.Selected != nil || strings.Contains(text(t, d), "headless") {
		t.Errorf("a service with an address: %v, %+v", err, d)
	}
}

// TestExplainPolicy_OfTheWholeClusterAndOfANetwork: the owners of their rows have no namespace, or a network. What logging costs is
// said, and what is wrong with the object is no success.
func TestExplainPolicy_OfTheWholeClusterAndOfANetwork(t *testing.T) {
	s := shop(t)
	s.Add(snapshot.Namespaces, map[string]any{"metadata": map[string]any{"name": "shop"}})
	subject := map[string]any{"namespaces": map[string]any{}}
	logs := map[string]any{"k8s.ovn.org/acl-logging": `{"allow":"info"}`}
	allow := []any{map[string]any{"action": "Allow", "to": []any{map[string]any{"networks": []any{"192.0.2.0/24"}}}}}
	s.Add(snapshot.AdminNetworkPolicies, map[string]any{"metadata": map[string]any{"name": "all", "annotations": logs}, "spec": map[string]any{"priority": int64(1), "subject": subject, "egress": allow}})
	s.Add(snapshot.AdminNetworkPolicies, map[string]any{"metadata": map[string]any{"name": "wrong"}, "spec": map[string]any{"priority": int64(9999), "subject": subject}})
	decides := func(owner string) []flowapi.Flow {
		f := toPod("a", "tcp", "5432", "")
		f.Why, f.DecidedBy = why("ACL", "ingress policy: allow-related", owner), []string{owner}
		return []flowapi.Flow{f}
	}
	for _, c := range []struct {
		kind, name, owner string
		streams           int
		code              Code
		says              []string
	}{
		{"anp", "all", "AdminNetworkPolicy/all", 1, Good, []string{"anp/all  ", "selects 2 pods", "its pods: pod/shop/db-0, pod/shop/web-0\n", "of the policy logs it, so that each packet visits ovn-controller", "anp/all\n"}},
		{"anp", "all", "ClusterNetworkPolicy/all", 0, Good, []string{"no such stream"}},
		{"anp", "wrong", "AdminNetworkPolicy/all", 0, Degraded, []string{"not in force as written: spec: priority 9999"}},
		{"multi-policy", "shop/p", "MultiNetworkPolicy/shop/p@blue", 1, Good, []string{"multi-policy/shop/p@blue\n"}},
		{"netpol", "shop/p", "MultiNetworkPolicy/shop/p@blue", 0, Good, []string{"no such stream"}},
	} {
		kind, _ := selected.Named(c.kind)
		d, err := ExplainPolicy(s, kind, c.name, decides(c.owner), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := text(t, d)
		for _, part := range c.says {
			if len(d.Streams) != c.streams || d.Code != c.code || !strings.Contains(got, part) {
				t.Errorf("%s/%s: %d streams, exit code %d, no %q in\n%s", c.kind, c.name, len(d.Streams), d.Code, part, got)
			}
		}
	}
}
