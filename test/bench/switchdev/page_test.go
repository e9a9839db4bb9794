//go:build bench

package switchdev

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
	"github.com/ovn-offload/ovn-offload/pkg/web/direct"
	"github.com/ovn-offload/ovn-offload/pkg/web/scene"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// List has the nodes and pods of the API server in memory (snapshot.Lister).
func (p *product) List(ctx context.Context, r snapshot.Resource, of snapshot.Selected, options metav1.ListOptions) ([]*snapshot.Object, string, error) {
	var objects []runtime.Object
	switch r {
	case snapshot.Nodes:
		list, err := p.server.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	case snapshot.Pods:
		list, err := p.server.CoreV1().Pods(of.Namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	var out []*snapshot.Object
	for _, object := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, "", err
		}
		out = append(out, snapshot.NewObject(fields))
	}
	return out, "", nil
}

// page serves the page with the flows of a node.
func (p *product) page(n *ovsNode) *httptest.Server {
	source := n.source()
	facts := direct.New(direct.Config{From: p, System: "ovn-kubernetes", Flows: func(ctx context.Context, _ []corev1.Pod, _ []string, q flowapi.Query) ([]*flowapi.Flows, []string, error) {
		flows, err := source.Flows(ctx, q)
		return []*flowapi.Flows{flows}, nil, err
	}})
	server := httptest.NewServer((&web.Server{Facts: func(*http.Request) (web.Facts, error) { return facts, nil }, Period: direct.Refresh}).Handler())
	p.t.Cleanup(server.Close)
	return server
}

// waysOf are the lines of the page's map between two ends, by band.
func waysOf(t *testing.T, server *httptest.Server, ends string) map[scene.Place]scene.Line {
	t.Helper()
	reply, err := server.Client().Get(server.URL + "/api/v1/views/map?namespaces=default")
	ok(t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	ok(t, err)
	var view web.View
	if err := json.Unmarshal(text, &view); err != nil || view.Scene == nil {
		t.Fatalf("the map is %s: %v", text, err)
	}
	out := map[scene.Place]scene.Line{}
	for _, line := range view.Scene.Lines {
		if strings.HasPrefix(line.Words, ends+":") {
			out[line.Place] = line
		}
	}
	return out
}

// TestPage_AWayChangesItsBand: on the page's map the way between two pods on VFs is in the band of hardware. Offload is switched off
// on the node, and at a later reading of the flows the same way is in the band of software, with the reason.
func TestPage_AWayChangesItsBand(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "pkg/web has the same with flows of its own")
	p := newProduct(t, true)
	n := p.nodes[0]
	for vf, name := range []string{"a", "b"} {
		p.add(name, n, vf)
		pod, err := p.server.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		ok(t, err)
		pod.Status.Phase = corev1.PodRunning
		_, err = p.server.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		ok(t, err)
		for i := range n.ports {
			if n.ports[i].Name == p.pods[name].rep {
				n.ports[i].Pod = contract.PodOwner("default", name)
			}
		}
	}
	w := way{what: "same node", client: p.pods["a"].gate(), server: p.pods["b"].gate(), to: []string{p.pods["b"].v4}}
	server, words := p.page(n), w.words("600")
	w.begin(t)
	traffic := exec.Command(words[0], words[1:]...)
	ok(t, traffic.Start())
	defer func() { _ = traffic.Process.Kill(); _ = traffic.Wait() }()

	const ends = "pod/default/a and pod/default/b"
	shows := func(place scene.Place, reason string) (scene.Line, bool) {
		ways := waysOf(t, server, ends)
		t.Logf("%+v", ways)
		line := ways[place]
		return line, line.Percent >= 90 && strings.Contains(line.Words, reason)
	}
	eventually(t, "the way is in the band of hardware", 2*patience, func() bool { _, is := shows(scene.PlaceHardware, " in hardware"); return is })
	if line, is := shows(scene.PlaceSoftware, "offload-off"); is {
		t.Errorf("with offload: %+v", line)
	}
	n.withoutOffload()
	off := time.Now()
	eventually(t, "the way is in the band of software, with the reason", 2*patience, func() bool { _, is := shows(scene.PlaceSoftware, "offload-off"); return is })
	t.Logf("%s after the restart of ovs-vswitchd without hw-offload", time.Since(off).Round(time.Second))
	if line, is := shows(scene.PlaceHardware, ""); is {
		t.Errorf("without offload: %+v", line)
	}
}
