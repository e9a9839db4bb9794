package relay

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// The cluster of the benchmark.
const (
	scaleNodes = 2000
	scalePods  = 50 // a node
)

// agentsVariable has this test serve agents, and nothing else.
const agentsVariable = "OVN_OFFLOAD_SIMULATED_AGENTS"

// TestServeSimulatedAgents is the other process of the benchmark: the memory of the agents is not the relay's.
func TestServeSimulatedAgents(t *testing.T) {
	if os.Getenv(agentsVariable) == "" {
		t.Skip("a part of BenchmarkRelay_TwoThousandAgents")
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		r.URL.Path = "/" + rest
		flowapi.Handler(simulated(node)).ServeHTTP(w, r)
	}))
	fmt.Printf("serving %s %s\n", server.URL, strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), "\n", "|"))
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the benchmark ends
}

// simulated is the agent of a node.
type simulated string

func (s simulated) Summary(context.Context, bool) (*flowapi.Summary, error) {
	out := &flowapi.Summary{Node: string(s), Taken: time.Now(), Seconds: 30, Total: offload.Share{Hardware: offload.Count{Packets: 1_000_000}, TC: offload.Count{Packets: 20_000}}}
	for i := range scalePods {
		out.Pods = append(out.Pods, flowapi.PodSummary{
			Namespace: fmt.Sprintf("team-%d", i), Name: fmt.Sprintf("%s-pod-%d", s, i), Ports: []string{fmt.Sprintf("pf0vf%d", i)}, VF: true, Reason: offload.ReasonAction, Detail: "hash(l4)",
			Traffic: offload.Share{Hardware: offload.Count{Flows: 12, Packets: 20_000, Bytes: 20_000_000}, TC: offload.Count{Flows: 2, Packets: uint64(i), Bytes: 100 * uint64(i)}},
		})
	}
	return out, nil
}

func (s simulated) Flows(_ context.Context, q flowapi.Query) (*flowapi.Flows, error) {
	out := &flowapi.Flows{Node: string(s), Taken: time.Now(), Matched: 14}
	for i := range out.Matched {
		out.Flows = append(out.Flows, flowapi.Flow{ID: strconv.Itoa(i), From: flowapi.End{Port: "pf0vf1", Namespace: q.Namespace, Pod: q.Pod}})
	}
	return out, nil
}

func (simulated) Why(context.Context, string) (*flowapi.Why, error) { return nil, flowapi.ErrNoFlow }

// startAgents starts the other process, and gives a client of each agent with a connection of its own.
func startAgents(b *testing.B) map[string]flowapi.Source {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeSimulatedAgents$", "-test.v")
	cmd.Env = append(os.Environ(), agentsVariable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text, ok := strings.CutPrefix(lines.Text(), "serving ")
		if !ok {
			continue
		}
		address, certificate, _ := strings.Cut(text, " ")
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(strings.ReplaceAll(certificate, "|", "\n")))
		agents := map[string]flowapi.Source{}
		for i := range scaleNodes {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}
			agents[nodeName(i)] = flowapi.Client{URL: address + "/" + nodeName(i), HTTP: &http.Client{Transport: transport}}
		}
		return agents
	}
	b.Fatal("the agents do not start")
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("w%04d", i) }

