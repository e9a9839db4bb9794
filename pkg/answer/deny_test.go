package answer

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// TestTraced_NamesAllPoliciesOfADefaultDeny: those that select the pod in the direction, and no others.
func TestTraced_NamesAllPoliciesOfADefaultDeny(t *testing.T) {
	s := shop(t)
	s.Add(snapshot.Pods, map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "cache", "labels": map[string]any{"app": "cache"}}, "spec": map[string]any{"nodeName": "w1"}})
	policy := func(namespace, name, app string, egress bool, types ...any) {
		spec := map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": app}}, "policyTypes": types}
		if app == "" {
			spec["podSelector"] = map[string]any{}
		}
		if egress {
			spec["egress"] = []any{map[string]any{}}
		}
		s.Add(snapshot.NetworkPolicies, map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec})
	}
	policy("shop", "all", "", false)
	policy("shop", "cache", "cache", false, "Ingress", "Egress")
	policy("shop", "out", "cache", true, "Egress")
	policy("shop", "both-by-rules", "cache", true)
	policy("shop", "others", "web", false, "Ingress")
	policy("bank", "all", "", false)
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
