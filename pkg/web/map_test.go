package web

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/web/scene"
)

// random makes streams between workloads, with circles, services and drops.
func random(r *rand.Rand, workloads int) []streams.Stream {
	var out []streams.Stream
	pod := func() string { return fmt.Sprintf("pod/shop/w%d", r.IntN(workloads)) }
	for range workloads * 2 {
		s := streams.Stream{Node: "n", Ends: streams.Ends{From: pod(), To: pod(), Port: fmt.Sprint(80 + r.IntN(3))}, Placed: flowapi.Placed{Place: offload.Hardware}, Packets: uint64(1 + r.IntN(1000))}
		if r.IntN(3) == 0 {
			s.Via, s.To = s.To, fmt.Sprintf("svc/shop/s%d", r.IntN(5))
		}
		s.Drops = r.IntN(9) == 0
		out = append(out, s)
	}
	return out
}

func mapOf(t *testing.T, list []streams.Stream) (*Map, *scene.Scene) {
	t.Helper()
	g, err := newGraph(snapshot.New(taken, "ovn-kubernetes"), []string{"shop"})
	if err != nil {
		t.Fatal(err)
	}
	g.addAll(list)
	m := &Map{Edges: g.list()}
	return m, newMap(g, m)
}

// TestMap_IsTheSameForAnyOrder of streams; its boxes are inside, and none covers another.
func TestMap_IsTheSameForAnyOrder(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		list := random(r, 2+r.IntN(40))
		m, s := mapOf(t, list)
		want, err := json.Marshal([]any{m, s})
		if err != nil {
			t.Fatal(err)
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		m, again := mapOf(t, list)
		if got, _ := json.Marshal([]any{m, again}); string(got) != string(want) {
			t.Fatalf("seed %d: another map for another order", seed)
		}
		for i, b := range s.Boxes {
			if b.X < 0 || b.Y < 0 || b.X+b.W > s.Width || b.Y+b.H > s.Height {
				t.Errorf("seed %d: %s is outside", seed, b.ID)
			}
			for _, other := range s.Boxes[:i] {
				if b.X < other.X+other.W && other.X < b.X+b.W && b.Y < other.Y+other.H && other.Y < b.Y+b.H {
					t.Errorf("seed %d: %s covers %s", seed, b.ID, other.ID)
				}
			}
		}
		for _, l := range s.Lines {
			for _, p := range l.Points {
				if p[0] < 0 || p[1] < 0 || p[0] > s.Width || p[1] > s.Height {
					t.Errorf("seed %d: %s leaves the drawing", seed, l.Words)
				}
			}
		}
	}
}

// TestMap_BoundsWhatIsDrawn to the ends with the most packets, and says how many are not.
func TestMap_BoundsWhatIsDrawn(t *testing.T) {
	var list []streams.Stream
	for i := range maxEnds + 10 {
		list = append(list, streams.Stream{Node: "n", Ends: streams.Ends{From: fmt.Sprintf("pod/shop/w%03d", i), To: "svc/shop/db"}, Placed: flowapi.Placed{Place: offload.TC}, Packets: uint64(1000 - i)})
	}
	m, s := mapOf(t, list)
	if len(s.Boxes) != maxEnds || m.Omitted != 11 || slices.ContainsFunc(s.Boxes, func(b scene.Box) bool { return b.ID == "pod/shop/w069" }) {
		t.Errorf("%d boxes, %d omitted", len(s.Boxes), m.Omitted)
	}
}

// mesh are streams from each of some workloads to all after it, the later ones with more packets.
func mesh(workloads int) []streams.Stream {
	var list []streams.Stream
	for i := range workloads {
		for j := range i {
			list = append(list, streams.Stream{
				Node: "n", Ends: streams.Ends{From: fmt.Sprintf("pod/shop/w%03d", j), To: fmt.Sprintf("pod/shop/w%03d", i), Port: "80"},
				Placed: flowapi.Placed{Place: offload.Hardware}, Packets: uint64(i*workloads + j + 1),
			})
		}
	}
	return list
}

