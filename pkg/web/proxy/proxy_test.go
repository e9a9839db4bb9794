package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// forwarded is where the API server forwards requests to the relay.
const forwarded = "/api/v1/namespaces/ovn-kubernetes/services/https:ovn-offload-relay:443/proxy"

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
		{http.StatusServiceUnavailable, `{"kind":"Status","message":"no endpoints available for service"}`, false, "no endpoints available for service"},
		{http.StatusServiceUnavailable, "nodes are not read yet", false, "503 Service Unavailable nodes are not read yet"},
		{http.StatusBadGateway, "", false, "502 Bad Gateway"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != forwarded+"/readyz" {
				t.Errorf("asked %s", r.URL)
			}
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		}))
		relay, err := Find(t.Context(), &rest.Config{Host: server.URL}, "ovn-kubernetes", unsaid(t))
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
	if relay, err := Find(t.Context(), &rest.Config{Host: gone.URL}, "ovn-kubernetes", unsaid(t)); relay != nil || err == nil {
		t.Errorf("no API server: %v, %v", relay, err)
	}
}

// TestFind_TellsARelayThatRefusesFromNone: the API server answers 403 for a Service that there is not, too, and the Service itself
// tells the difference.
func TestFind_TellsARelayThatRefusesFromNone(t *testing.T) {
	for name, test := range map[string]struct {
		readyz, service int
		denied          bool
	}{
		"no right to the proxy, and a relay":   {403, 200, true},
		"no right to the proxy, and no relay":  {403, 404, false},
		"no right to anything":                 {403, 403, true},
		"a token that has ended":               {401, 401, true},
		"no relay, and the right to look":      {404, 404, false},
		"no relay, and the right to the proxy": {404, 403, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := map[string]int{forwarded + "/readyz": test.readyz, "/api/v1/namespaces/ovn-kubernetes/services/ovn-offload-relay": test.service}[r.URL.Path]
			if status == 0 {
				t.Errorf("%s: asked %s", name, r.URL.Path)
				status = 500
			}
			w.WriteHeader(status)
			fmt.Fprint(w, `{"kind":"Status","message":"services is forbidden"}`)
		}))
		relay, err := Find(t.Context(), &rest.Config{Host: server.URL}, "ovn-kubernetes", unsaid(t))
		server.Close()
		if relay != nil || errors.As(err, new(ErrDenied)) != test.denied || !test.denied && err != nil || test.denied && !strings.Contains(err.Error(), "--direct") {
			t.Errorf("%s: %v, %v", name, relay, err)
		}
	}
}

// unsaid is for what says nothing to the user.
func unsaid(t *testing.T) func(string) {
	t.Helper()
	return func(text string) { t.Errorf("said to the user: %s", text) }
}

// cluster is an API server before a relay that says which request it got, with which token.
type cluster struct {
	user string
	// makes are the accounts "namespace/name" of which the caller may make tokens.
	makes []string
	// broken: token requests end with an error that is no refusal.
	broken bool

	shown, asked []string
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(r.URL.Path, "/")
	switch {
	case strings.HasPrefix(r.URL.Path, forwarded):
		if token := r.Header.Get(web.TokenHeader); token != "" {
			c.shown = append(c.shown, token)
		}
		fmt.Fprint(w, r.URL.RequestURI())
	case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
		fmt.Fprintf(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":%q}}}`, c.user)
	case strings.HasSuffix(r.URL.Path, "/token") && len(parts) == 8: // /api/v1/namespaces/NAMESPACE/serviceaccounts/NAME/token
		account := parts[4] + "/" + parts[6]
		body, _ := io.ReadAll(r.Body)
		c.asked = append(c.asked, account)
		switch {
		case c.broken:
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"no etcd"}`, http.StatusInternalServerError)
		case !slices.Contains(c.makes, account) || !strings.Contains(string(body), `"audiences":["ovn-offload-relay"]`):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"cannot create serviceaccounts/token"}`)
		default:
			fmt.Fprintf(w, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":%q}}`, "of "+account)
		}
	default:
		http.NotFound(w, r)
	}
}

// TestClient_ShowsATokenForTheRelayAloneFirst: the caller's own is shown only where none can be made, which is said once.
func TestClient_ShowsATokenForTheRelayAloneFirst(t *testing.T) {
	const viewer, job = "ovn-kubernetes/ovn-offload-viewer", "shop/job"
	impersonates := rest.ImpersonationConfig{UserName: "tenant"}
	for name, test := range map[string]struct {
		api    cluster
		config rest.Config
		shown  string // "": nothing
		said   int
		fails  string
	}{
		"an administrator":                {cluster{user: "admin", makes: []string{viewer, job}}, rest.Config{BearerToken: "secret"}, "of " + viewer, 0, ""},
		"an administrator by certificate": {cluster{user: "admin", makes: []string{viewer}}, rest.Config{}, "of " + viewer, 0, ""},
		"an account that may":             {cluster{user: accountPrefix + "shop:job", makes: []string{job}}, rest.Config{BearerToken: "secret"}, "of " + job, 0, ""},
		"an account that may not":         {cluster{user: accountPrefix + "shop:job"}, rest.Config{BearerToken: "secret"}, "secret", 1, ""},
		"a user":                          {cluster{user: "tenant", makes: []string{job}}, rest.Config{BearerToken: "secret"}, "secret", 1, ""},
		"a user by certificate":           {cluster{user: "tenant"}, rest.Config{}, "", 0, "has no token"},
		"no answer of the API server":     {cluster{user: "admin", broken: true}, rest.Config{BearerToken: "secret"}, "", 0, "no etcd"},
		"as another user":                 {cluster{user: "tenant"}, rest.Config{BearerToken: "secret", Impersonate: impersonates}, "", 0, "act as tenant"},
	} {
		server := httptest.NewServer(&test.api)
		test.config.Host = server.URL
		var said []string
		relay, err := Find(t.Context(), &test.config, "ovn-kubernetes", func(text string) { said = append(said, text) })
		if err != nil || relay == nil {
			t.Fatal(name, relay, err)
		}
		for range 2 {
			got, err := relay.Client().Get("https://relay/api/v1/nodes/w1/v1/flows?namespace=shop")
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("%s: %v, want an error with %q", name, err, test.fails)
				}
				continue
			}
			if err != nil {
				t.Fatal(name, err)
			}
			text, err := io.ReadAll(got.Body)
			got.Body.Close()
			if err != nil || string(text) != forwarded+"/api/v1/nodes/w1/v1/flows?namespace=shop" {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		}
		want := []string{test.shown, test.shown}
		if test.shown == "" {
			want = nil
		}
		if !slices.Equal(test.api.shown, want) || len(said) != test.said {
			t.Errorf("%s: the relay was shown %q, want %q; said to the user: %q", name, test.api.shown, want, said)
		}
		if n := len(test.api.asked); n > 2 && !test.api.broken {
			t.Errorf("%s: two requests made %d token requests: %q", name, n, test.api.asked)
		}
		server.Close()
	}
}
