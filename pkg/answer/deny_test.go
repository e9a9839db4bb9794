package answer

import (
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// addPolicy adds a NetworkPolicy that selects the pods of an app, all for "".
func addPolicy(s *snapshot.Snapshot, name, app string, egress bool, types ...any) {
	spec := map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": app}}, "policyTypes": types}
	if app == "" {
		spec["podSelector"] = map[string]any{}
	}
	if egress {
		spec["egress"] = []any{map[string]any{}}
	}
	namespace, name, _ := strings.Cut(name, "/")
	s.Add(snapshot.NetworkPolicies, map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec})
}

// TestTraced_NamesAllPoliciesOfADefaultDeny: those that select the pod in the direction, and no others.
func TestTraced_NamesAllPoliciesOfADefaultDeny(t *testing.T) {
	s := shop(t)
	addPolicy(s, "shop/all", "", false)
	addPolicy(s, "shop/cache", "cache", false, "Ingress", "Egress")
	addPolicy(s, "shop/out", "cache", true, "Egress")
	addPolicy(s, "shop/both-by-rules", "cache", true)
	addPolicy(s, "shop/others", "web", false, "Ingress")
	addPolicy(s, "bank/all", "", false)
	s.Add(snapshot.Pods, map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "cache", "labels": map[string]any{"app": "cache"}}, "spec": map[string]any{"nodeName": "w1"}})
	drop := func(direction, object string) trace.Step {
		return trace.Step{Where: "w1", What: direction + " policy: drop", Object: object}
	}
	for _, c := range []struct {
		to      string
		step    trace.Step
		verdict trace.Verdict
		want    string
	}{
		{"pod/shop/cache", drop("ingress", "NetworkPolicy/shop/all"), trace.Dropped, "no rule allows it: netpol/shop/all, netpol/shop/cache, netpol/shop/both-by-rules select pod/shop/cache for ingress"},
		{"pod/shop/cache", drop("egress", "NetworkPolicy/shop/all"), trace.Dropped, ""}, // none is about egress of web-0
		{"pod/shop/db-0", drop("ingress", "NetworkPolicy/shop/all"), trace.Dropped, "no rule allows it: netpol/shop/all selects pod/shop/db-0 for ingress"},
		{"pod/shop/cache", drop("ingress", "AdminNetworkPolicy/deny"), trace.Dropped, ""}, // it has rules that deny
		{"pod/shop/cache", drop("ingress", "NetworkPolicy/shop/all"), trace.Delivered, ""},
		{"svc/shop/db", drop("ingress", "NetworkPolicy/shop/all"), trace.Dropped, ""}, // the endpoint is not known
	} {
		connection := trace.Connection{From: "pod/shop/web-0", To: c.to}
		traced := NewTraced(s, connection, []trace.Step{c.step}, c.verdict)
		if err := traced.AddPolicies(s, connection); err != nil {
			t.Fatal(err)
		}
		got := text(t, traced)
		if c.want == "" && strings.Contains(got, "no rule allows it") || !strings.Contains(got, c.want+"\n") {
			t.Errorf("%s, %s: want %q in\n%s", c.to, c.step.What, c.want, got)
		}
	}
}

