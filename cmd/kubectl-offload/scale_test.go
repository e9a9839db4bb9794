package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// The cluster of the benchmark.
const (
	scaleNodes = 2000
	scalePods  = 50 // a node
)

// page is that which a request for a list of n objects asks for.
func page(r *http.Request, n int) (from, to int, next string) {
	q := r.URL.Query()
	if name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok {
		digits := strings.TrimPrefix(name, "w")
		from, _ = strconv.Atoi(digits[:min(4, len(digits))])
		return from, from + 1, ""
	}
	from, _ = strconv.Atoi(q.Get("continue"))
	to = n
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 {
		to = min(n, from+limit)
	}
	if to < n {
		next = strconv.Itoa(to)
	}
	return from, to, next
}

// encode writes a list as the API server does for who accepts its binary format.
func encode(w http.ResponseWriter, list runtime.Object) {
	codecs := serializer.NewCodecFactory(api.Scheme())
	format, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	if err := codecs.EncoderForVersion(format.Serializer, corev1.SchemeGroupVersion).Encode(list, w); err != nil {
		panic(err)
	}
}

// nodes are as large as those of kubelets that report 50 images.
func nodes(w http.ResponseWriter, r *http.Request) {
	from, to, next := page(r, scaleNodes)
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{Continue: next}}
	for i := from; i < to; i++ {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w%04d", i), Labels: map[string]string{corev1.LabelTopologyZone: "a"}}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress(i)}}
		n.Annotations = map[string]string{contract.NodeSubnetsKey: fmt.Sprintf(`{"default":["10.%d.%d.0/24"]}`, i/250, i%250)}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "kubelet is posting ready status"}}
		for j := range 50 {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", j, j)}, SizeBytes: 123456789})
		}
		list.Items = append(list.Items, n)
	}
	encode(w, list)
}

func nodeAddress(i int) string { return fmt.Sprintf("192.168.%d.%d", i/250, i%250+1) }

func podAddress(node, j int) string { return fmt.Sprintf("10.%d.%d.%d", node/250, node%250, j+4) }

// pods are 50 a node, with 20 variables each. Each namespace team-J has one on each node.
func pods(w http.ResponseWriter, r *http.Request) {
	selected, inNamespace := r.URL.Query().Get("fieldSelector"), strings.TrimPrefix(r.PathValue("namespace"), "team-")
	from, to, next := page(r, scaleNodes*scalePods)
	step := 1
	if node, ok := strings.CutPrefix(selected, "spec.nodeName=w"); ok {
		n, _ := strconv.Atoi(node)
		from, to, next = n*scalePods, (n+1)*scalePods, ""
	} else if selected != "" {
		from *= scalePods
		to = from + 1
	} else if team, err := strconv.Atoi(inNamespace); err == nil {
		from, to, next = page(r, scaleNodes)
		from, to, step = from*scalePods+team, to*scalePods, scalePods
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{Continue: next}}
	for i := from; i < to; i += step {
		n, j := i/scalePods, i%scalePods
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", j), Name: fmt.Sprintf("w%04d-pod-%d", n, j), Labels: map[string]string{"app": "a"}, Annotations: map[string]string{
			contract.PodNetworksKey: fmt.Sprintf(`{"default":{"ip_addresses":["%s/24"],"mac_address":"0a:58:0a:01:02:03","gateway_ips":["10.%d.%d.1"]}}`, podAddress(n, j), n/250, n%250),
		}}}
		p.Spec.NodeName, p.Status.Phase, p.Status.PodIPs = fmt.Sprintf("w%04d", n), corev1.PodRunning, []corev1.PodIP{{IP: podAddress(n, j)}}
		p.Spec.Containers = []corev1.Container{{Name: "a", Image: "example.com/a", Env: slices.Repeat([]corev1.EnvVar{{Name: "A_VARIABLE", Value: "some value of the environment"}}, 20)}}
		list.Items = append(list.Items, p)
	}
	encode(w, list)
}

