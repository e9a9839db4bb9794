package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

var taken = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fake are facts from a fixture.
type fake struct{ s *snapshot.Snapshot }

func (f fake) Snapshot(context.Context, Want) (*snapshot.Snapshot, error) { return f.s, nil }

// Flows has one of the pod web-0, to a Service and to a pod of another namespace.
func (f fake) Flows(_ context.Context, pod, node string) (*FlowList, error) {
	if pod != "shop/web-0" && node != "worker-1" {
		return nil, ErrNoRelay
	}
	rate := 68100.0
	from := flowapi.End{Port: "pf0vf1", Namespace: "shop", Pod: "web-0"}
	why := &flowapi.Why{ID: "u1", Obstacles: []offload.Obstacle{{Reason: offload.ReasonAction, Detail: "hash(l4)"}, {Reason: offload.ReasonOutput}}}
	return &FlowList{Node: "worker-1", Taken: f.s.Taken, Matched: 3, Ends: f.s, Flows: []flowapi.Flow{
		{ID: "u1", From: from, Packet: flowapi.Packet{Protocol: "udp", Source: "10.244.1.7", Target: "10.96.0.44", TargetPort: "9000"},
			Placed: flowapi.Placed{Place: offload.TC, Reason: offload.ReasonAction, Detail: "hash(l4)"}, Traffic: flowapi.Traffic{Packets: 900, PacketsPerSecond: &rate}, DecidedBy: []string{"Service/shop/db"}, Why: why},
		{ID: "u2", From: from, To: []flowapi.End{{Port: "genev_sys_6081"}}, Packet: flowapi.Packet{Protocol: "tcp", Source: "10.244.1.7", Target: "10.244.2.9"},
			Placed: flowapi.Placed{Place: offload.Hardware}, Traffic: flowapi.Traffic{Packets: 800}},
		{ID: "u3", From: from, Packet: flowapi.Packet{Protocol: "tcp", Source: "10.244.1.7", Target: "10.244.2.10"}, Way: flowapi.Way{Drops: true},
			Placed: flowapi.Placed{Place: offload.OVS}, Traffic: flowapi.Traffic{Packets: 3}, DecidedBy: []string{"NetworkPolicy/shop/deny"}},
	}}, nil
}

func (f fake) Traffic(context.Context) (*Traffic, error) {
	t := &Traffic{Agents: 3, Failed: []string{"node/worker-3: it does not answer"}, Pods: []PodRate{{Pod: "shop/web-0", Node: "worker-1", Hardware: 40, Outside: 68110, Reason: "action", Detail: "hash(l4)"}}}
	for i := range 120 {
		t.Sums = append(t.Sums, Sum{Taken: f.s.Taken.Add(time.Duration(i-119) * 30 * time.Second), Hardware: float64(90000 + i%7*3000), Software: float64(20000 + i*400), Nodes: 3, Failed: 1})
	}
	return t, nil
}

// Streams are those of a shop: clients ask the database by its Service, a crawler is refused, and DNS is in another namespace.
func (f fake) Streams(_ context.Context, namespaces []string) (*StreamList, error) {
	if slices.Contains(namespaces, "quiet") {
		return &StreamList{Taken: f.s.Taken, Missing: []string{"flows: the agent of a node does not answer"}}, nil
	}
	rate := func(n float64) *float64 { return &n }
	stream := func(from, to, via, port string, place offload.Place, packets uint64, perSecond *float64, by ...string) streams.Stream {
		return streams.Stream{
			Node: "worker-1", Ends: streams.Ends{From: from, To: to, Via: via, Protocol: "tcp", Port: port}, Placed: flowapi.Placed{Place: place},
			Packets: packets, PacketsPerSecond: perSecond, Decision: streams.Decision{DecidedBy: by},
		}
	}
	refused := stream("pod/shop/crawler-0", "pod/shop/db-0", "", "5432", offload.OVS, 44, rate(2), "NetworkPolicy/shop/deny")
	refused.Drops = true
	list := []streams.Stream{
		stream("pod/shop/web-0", "svc/shop/db", "pod/shop/db-0", "5432", offload.Hardware, 40000, rate(4000), "Service/shop/db", "NetworkPolicy/shop/db-ingress"),
		stream("pod/shop/web-0", "svc/shop/db", "pod/shop/db-1", "5432", offload.TC, 10000, rate(1000), "Service/shop/db", "NetworkPolicy/shop/db-ingress"),
		stream("pod/shop/db-0", "pod/shop/web-0", "", "", offload.Hardware, 38000, rate(3800)),
		stream("pod/shop/web-0", "svc/kube-system/kube-dns", "pod/kube-system/coredns-1", "53", offload.OVS, 12, nil, "Service/kube-system/kube-dns"),
		stream("pod/shop/web-0", "192.0.2.80", "", "443", offload.Hardware, 900, rate(90)),
		stream("192.0.2.80", "pod/shop/web-0", "", "41000", offload.Hardware, 800, rate(80)),
		stream("node/worker-1", "pod/shop/web-0", "", "8080", offload.OVS, 30, rate(1)),
		refused,
	}
	return &StreamList{Taken: f.s.Taken, Named: true, Streams: list}, nil
}

