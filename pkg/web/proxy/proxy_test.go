package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// service is where the API server forwards requests to the relay.
const service = "/api/v1/namespaces/ovn-kubernetes/services/https:ovn-offload-relay:443/proxy"

// TestFind_TellsARelayThatDoesNotAnswerFromNone.
func TestFind_TellsARelayThatDoesNotAnswerFromNone(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		found  bool
		silent string
	}{
		{http.StatusOK, "ok", true, ""},
		{http.StatusNotFound, `{"kind":"Status","message":"services \"https:ovn-offload-relay:443\" not found"}`, false, ""},
		{http.StatusForbidden, `{"kind":"Status","message":"services is forbidden"}`, false, ""},
		{http.StatusServiceUnavailable, `{"kind":"Status","message":"no endpoints available for service"}`, false, "no endpoints available for service"},
		{http.StatusServiceUnavailable, "nodes are not read yet", false, "503 Service Unavailable nodes are not read yet"},
		{http.StatusBadGateway, "", false, "502 Bad Gateway"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != service+"/readyz" {
				t.Errorf("asked %s", r.URL)
			}
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		}))
		relay, err := Find(t.Context(), &rest.Config{Host: server.URL}, "ovn-kubernetes")
		server.Close()
		silent := ErrSilent{}
		if (relay != nil) != test.found || errors.As(err, &silent) != (test.silent != "") || silent.Why != test.silent {
			t.Errorf("%d: %v, %v", test.status, relay, err)
		}
		if test.silent != "" && !strings.Contains(err.Error(), "--direct") {
			t.Errorf("%v", err)
		}
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if relay, err := Find(t.Context(), &rest.Config{Host: gone.URL}, "ovn-kubernetes"); relay != nil || err == nil {
		t.Errorf("no API server: %v, %v", relay, err)
	}
}

// TestClient_ShowsTheCallersToken in a header of its own, at the Service.
func TestClient_ShowsTheCallersToken(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/readyz") {
			return
		}
		fmt.Fprint(w, r.URL.RequestURI(), " ", r.Header.Get(web.TokenHeader))
	}))
	defer server.Close()
	relay, err := Find(t.Context(), &rest.Config{Host: server.URL, BearerToken: "secret"}, "ovn-kubernetes")
	if err != nil || relay == nil {
		t.Fatal(relay, err)
	}
	got, err := relay.Client().Get("https://relay/api/v1/nodes/w1/v1/flows?namespace=shop")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if text, err := io.ReadAll(got.Body); err != nil || string(text) != service+"/api/v1/nodes/w1/v1/flows?namespace=shop secret" {
		t.Errorf("%s, %v", text, err)
	}
}
