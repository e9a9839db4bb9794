package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// services are two in team-0: db has an address, and headless has none.
func services(w http.ResponseWriter, _ *http.Request) {
	list := &corev1.ServiceList{}
	for name, address := range map[string]string{"db": "10.96.0.44", "headless": corev1.ClusterIPNone} {
		svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team-0", Name: name}}
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.Selector = address, []string{address}, map[string]string{"app": "a"}
		svc.Spec.Ports = []corev1.ServicePort{{Port: 5432, Protocol: corev1.ProtocolTCP}}
		list.Items = append(list.Items, svc)
	}
	encode(w, list)
}

// agentPods are the network's own: an agent on each node.
func agentPods(w http.ResponseWriter, r *http.Request) {
	from, to, next := page(r, scaleNodes)
	selected := r.URL.Query()
	if node, ok := strings.CutPrefix(selected.Get("fieldSelector"), "spec.nodeName=w"); ok {
		from, _ = strconv.Atoi(node)
		to, next = from+1, ""
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{Continue: next}}
	if selected.Get("labelSelector") != "" { // databases and DPUs: there are none
		encode(w, list)
		return
	}
	for i := from; i < to; i++ {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ovn-kubernetes", Name: fmt.Sprintf("agent-w%04d", i), Labels: map[string]string{"app": byexec.App}}}
		p.Spec.NodeName, p.Spec.Containers = fmt.Sprintf("w%04d", i), []corev1.Container{{Name: byexec.Container}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: byexec.Container, Ready: true}}
		list.Items = append(list.Items, p)
	}
	encode(w, list)
}

// agent runs the command of an agent in its pod: the answer is in HTTP.
func agent(w http.ResponseWriter, r *http.Request) {
	node, _ := strconv.Atoi(strings.TrimPrefix(r.PathValue("pod"), "agent-w"))
	command := r.URL.Query()["command"]
	asked, _ := url.Parse(command[len(command)-1])
	channels := []wsstream.ChannelType{wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel}
	connection := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": {Binary: true, Channels: channels}})
	_, streams, err := connection.Open(w, r)
	if err != nil {
		return
	}
	defer connection.Close() //nolint:errcheck // the client has its answer
	answer := httptest.NewRecorder()
	_ = json.NewEncoder(answer).Encode(agentAnswer(node, asked))
	_ = answer.Result().Write(streams[1])
	_, _ = streams[3].Write([]byte(`{"metadata":{},"status":"Success"}`))
}

// begun is when the agents have begun to count. The pod J of a node has J+1 packets a second.
var begun = time.Now()

// agentAnswer has for each pod of the node what it sends by svc/db to the pod of its namespace on the next node.
func agentAnswer(node int, asked *url.URL) any {
	if asked.Path == flowapi.SummaryPath {
		s := flowapi.Summary{Node: fmt.Sprintf("w%04d", node), Taken: time.Now(), CountedSince: begun}
		since := uint64(s.Taken.Sub(begun).Milliseconds())
		for j := range scalePods {
			share := offload.Share{OVS: offload.Count{Flows: 1, Packets: uint64(10 * (j + 1)), Bytes: 1000}}
			counted := offload.Share{OVS: offload.Count{Packets: since * uint64(j+1) / 1000, Bytes: since * uint64(j+1)}}
			s.Pods = append(s.Pods, flowapi.PodSummary{Namespace: fmt.Sprintf("team-%d", j), Name: fmt.Sprintf("w%04d-pod-%d", node, j), Traffic: share, Counted: counted})
			s.Total.Add(share)
			s.Counted.Add(counted)
		}
		return s
	}
	list := flowapi.Flows{Taken: time.Now()}
	next := (node + 1) % scaleNodes
	for j := range scalePods {
		end := flowapi.End{Port: "a", Namespace: fmt.Sprintf("team-%d", j), Pod: fmt.Sprintf("w%04d-pod-%d", node, j)}
		if q := asked.Query(); q.Get("namespace") != "" && q.Get("namespace") != end.Namespace || q.Get("pod") != "" && q.Get("pod") != end.Pod {
			continue
		}
		list.Flows = append(list.Flows, flowapi.Flow{
			ID: fmt.Sprint(j), From: end, To: []flowapi.End{{Port: "genev_sys_6081"}}, Packet: flowapi.Packet{Protocol: "tcp", Target: podAddress(next, j), TargetPort: "5432", Tunnel: nodeAddress(next)},
			Placed: flowapi.Placed{Place: offload.OVS}, Traffic: flowapi.Traffic{Packets: 9}, DecidedBy: []string{"Service/team-0/db"},
		})
	}
	list.Matched = len(list.Flows)
	return list
}