// nodeOffloads are JSON: the API server has our kinds in no other format.
func nodeOffloads(w http.ResponseWriter, r *http.Request) {
	from, to, next := page(r, scaleNodes)
	var items []string
	for i := from; i < to; i++ {
		items = append(items, nodeOffload(i))
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"kind":"NodeOffloadList","apiVersion":"ovn-offload.io/v1alpha1","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
}

func nodeOffload(i int) string {
	var used, traffic []string
	for j := range scalePods {
		pod := fmt.Sprintf("team-%d/w%04d-pod-%d", j, i, j)
		used = append(used, fmt.Sprintf(`{"device":"0000:3b:%02x.0","pf":"0000:3b:00.0","pod":%q,"phase":"attached","resource":"ovn-offload.io/vf"}`, j, pod))
		if j < 16 {
			share := `{"hardware":95,"tc":5,"ovs":0}`
			traffic = append(traffic, fmt.Sprintf(`{"pod":%q,"port":"pf0vf%d","flows":%s,"packets":%s,"outside":[{"reason":"action","detail":"hash(l4)"}]}`, pod, j, share, share))
		}
	}
	problems := ""
	if i%20 == 0 {
		problems = fmt.Sprintf(`"problems":["0000:3b:00.0: problem %d"],`, i)
	}
	return fmt.Sprintf(`{"kind":"NodeOffload","apiVersion":"ovn-offload.io/v1alpha1","metadata":{"name":"w%04d"},"status":{%s"offload":"on","hardwarePercent":95,"deviceCount":1,"vfs":{"total":64,"used":50,"reserved":0,"free":14},`+
		`"devices":[{"name":"0000:3b:00.0","uplink":"ens1f0np0","mode":"switchdev","link":"up","numa":0,"maxVFs":64,"vfs":{"total":64,"used":50,"reserved":0,"free":14}}],"usedVFs":[%s],"traffic":[%s]}}`, i, problems, strings.Join(used, ","), strings.Join(traffic, ","))
}

// largeCluster serves its API.
func largeCluster(t testing.TB, asked func(*http.Request)) (kubeconfig string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/nodes", nodes)
	mux.HandleFunc("/apis/ovn-offload.io/v1alpha1/nodeoffloads", nodeOffloads)
	mux.HandleFunc("/api/v1/pods", pods)
	mux.HandleFunc("/api/v1/services", services)
	mux.HandleFunc("/api/v1/namespaces/ovn-kubernetes/pods/{pod}/exec", agent)
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("namespace") == "ovn-kubernetes" {
			agentPods(w, r)
			return
		}
		pods(w, r)
	})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked(r); mux.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	return kubeconfigOf(t, server)
}

// kubeconfigOf is a file with the address of a server, and a token.
func kubeconfigOf(t testing.TB, server *httptest.Server) string {
	t.Helper()
	authority, config := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority":%q}}],"users":[{"name":"u","user":{"token":"secret"}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"current-context":"c"}`, server.URL, authority)
	for path, content := range map[string][]byte{authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), config: []byte(text)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// TestExplain_ReadsNoListOfAllPods: in a large cluster that took 20 seconds.
func TestExplain_ReadsNoListOfAllPods(t *testing.T) {
	var asked []string
	var mu sync.Mutex
	config := largeCluster(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path+" "+r.URL.Query().Get("fieldSelector"))
	})
	for object, want := range map[string]string{"pod/w0007-pod-0": "pod/team-0/w0008-pod-0", "node/w0007": "node/w0007"} {
		asked = nil
		cmd := command()
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"explain", object, "-n", "team-0", "--kubeconfig", config})
		_ = cmd.ExecuteContext(t.Context()) // the exit code of a cluster in which no agent answers
		if kind, _, _ := strings.Cut(object, "/"); kind == "pod" {
			topology, code := run(t, "topology "+object+" -n team-0", config)
			if code != 0 || !strings.Contains(topology, "VF 0000:3b:00.0  pod/team-0/w0007-pod-0") || strings.Contains(topology, "pod-1 ") {
				t.Errorf("exit code %d: %s", code, topology)
			}
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "0000:3b:") {
			t.Errorf("%s", out.String())
		}
		for _, path := range []string{"/api/v1/pods ", "/api/v1/nodes ", "/apis/ovn-offload.io/v1alpha1/nodeoffloads "} {
			if slices.Contains(asked, path) && (path != "/api/v1/nodes " || object == "node/w0007") { // nodes name the ends of tunnels
				t.Errorf("%s: asked for all of %s", object, path)
			}
		}
	}
}

// TestStatus_IsOneScreenOfALargeCluster, whatever the number of its problems, and asks for 500 objects at a time.
func TestStatus_IsOneScreenOfALargeCluster(t *testing.T) {
	var asked atomic.Int64
	config := largeCluster(t, func(*http.Request) { asked.Add(1) })
	out, _ := run(t, "status", config)
	if lines := strings.Count(out, "\n"); lines > 40 || !strings.Contains(out, "of 2000 nodes") || !strings.Contains(out, "86 more problems not shown") {
		t.Errorf("%d lines: %s", lines, out)
	}
	lists := len(answer.StatusResources()) + 1 // Events have two reporters
	if pages, want := int(asked.Load()), lists+2*(scaleNodes/500-1); pages != want {
		t.Errorf("%d requests, want %d", pages, want)
	}
	if out, _ = run(t, "status --problems", config); strings.Count(out, "0000:3b:00.0: problem ") != scaleNodes/20 || strings.Contains(out, "offload  ") {
		t.Errorf("--problems: %s", out)
	}
}