// apiServer has the nodes, and the pods of one of them.
func apiServer() *fake.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{}
	for _, r := range snapshot.All() {
		kinds[r.Kind()] = "List"
	}
	var objects []kuberuntime.Object
	add := func(version, kind string, metadata map[string]any, fields map[string]any) {
		fields["apiVersion"], fields["kind"], fields["metadata"] = version, kind, metadata
		objects = append(objects, &unstructured.Unstructured{Object: fields})
	}
	for i := range scaleNodes {
		var used, worst []any
		for j := range scalePods {
			pod := fmt.Sprintf("team-%d/%s-pod-%d", j, nodeName(i), j)
			used = append(used, map[string]any{"device": fmt.Sprintf("0000:3b:%02x.0", j), "pf": "0000:3b:00.0", "pod": pod, "phase": "attached"})
			if j < 16 {
				share := map[string]any{"hardware": int64(95), "tc": int64(5), "ovs": int64(0)}
				worst = append(worst, map[string]any{"pod": pod, "port": fmt.Sprintf("pf0vf%d", j), "flows": share, "packets": share, "outside": []any{map[string]any{"reason": "action", "detail": "hash(l4)"}}})
			}
		}
		add("v1", "Node", map[string]any{"name": nodeName(i)}, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}})
		add("ovn-offload.io/v1alpha1", "NodeOffload", map[string]any{"name": nodeName(i)}, map[string]any{"status": map[string]any{
			"offload": "on", "hardwarePercent": int64(95), "deviceCount": int64(1), "usedVFs": used, "traffic": worst, "vfs": map[string]any{"total": int64(64), "used": int64(50), "reserved": int64(0), "free": int64(14)},
			"devices": []any{map[string]any{"name": "0000:3b:00.0", "uplink": "ens1f0np0", "mode": "switchdev", "link": "up", "numa": int64(0), "maxVFs": int64(64), "vfs": map[string]any{"total": int64(64), "used": int64(50), "reserved": int64(0), "free": int64(14)}}},
		}})
	}
	for j := range scalePods {
		add("v1", "Pod", map[string]any{"namespace": fmt.Sprintf("team-%d", j), "name": fmt.Sprintf("w0000-pod-%d", j)}, map[string]any{"spec": map[string]any{"nodeName": "w0000"}, "status": map[string]any{"phase": "Running"}})
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(kuberuntime.NewScheme(), kinds, objects...)
}

// BenchmarkRelay_TwoThousandAgents: one relay, 2,000 agents with 50 pods each over TLS. The fake API server is in the
// relay's process, so that its memory counts with that of the relay.
func BenchmarkRelay_TwoThousandAgents(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	agents := startAgents(b)
	followed, err := NewFollowed(apiServer(), "ovn-kubernetes")
	if err != nil {
		b.Fatal(err)
	}
	go followed.Run(ctx)
	for followed.Synced() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	g := NewGathered(func() map[string]flowapi.Source { return agents })
	r := New(followed, NewReviewer(&rights{of: map[string][]Right{
		"admin":  {{NodeOffloads, ""}, {PodOffloads, ""}, {PodFlows, ""}},
		"tenant": {{PodOffloads, "team-1"}, {PodFlows, "team-1"}},
	}}), g.agents, g, nil)
	g.Gather(ctx, time.Now()) // opens the connections
	b.Run("gather", func(b *testing.B) {
		before := processorTime()
		for b.Loop() {
			g.Gather(ctx, time.Now())
		}
		b.ReportMetric((processorTime()-before).Seconds()/float64(b.N)/period.Seconds(), "cores-at-rest")
		if nodes, failed := g.Summaries(); len(nodes) != scaleNodes {
			b.Fatalf("%d nodes, %d failed", len(nodes), len(failed))
		}
		reportMemory(b)
	})
	own := url.Values{"name": {"team-1/w0000-pod-1"}}
	for _, view := range []struct {
		name, caller, view string
		q                  url.Values
	}{
		{"status", "admin", "overview", nil}, {"explain", "admin", "pod", own}, {"explain-tenant", "tenant", "pod", own}, {"top", "admin", "traffic", nil}, {"top-tenant", "tenant", "traffic", nil},
	} {
		b.Run(view.name, func(b *testing.B) {
			for b.Loop() {
				followed.mu.Lock()
				followed.built = nil // nothing was read by an earlier view
				followed.mu.Unlock()
				if code, body := get(b, r, view.caller, view.view, view.q); code != http.StatusOK {
					b.Fatal(code, body)
				}
			}
			reportMemory(b) // views keep objects in their types
		})
	}
}

func reportMemory(b *testing.B) {
	b.Helper()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.HeapAlloc)/1e6, "MB-heap")
	b.ReportMetric(float64(memory.Sys-memory.HeapReleased)/1e6, "MB-of-the-system")
}

// processorTime is that of this process.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // cannot fail for oneself
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