// Live has packets to the database, in both directions between two nodes and on each partly in software, and others to port 22 that a
// policy drops. The agent of the pod alone does not answer, and there is no node gone.
func (f fake) Live(_ context.Context, from, to string) (*answer.Live, error) {
	switch from {
	case "pod/shop/alone", "node/worker-4":
		return nil, errors.New("the agent of worker-4 does not answer")
	case "node/gone":
		return nil, trace.ErrNoObject("node gone")
	}
	ends := streams.Ends{From: from, To: "svc/shop/db", Protocol: "tcp", Port: "5432"}
	l, err := answer.NewLive(f.s, ends, "", nil, nil)
	if err != nil || strings.Contains(to, ":9/") {
		return l, err
	}
	leg := func(node string, back bool, place offload.Place, rate float64, steps ...answer.LiveStep) answer.Leg {
		at := flowapi.Placed{Place: place}
		if place == offload.TC {
			at.Reason, at.Detail = offload.ReasonAction, "hash(l4)"
		}
		ends := ends
		ends.Via = "pod/shop/db-1"
		s := streams.Stream{Node: node, Ends: ends, Placed: at, Packets: uint64(rate * 10), PacketsPerSecond: &rate, Tunnel: "192.0.2.12"}
		return answer.Leg{Back: back, Stream: s, Parts: []answer.LegFlow{{ID: "0f6c1d2e-" + node, Placed: at, Packets: s.Packets, Steps: steps, TC: ruleOf(node, back, place)}}}
	}
	egress := answer.LiveStep{Stage: "ls_in_acl_eval", What: "egress[0]: allow-related", Objects: []string{"NetworkPolicy/shop/web-egress"}}
	balanced := answer.LiveStep{Stage: "ls_in_lb", What: "load balancer: to pod/shop/db-1", Objects: []string{"Service/shop/db"}}
	ingress := answer.LiveStep{Stage: "ls_out_acl_eval", What: "ingress[1]: allow-related", Objects: []string{"NetworkPolicy/shop/db-ingress"}}
	l.Flows, l.Named = 5, 4
	l.Verdict, l.Legs = answer.Allowed, []answer.Leg{
		leg("worker-1", false, offload.Hardware, 90000, egress, balanced), leg("worker-1", false, offload.TC, 200, egress, balanced), leg("worker-2", false, offload.Hardware, 90200, ingress),
		leg("worker-2", true, offload.Hardware, 45000), leg("worker-1", true, offload.OVS, 3, egress),
	}
	if strings.Contains(to, ":22/") {
		refused := leg("worker-2", false, offload.OVS, 12, answer.LiveStep{Stage: "ls_out_acl_eval", What: "ingress policy: drop", Objects: []string{"NetworkPolicy/shop/deny"}})
		refused.Drops, refused.DecidedBy = true, []string{"NetworkPolicy/shop/deny"}
		l.Verdict, l.To, l.Port, l.Legs = answer.Dropped, "pod/shop/db-1", "22", []answer.Leg{leg("worker-1", false, offload.OVS, 12, egress), refused}
	}
	return l, nil
}