// TestMap_BoundsTheLines of a full mesh to those with the most packets, and says how many are not drawn.
func TestMap_BoundsTheLines(t *testing.T) {
	m, s := mapOf(t, mesh(maxEnds))
	if all := maxEnds * (maxEnds - 1) / 2; len(m.Edges) != all || len(s.Lines) != maxEdges || m.OmittedEdges != all-maxEdges || len(s.Boxes) != maxEnds {
		t.Errorf("%d edges, %d lines, %d omitted, %d boxes", len(m.Edges), len(s.Lines), m.OmittedEdges, len(s.Boxes))
	}
	drawn := func(from, to string) bool {
		return slices.ContainsFunc(s.Lines, func(l scene.Line) bool { return strings.HasPrefix(l.Words, from+" and "+to+":") })
	}
	if !drawn("pod/shop/w058", "pod/shop/w059") || drawn("pod/shop/w000", "pod/shop/w001") {
		t.Error("the lines are not those with the most packets")
	}
	alone := mesh(2)[0]
	alone.To = alone.From
	if m, s = mapOf(t, []streams.Stream{alone}); m.OmittedEdges != 0 || len(s.Boxes) != 1 || s.Boxes[0].Text[1] != "its lines are not drawn" {
		t.Errorf("an end with packets and no line: %+v", s.Boxes)
	}
}

// TestLayers_SweepIsFast, also of a full mesh, in which each end has a column of its own and 34,000 bends are to be sorted.
// The time is the processor's: a busy machine does not change it.
func TestLayers_SweepIsFast(t *testing.T) {
	m, _ := mapOf(t, mesh(maxEnds))
	l := &layers{edges: m.Edges, rank: map[string]int{}, bends: map[int][]string{}, before: map[string][]string{}}
	l.order()
	l.fill()
	if len(l.columns) != maxEnds {
		t.Fatalf("%d columns", len(l.columns))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano())
	}
	before := used()
	for range 4 {
		l.sweep()
	}
	if took := used() - before; took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestMap_CountsOnceWhatTwoNodesSee, and joins both directions at the end that asks.
func TestMap_CountsOnceWhatTwoNodesSee(t *testing.T) {
	rate := 10.0
	stream := func(node, from, to, port string, place offload.Place) streams.Stream {
		return streams.Stream{Node: node, Ends: streams.Ends{From: from, To: to, Port: port}, Placed: flowapi.Placed{Place: place}, Packets: 100, PacketsPerSecond: &rate}
	}
	m, _ := mapOf(t, []streams.Stream{
		stream("a", "pod/shop/z", "pod/shop/b", "80", offload.Hardware), stream("b", "pod/shop/z", "pod/shop/b", "80", offload.OVS),
		stream("a", "pod/shop/b", "pod/shop/z", "40000", offload.Hardware), stream("b", "pod/shop/b", "pod/shop/z", "40000", offload.OVS),
	})
	e := m.Edges[0]
	if len(m.Edges) != 1 || e.From != "pod/shop/z" || e.Packets != 200 || *e.PacketsPerSecond != 20 || *e.Hardware != 50 {
		t.Errorf("%+v", m.Edges)
	}
}

// TestMap_LeavesOutWildcardsOfTunnels: the node at its other end has the same packets with their ends.
func TestMap_LeavesOutWildcardsOfTunnels(t *testing.T) {
	wildcard := streams.Stream{Node: "b", Ends: streams.Ends{From: "10.244.0.0/16", To: "pod/shop/b"}, Placed: flowapi.Placed{Place: offload.TC}, Packets: 5}
	m, _ := mapOf(t, []streams.Stream{wildcard})
	if len(m.Edges) != 1 || m.Edges[0].From != unknown {
		t.Errorf("without a tunnel: %+v", m.Edges)
	}
	wildcard.Tunnel = "192.0.2.1"
	if m, _ = mapOf(t, []streams.Stream{wildcard}); len(m.Edges) != 0 {
		t.Errorf("from a tunnel: %+v", m.Edges)
	}
}

