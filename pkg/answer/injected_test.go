package answer

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/inject"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// TestNewInjected_SaysWhereItEnded: the object that dropped it, with the policies that select the pod; and where it was seen.
func TestNewInjected_SaysWhereItEnded(t *testing.T) {
	s := shop(t)
	s.Add(snapshot.NetworkPolicies, map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "all"}, "spec": map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Ingress"}},
	})
	drop := trace.Step{Where: "w2", What: "ingress policy: drop", Object: "NetworkPolicy/shop/all", Flow: "0000aaaa"}
	for name, c := range map[string]struct {
		seen    []inject.Sighting
		counted uint64
		problem string
		code    Code
		text    []string
	}{
		"arrived": {[]inject.Sighting{{Node: "w2", Pod: "shop/db-0", Interface: "eth0", Direction: "in", Packets: 1}}, 0, "", Good,
			[]string{"to pod/shop/db-0:80/tcp, sent on node w1: ARRIVED", "w2            shop/db-0  eth0       in         1", "nothing about offload", "trace pod/shop/web-0 pod/shop/db-0:80/tcp --live"}},
		"dropped": {nil, 1, "", Degraded, []string{"DROPPED", "1 on w2", "no interface of the nodes", "dropped by netpol/shop/all\nno rule allows it: netpol/shop/all selects pod/shop/db-0"}},
		"lost":    {nil, 0, "", Degraded, []string{"LOST", "no object that drops such packets"}},
		"not all could be looked at": {[]inject.Sighting{{Node: "w2", Pod: "shop/db-0", Interface: "eth0", Direction: "in", Packets: 1}}, 0, "pod shop/x: no interface", Uncertain,
			[]string{"ARRIVED", "not known: pod shop/x: no interface"}},
	} {
		connection := trace.Connection{From: "pod/shop/web-0", To: "pod/shop/db-0", Protocol: "tcp"}
		connection.Target = netip.MustParseAddrPort("10.244.2.9:80")
		r := &inject.Result{
			Plan: inject.Plan{
				Packets: inject.Packets{Connection: connection, Count: 1}, Sender: corev1.Pod{Spec: corev1.PodSpec{NodeName: "w1"}},
				Receivers: []corev1.Pod{{}}, Computed: &trace.Computed{Steps: []trace.Step{drop}, Verdict: trace.Dropped},
			},
			Seen: c.seen, Counted: map[string]inject.Counts{"w1": {}, "w2": {"0000aaaa": c.counted}},
		}
		if c.problem != "" {
			r.Problems = []string{c.problem}
		}
		i, err := NewInjected(s, r)
		if err != nil {
			t.Fatal(err)
		}
		text := textOf(t, i)
		for _, want := range c.text {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		if i.Code != c.code {
			t.Errorf("%s: exit code %d, want %d", name, i.Code, c.code)
		}
	}
}
