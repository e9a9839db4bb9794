package snapshot

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// nodePage writes one node a page, in the binary format.
func nodePage(w http.ResponseWriter, r *http.Request) {
	list := &corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}}}
	list.Continue = "more"
	if r.URL.Query().Get("continue") == "more" {
		list.Continue, list.Items[0].Name = "", "w0"
	}
	list.Items[0].Status.Images = []corev1.ContainerImage{{Names: []string{"canary"}}}
	list.Items[0].Status.Addresses = []corev1.NodeAddress{{Address: "192.0.2.7"}}
	codecs := serializer.NewCodecFactory(api.Scheme())
	format, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	_ = codecs.EncoderForVersion(format.Serializer, corev1.SchemeGroupVersion).Encode(list, w)
}

// TestClient_ReadsBothFormats, page by page, and says what it may not read. An archive has the listed fields only.
func TestClient_ReadsBothFormats(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/nodes", nodePage)
	mux.HandleFunc("/apis/ovn-offload.io/v1alpha1/nodeoffloads", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("fieldSelector") != "metadata.name=w1" {
			t.Errorf("asked %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"NodeOffloadList","items":[{"metadata":{"name":"w1","managedFields":[{"manager":"canary"}]},"status":{"offload":"on","usedVFs":[{"pod":"shop/web"}]}}]}`))
	})
	mux.HandleFunc("/api/v1/pods", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden: no right","reason":"Forbidden","code":403}`))
	})
	server := httptest.NewServer(mux) // offloadpolicies: not found
	t.Cleanup(server.Close)
	from, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := ReadLists(t.Context(), from, "ovn-kubernetes", map[Resource][]Selected{
		Nodes: {{}}, NodeOffloads: {{Fields: "metadata.name=w1"}}, Pods: {{}}, OffloadPolicies: {{}},
	})
	if len(s.Missing) != 1 || s.Missing[Pods] != "pods is forbidden: no right" {
		t.Errorf("missing %v", s.Missing)
	}
	nodes, err := Objects[corev1.Node](s, Nodes)
	if err != nil || len(nodes) != 2 || nodes[0].Name != "w0" || nodes[1].Status.Addresses[0].Address != "192.0.2.7" {
		t.Errorf("%v, %v", nodes, err)
	}
	offloads, err := Objects[v1alpha1.NodeOffload](s, NodeOffloads)
	if err != nil || len(offloads) != 1 || offloads[0].Status.UsedVFs[0].Pod != "shop/web" {
		t.Errorf("%v, %v", offloads, err)
	}
	text, err := json.Marshal(s.Shared(Nodes))
	if err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("%s, %v", text, err)
	}
	read, err := Open(bytes.NewReader(archived(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	if offloads, err = Objects[v1alpha1.NodeOffload](read, NodeOffloads); err != nil || offloads[0].Status.UsedVFs[0].Pod != "shop/web" {
		t.Errorf("from an archive: %v, %v", offloads, err)
	}
}

// TestObjects_AreConvertedOnce: snapshots that share an object share its conversion.
func TestObjects_AreConvertedOnce(t *testing.T) {
	shared := NewObject(map[string]any{"metadata": map[string]any{"name": "w1"}, "status": map[string]any{"problems": []any{"a"}}})
	var first *string
	for range 2 {
		s := New(metav1.Now().Time, "")
		s.AddShared(NodeOffloads, shared)
		got, err := Objects[v1alpha1.NodeOffload](s, NodeOffloads)
		if err != nil {
			t.Fatal(err)
		}
		if at := &got[0].Status.Problems[0]; first != nil && at != first {
			t.Error("it was converted again")
		} else {
			first = at
		}
	}
}

// TestClient_ReadsPoliciesOfOtherGroups, of which it knows no types; a kind that the cluster does not have has none.
func TestClient_ReadsPoliciesOfOtherGroups(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"AdminNetworkPolicyList","apiVersion":"policy.networking.k8s.io/v1alpha1","metadata":{},"items":[
			{"kind":"AdminNetworkPolicy","apiVersion":"policy.networking.k8s.io/v1alpha1","metadata":{"name":"all","managedFields":[{"manager":"canary"}]},"spec":{"priority":7}}]}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	from, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := ReadLists(t.Context(), from, "ovn-kubernetes", map[Resource][]Selected{AdminNetworkPolicies: {{}}, MultiNetworkPolicies: {{}}})
	got, err := json.Marshal(s.Shared(AdminNetworkPolicies))
	if want := `[{"apiVersion":"policy.networking.k8s.io/v1alpha1","kind":"AdminNetworkPolicy","metadata":{"name":"all"},"spec":{"priority":7}}]`; err != nil || string(got) != want {
		t.Errorf("%v, %s", err, got)
	}
	if len(s.Missing) != 0 || len(s.Shared(MultiNetworkPolicies)) != 0 {
		t.Errorf("%v, %v", s.Missing, s.Shared(MultiNetworkPolicies))
	}
}