// TestNewStreamList_HasNoStreamOfOthers, and says whether the objects that decide are known.
func TestNewStreamList_HasNoStreamOfOthers(t *testing.T) {
	end := func(namespace string) flowapi.End { return flowapi.End{Port: "p", Namespace: namespace, Pod: "x"} }
	flows := []flowapi.Flow{{ID: "1", From: end("shop"), To: []flowapi.End{end("bank")}}, {ID: "2", From: end("bank"), To: []flowapi.End{end("bank")}}}
	list, err := NewStreamList(snapshot.New(taken, ""), flows, []string{"shop"}, nil)
	if err != nil || len(list.Streams) != 1 || list.Streams[0].From != "pod/shop/x" || list.Named {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = NewStreamList(snapshot.New(taken, ""), append(flows, flows...), []string{"shop"}, []string{"b", "a", "b"}); err != nil || len(list.Streams) != 1 || len(list.Streams[0].Flows) != 1 || len(list.Missing) != 2 {
		t.Errorf("what is given twice: %+v, %v", list, err)
	}
	flows[0].DecidedBy = []string{"NetworkPolicy/shop/deny"}
	if list, err = NewStreamList(snapshot.New(taken, ""), flows, []string{"shop"}, nil); err != nil || !list.Named {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestHealth_NamesWhatIsAmiss: a roll-out that has not begun, a DPU, and a certificate.
func TestHealth_NamesWhatIsAmiss(t *testing.T) {
	s := snapshot.New(taken, "ovn-kubernetes")
	s.Add(snapshot.Deployments, map[string]any{"metadata": map[string]any{"name": "ovnkube-master", "generation": int64(3)}, "status": map[string]any{"observedGeneration": int64(2), "replicas": int64(2), "updatedReplicas": int64(2)}})
	for _, name := range []string{"a", "b"} {
		s.Add(snapshot.Nodes, map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"k8s.ovn.org/dpu-host": ""}}})
	}
	s.Add(snapshot.Leases, map[string]any{"metadata": map[string]any{"name": "ovn-dpu-a", "namespace": "ovn-kubernetes"}, "spec": map[string]any{"leaseDurationSeconds": int64(40), "renewTime": "2026-03-01T11:59:50.000000Z"}})
	s.Add(snapshot.Events, map[string]any{
		"metadata": map[string]any{"name": "e"}, "type": "Warning", "reason": "DPUTokenExpires", "note": "the token ends in two days", "regarding": map[string]any{"kind": "Node", "name": "a"}, "eventTime": "2026-03-01T11:59:00.000000Z",
	})
	v, err := Build(t.Context(), fake{s}, "health", nil)
	if err != nil {
		t.Fatal(err)
	}
	h := v.Answer.(*Health)
	if len(h.Rollout) != 1 || !h.Rollout[0].Unseen || len(h.Pairs) != 2 || h.Pairs[0].Host != "b" || !strings.Contains(h.Pairs[0].State, "no DPU has joined") || h.Pairs[1].State != "ready" {
		t.Errorf("%+v, %+v", h.Rollout, h.Pairs)
	}
	if len(h.Certificates) != 1 || h.Agents.Nodes != 2 || h.Agents.Reported != 0 || h.Agents.Relay == nil || h.Agents.Relay.Answered != 3 {
		t.Errorf("%+v, %+v", h.Certificates, h.Agents)
	}
}

// TestMap_SaysWhyPacketsAreOutsideHardware, by the reason of most of them.
func TestMap_SaysWhyPacketsAreOutsideHardware(t *testing.T) {
	stream := func(packets uint64, placed flowapi.Placed) streams.Stream {
		return streams.Stream{Node: "n", Ends: streams.Ends{From: "pod/shop/a", To: "pod/shop/b", Port: "80"}, Placed: placed, Packets: packets}
	}
	hardware := stream(700, flowapi.Placed{Place: offload.Hardware})
	m, s := mapOf(t, []streams.Stream{
		hardware, stream(100, flowapi.Placed{Place: offload.TC, Reason: offload.ReasonAction, Detail: "hash(l4)"}),
		stream(200, flowapi.Placed{Place: offload.OVS, Reason: offload.ReasonPort, Detail: "hw-tc-offload is off"}),
	})
	if m.Edges[0].Reason != "port hw-tc-offload is off" || len(s.Lines) != 2 || !strings.HasSuffix(s.Lines[0].Words, "70 % in hardware") || !strings.HasSuffix(s.Lines[1].Words, "30 % in software: port hw-tc-offload is off") {
		t.Errorf("%+v, %+v", m.Edges, s.Lines)
	}
	if m, s = mapOf(t, []streams.Stream{hardware}); m.Edges[0].Reason != "" || len(s.Lines) != 1 {
		t.Errorf("all in hardware: %+v, %+v", m.Edges, s.Lines)
	}
}