// TestLive_NamesAllPoliciesOfADefaultDeny: of the pod behind a service, too. What another kind of object drops is no default deny, nor
// is it one where a policy allows the packets; and who may not read policies gets an answer.
func TestLive_NamesAllPoliciesOfADefaultDeny(t *testing.T) {
	web, db, tunnel := flowapi.End{Port: "veth1", Namespace: "shop", Pod: "web-0"}, flowapi.End{Port: "veth9", Namespace: "shop", Pod: "db-0"}, flowapi.End{Port: "genev_sys_6081"}
	packet := flowapi.Packet{Protocol: "tcp", Source: "10.244.1.7", Target: "10.244.2.9", TargetPort: "5432", Tunnel: "192.0.2.1", Direction: flowapi.Original}
	received := flowapi.Flow{ID: "received", Node: "w2", From: tunnel, Packet: packet, Way: flowapi.Way{For: &db, Drops: true}}
	anySource := received
	anySource.Source = "10.244.0.0/16"
	sent := flowapi.Flow{ID: "sent", Node: "w1", From: web, Packet: packet, Way: flowapi.Way{Drops: true}}
	outside := sent
	outside.Target, outside.Tunnel = "0.0.0.0/1", ""
	pod, service := streams.Ends{From: "pod/shop/web-0", To: "pod/shop/db-0", Protocol: "tcp", Port: "5432"}, streams.Ends{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}
	ingress := why("ACL", "ingress policy: drop", "NetworkPolicy/shop/all")
	const all, out = "no rule allows it: netpol/shop/all, netpol/shop/db select pod/shop/db-0 for ingress", "no rule allows it: netpol/shop/out selects pod/shop/web-0 for egress"
	shopPolicies := func() *snapshot.Snapshot {
		s := shop(t)
		addPolicy(s, "shop/all", "", false)
		addPolicy(s, "shop/db", "db-0", false, "Ingress")
		addPolicy(s, "shop/out", "web-0", false, "Egress")
		addPolicy(s, "bank/all", "", false)
		return s
	}
	for name, c := range map[string]struct {
		want      streams.Ends
		flow      flowapi.Flow
		why       *flowapi.Why
		forbidden bool
		deny      string
	}{
		"ingress":                  {pod, received, ingress, false, all},
		"ingress from a network":   {pod, anySource, ingress, false, all},
		"behind a service":         {service, received, ingress, false, all},
		"egress":                   {pod, sent, why("ACL", "egress policy: drop", "NetworkPolicy/shop/out"), false, out},
		"egress to a network":      {pod, outside, why("ACL", "egress policy: drop", "NetworkPolicy/shop/out"), false, out},
		"another kind of policy":   {pod, received, why("ACL", "ingress policy: drop", "AdminNetworkPolicy/deny"), false, ""},
		"the network itself":       {pod, received, why("ACL", "no rule: drop", "Network/default"), false, ""},
		"a policy that allows":     {pod, received, why("ACL", "ingress policy: allow-related", "NetworkPolicy/shop/db"), false, ""},
		"policies may not be read": {pod, received, ingress, true, ""},
	} {
		s := shopPolicies()
		if c.forbidden {
			s = shop(t)
		}
		c.flow.Why = c.why
		flows := []flowapi.Flow{c.flow}
		if c.want == service {
			first := flowapi.Flow{ID: "asked", Node: "w1", From: web, Packet: flowapi.Packet{Protocol: "tcp", Target: "10.96.0.44", TargetPort: "5432"}, Way: flowapi.Way{Next: []uint32{1}}, Actions: "ct(nat),recirc(0x1)"}
			to := flowapi.Flow{ID: "to", Node: "w1", From: web, To: []flowapi.End{tunnel}, Packet: flowapi.Packet{Protocol: "tcp", Target: "10.244.2.9", Tunnel: "192.0.2.2"}, Way: flowapi.Way{Recirculation: 1}}
			flows = append(flows, first, to)
		}
		l, err := NewLive(s, c.want, "", flows, nil)
		if err != nil || l.Verdict != Dropped {
			t.Fatalf("%s: %v, %+v", name, err, l)
		}
		if c.forbidden {
			s.Missing[snapshot.NetworkPolicies] = "forbidden"
		}
		for range 2 { // what is missing is said once
			if err := l.AddPolicies(s); err != nil {
				t.Fatal(err)
			}
		}
		got := text(t, l)
		if c.deny == "" && strings.Contains(got, "no rule allows it") || !strings.Contains(got, c.deny+"\n") {
			t.Errorf("%s: want %q in\n%s", name, c.deny, got)
		}
		if slices.Equal(l.Missing, []string{"networkpolicies: forbidden"}) != c.forbidden || (l.Code == Uncertain) != c.forbidden || !strings.Contains(got, "DROPPED by ") {
			t.Errorf("%s: exit code %d, missing %q:\n%s", name, l.Code, l.Missing, got)
		}
	}
}
