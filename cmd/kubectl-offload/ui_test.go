package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// TestPage_IsThatOfTheRelay: flows are named here for users who may run commands beside the databases. For others, and where
// the API server does not say, they are those of the relay.
func TestPage_IsThatOfTheRelay(t *testing.T) {
	for name, test := range map[string]struct {
		review func(http.ResponseWriter)
		here   bool
	}{
		"may":       {func(w http.ResponseWriter) { fmt.Fprint(w, review(true)) }, true},
		"may not":   {func(w http.ResponseWriter) { fmt.Fprint(w, review(false)) }, false},
		"not known": {func(w http.ResponseWriter) { http.Error(w, "no webhook answers", http.StatusInternalServerError) }, false},
	} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
				w.Header().Set("Content-Type", "application/json")
				test.review(w)
			case strings.HasSuffix(r.URL.Path, "/proxy/readyz"):
			case strings.Contains(r.URL.Path, "/proxy/api/v1/views/"):
				fmt.Fprint(w, "of the relay, for ", r.Header.Get(web.TokenHeader))
			default:
				http.NotFound(w, r)
			}
		}))
		o := readOptions{clusterOptions: clusterOptions{kubeconfig: kubeconfigOf(t, server), system: "ovn-kubernetes"}}
		page, err := o.page(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for view, here := range map[string]bool{"health": false, "path": true, "flows": test.here, "map": test.here} {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/views/"+view, nil))
			if got := w.Body.String() != "of the relay, for secret"; got != here {
				t.Errorf("%s: %s is made here: %t, want %t: %s", name, view, got, here, w.Body)
			}
		}
		server.Close()
	}
}

func review(allowed bool) string {
	return fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":%t}}`, allowed)
}