// largeVerbs are those with the objects of the large cluster: which lists of pods they read, and how many agents they ask.
func largeVerbs() map[string]struct {
	reads  []string
	agents int
} {
	node := func(n int) string { return fmt.Sprintf("/api/v1/pods spec.nodeName=w%04d", n) }
	own := "/api/v1/namespaces/ovn-kubernetes/pods "
	return map[string]struct {
		reads  []string
		agents int
	}{
		"trace --live pod/w0007-pod-0 pod/w0008-pod-0:5432 -n team-0": {[]string{own, node(7), node(8), node(9), "/api/v1/namespaces/team-0/pods metadata.name=w0007-pod-0", "/api/v1/namespaces/team-0/pods metadata.name=w0008-pod-0"}, 2},
		"trace --live pod/w0007-pod-0 10.0.8.4:5432 -n team-0":        {[]string{own, node(7), node(8), node(9), "/api/v1/namespaces/team-0/pods metadata.name=w0007-pod-0"}, 2},
		"trace pod/w0007-pod-0 192.0.2.7:443 -n team-0":               {[]string{own, node(7), "/api/v1/pods status.podIP=192.0.2.7", "/api/v1/namespaces/team-0/pods metadata.name=w0007-pod-0"}, 0},
		"flows --node w0007":            {[]string{own, node(7), node(8)}, 1},
		"top --interval 0 --node w0007": {[]string{own}, 1},
	}
}

// run gives what a verb prints, and its exit code.
func run(b testing.TB, verb, config string) (string, int) {
	b.Helper()
	cmd := command()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs(append(strings.Fields(verb), "--kubeconfig", config))
	err := cmd.ExecuteContext(b.Context())
	code, _ := exitCode(err)
	return fmt.Sprint(out.String(), err), code
}

// TestVerbs_ReadAndAskNoMoreThanNeeded: the list of all pods, or a question to all agents, takes longest in a large cluster.
func TestVerbs_ReadAndAskNoMoreThanNeeded(t *testing.T) {
	var reads []string
	var agents int
	var mu sync.Mutex
	config := largeCluster(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/exec"):
			agents++
		case strings.HasSuffix(path, "/pods") && r.URL.Query().Get("labelSelector") == "":
			reads = append(reads, path+" "+r.URL.Query().Get("fieldSelector"))
		}
	})
	for verb, want := range largeVerbs() {
		reads, agents = nil, 0
		out, _ := run(t, verb, config)
		slices.Sort(reads)
		slices.Sort(want.reads)
		if got := slices.Compact(reads); !slices.Equal(got, want.reads) || agents != want.agents {
			t.Errorf("%s: read %q, want %q, and asked %d agents, want %d:\n%.600s", verb, got, want.reads, agents, want.agents, out)
		}
	}
}

// BenchmarkVerbs_TwoThousandNodes: the API server and the agents are fakes in the same process, so their time counts. There is no
// database, so that of ovn-trace does not.
func BenchmarkVerbs_TwoThousandNodes(b *testing.B) {
	klog.LogToStderr(false) // the fake's connections end with its server
	klog.SetOutput(io.Discard)
	var asked atomic.Int64
	config := largeCluster(b, func(*http.Request) { asked.Add(1) })
	for _, verb := range []string{
		"status", "explain node/w0007", "explain --worst 10", "explain pod/w0007-pod-0 -n team-0", "trace pod/w0007-pod-0 pod/w0008-pod-0:5432 -n team-0",
		"trace --live pod/w0007-pod-0 pod/w0008-pod-0:5432 -n team-0", "flows --node w0007", "flows -n team-0", "explain svc/db -n team-0", "top", "top --node w0007", "top --interval 0", "top --interval 0 --node w0007",
	} {
		b.Run(strings.ReplaceAll(strings.ReplaceAll(verb, " ", "-"), "/", "-"), func(b *testing.B) {
			asked.Store(0)
			for b.Loop() {
				if out, _ := run(b, verb, config); len(out) == 0 {
					b.Fatal("no answer")
				}
			}
			b.ReportMetric(float64(asked.Load())/float64(b.N), "requests")
		})
	}
}
