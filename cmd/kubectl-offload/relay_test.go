package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// TestPage_ReachesTheRelayThroughTheAPIServer with the caller's token in a header of its own; paths are computed here. Without
// a relay, the API server alone is read.
func TestPage_ReachesTheRelayThroughTheAPIServer(t *testing.T) {
	const proxy = "/api/v1/namespaces/ovn-kubernetes/services/https:ovn-offload-relay:443/proxy"
	ready := http.StatusOK
	var token, cookie string
	mayExec := false
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%v}}`, mayExec)
	})
	mux.HandleFunc(proxy+"/readyz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(ready) })
	mux.HandleFunc(proxy+"/api/v1/views/{view}", func(w http.ResponseWriter, r *http.Request) {
		token, cookie = r.Header.Get(web.TokenHeader), r.Header.Get("Cookie")
		fmt.Fprint(w, "of the relay: "+r.PathValue("view")+" "+r.URL.RawQuery)
	})
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	config := kubeconfigOf(t, server)
	get := func(path string) string {
		o := readOptions{clusterOptions: clusterOptions{kubeconfig: config, system: "ovn-kubernetes"}}
		page, err := o.page(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
		r.AddCookie(&http.Cookie{Name: "ovn-offload", Value: "local"})
		page.ServeHTTP(w, r)
		return w.Body.String()
	}
	if got := get("/api/v1/views/pod?name=shop/web"); got != "of the relay: pod name=shop/web" || token != "secret" || cookie != "" {
		t.Errorf("%q with token %q and cookie %q", got, token, cookie)
	}
	if got := get("/api/v1/views/path"); got == "of the relay: path " {
		t.Error("a path was asked of the relay")
	}
	const policies = "/api/v1/views/policies?namespaces=shop"
	if got := get(policies); got != "of the relay: policies namespaces=shop" {
		t.Errorf("who may not run commands beside the databases gets %q", got)
	}
	mayExec = true
	if got := get(policies); strings.Contains(got, "of the relay") || !strings.Contains(got, `"namespaces":["shop"]`) {
		t.Errorf("who may run commands beside the databases gets %q", got)
	}
	ready = http.StatusServiceUnavailable
	o := readOptions{clusterOptions: clusterOptions{kubeconfig: config, system: "ovn-kubernetes"}}
	if _, err := o.page(t.Context()); err == nil || !strings.Contains(err.Error(), "the relay of this cluster does not answer") {
		t.Errorf("a relay that does not answer: %v", err)
	}
	ready = http.StatusNotFound
	if got := get("/api/v1/views/pod?name=shop/web"); got == "of the relay: pod name=shop/web" {
		t.Error("a relay that is not there was asked")
	}
}