// ruleOf is the rule of TC of a leg. That of packets that come back is not known.
func ruleOf(node string, back bool, place offload.Place) *flowapi.TCRule {
	switch {
	case place == offload.OVS:
		return nil
	case back:
		return &flowapi.TCRule{Problem: "TC has no rule of the flow on pf0vf5 now"}
	case place == offload.TC:
		return &flowapi.TCRule{Device: "pf0vf1", Chain: 18, Priority: 3, Handle: 26}
	}
	return &flowapi.TCRule{Device: map[string]string{"worker-1": "pf0vf1", "worker-2": "genev_sys_6081"}[node], Priority: 2, Handle: 1, InHardware: true, Packets: 899_000}
}

// Trace drops what goes to port 22, and delivers the rest.
func (f fake) Trace(_ context.Context, _, to string) (*answer.Traced, error) {
	c := trace.Connection{Source: netip.MustParseAddr("10.244.1.7"), Target: netip.MustParseAddrPort("10.96.0.44:5432"), Protocol: "tcp", Asked: "pod/shop/web-0 svc/shop/db:5432/tcp"}
	steps := []trace.Step{
		{Where: "worker-1", What: "egress[0]: allow-related", Object: "NetworkPolicy/shop/web-egress"},
		{Where: "worker-1", What: "load balancer: to one of 10.244.2.9:5432, 10.244.2.10:5432, 10.244.3.4:5432", Object: "Service/shop/db"},
		{Where: "ovn_cluster_router", What: "route 10.244.2.0/24"},
	}
	if strings.Contains(to, ":22/") {
		return answer.NewTraced(f.s, c, append(steps[:1], trace.Step{Where: "worker-2", What: "ingress policy: drop", Object: "NetworkPolicy/shop/deny"}), trace.Dropped), nil
	}
	steps = append(steps, trace.Step{Where: "worker-2", What: "ingress[1]: allow-related", Object: "NetworkPolicy/shop/db-ingress"}, trace.Step{Where: "shop_db-1", What: "delivered"})
	return answer.NewTraced(f.s, c, steps, trace.Delivered), nil
}

func resources() map[string]snapshot.Resource {
	return map[string]snapshot.Resource{
		"Node": snapshot.Nodes, "Pod": snapshot.Pods, "Event": snapshot.Events, "Lease": snapshot.Leases, "Deployment": snapshot.Deployments,
		"DaemonSet": snapshot.DaemonSets, "NodeOffload": snapshot.NodeOffloads, "NetworkPolicy": snapshot.NetworkPolicies, "Service": snapshot.Services,
	}
}

// fixture reads the cluster of a file in testdata.
func fixture(t testing.TB, name string, at time.Time) (*txtar.Archive, fake) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(text)
	for _, ago := range []time.Duration{10 * time.Second, 2 * time.Hour} { // the clock of a fixture goes with its snapshot
		archive.Files[0].Data = bytes.ReplaceAll(archive.Files[0].Data, []byte(taken.Add(-ago).Format("2006-01-02T15:04:05")), []byte(at.UTC().Add(-ago).Format("2006-01-02T15:04:05")))
	}
	s := snapshot.New(at, "ovn-kubernetes")
	for _, document := range strings.Split(string(archive.Files[0].Data), "\n---\n") {
		var object map[string]any
		if err := utilyaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		r, ok := resources()[fmt.Sprint(object["kind"])]
		if !ok {
			t.Fatalf("no kind %v", object["kind"])
		}
		s.Add(r, object)
	}
	return archive, fake{s}
}

// large is a cluster of many nodes with a NIC, each with pods.
func large(at time.Time, nodes int) fake {
	s := snapshot.New(at, "ovn-kubernetes")
	s.Add(snapshot.Deployments, map[string]any{"metadata": map[string]any{"name": "ovnkube-master"}, "spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"readyReplicas": int64(1)}})
	for i := range nodes {
		name := fmt.Sprintf("worker-%04d", i)
		s.Add(snapshot.Nodes, map[string]any{
			"metadata": map[string]any{"name": name, "labels": map[string]any{"topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%4)}},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
		})
		status := map[string]any{"offload": "on", "deviceCount": int64(1), "hardwarePercent": int64(100 - i%20*5)}
		if i%97 == 0 {
			status["problems"] = []any{"0000:3b:00.0: the driver is not bound"}
		}
		s.Add(snapshot.NodeOffloads, map[string]any{"metadata": map[string]any{"name": name}, "status": status})
	}
	return fake{s}
}
