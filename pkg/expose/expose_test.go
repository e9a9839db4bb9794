package expose

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// review is an API server that knows three accounts.
func review(_ context.Context, token, path string) (bool, error) {
	if token == "broken" {
		return false, errors.New("no API server")
	}
	return token == "prometheus" && path == "/metrics", nil
}

func TestRun_MetricsElsewhereWantATokenThatMayGetThem(t *testing.T) {
	registry := prometheus.NewRegistry()
	pods := prometheus.NewGauge(prometheus.GaugeOpts{Name: "a_tenants_pods", Help: "x"})
	registry.MustRegister(pods)
	var ready error
	cfg := Config{
		Local: freeAddress(t), Secure: freeAddress(t), Gatherer: registry, Ready: func() error { return ready },
		Allowed: review, Logger: slog.New(slog.DiscardHandler),
	}
	go Run(t.Context(), cfg)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(url, token string) (int, string) {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			response, err := client.Do(request)
			if err == nil {
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				return response.StatusCode, string(body)
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		url, token string
		code       int
	}{
		{"http://" + cfg.Local + "/metrics", "", 200},
		{"http://" + cfg.Local + "/healthz", "", 200},
		{"http://" + cfg.Local + "/readyz", "", 200},
		{"https://" + cfg.Secure + "/metrics", "", 401},
		{"https://" + cfg.Secure + "/metrics", "tenant", 403},
		{"https://" + cfg.Secure + "/metrics", "broken", 503},
		{"https://" + cfg.Secure + "/metrics", "prometheus", 200},
		{"https://" + cfg.Secure + "/readyz", "prometheus", 404},
		{"http://" + cfg.Secure + "/metrics", "prometheus", 400},
	} {
		code, body := ask(tc.url, tc.token)
		if code != tc.code || strings.Contains(body, "a_tenants_pods") != (tc.code == 200 && strings.HasSuffix(tc.url, "/metrics")) {
			t.Errorf("%s with token %q: %d, want %d: %s", tc.url, tc.token, code, tc.code, body)
		}
	}
	ready = errors.New("not yet")
	if code, body := ask("http://"+cfg.Local+"/readyz", ""); code != 503 || !strings.Contains(body, "not yet") {
		t.Errorf("not ready: %d %s", code, body)
	}
}

// TestRun_ServesMoreByTheCertificateOfTheCaller.
func TestRun_ServesMoreByTheCertificateOfTheCaller(t *testing.T) {
	certificate, err := SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Local: freeAddress(t), Secure: freeAddress(t), Gatherer: prometheus.NewRegistry(), Allowed: review, Logger: slog.New(slog.DiscardHandler), Certificate: &certificate,
		More: map[string]http.Handler{"/more": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "more") })},
	}
	go Run(t.Context(), cfg)
	seen := ""
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
		seen = Fingerprint(tls.Certificate{Certificate: [][]byte{s.PeerCertificates[0].Raw}})
		return nil
	}}}}
	get := func(url string) (int, error) {
		response, err := client.Get(url)
		if err != nil {
			return 0, err
		}
		response.Body.Close()
		return response.StatusCode, nil
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		code, err := get("https://" + cfg.Secure + "/more")
		if err == nil && code == 200 && seen == Fingerprint(certificate) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d, %v, certificate %s", code, err, seen)
		}
	}
	if code, err := get("http://" + cfg.Local + "/more"); code != 404 || err != nil {
		t.Errorf("on the loopback address: %d, %v", code, err)
	}
}

// TestServe_TakesLongTokens, as those of accounts with many groups, and no headers without end.
func TestServe_TakesLongTokens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go Serve(t.Context(), listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(tokenOf(r))) }), slog.New(slog.DiscardHandler))
	for size, want := range map[int]int{100: 200, 48 << 10: 200, 200 << 10: 431} {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), nil)
		request.Header.Set("Authorization", "Bearer "+strings.Repeat("x", size))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("a token of %d bytes: %d, want %d", size, response.StatusCode, want)
		}
	}
}

func TestRun_PlainOnlyAtTheLoopback(t *testing.T) {
	for _, address := range []string{":9410", "0.0.0.0:9410", "172.18.0.3:9410", "[::]:9410", "localhost:9410", "9410"} {
		if err := Run(t.Context(), Config{Local: address}); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestGuard_AsksOnceAMinuteAndBoundsUnknownTokens(t *testing.T) {
	now, asked := time.Now(), map[string]int{}
	g := NewGuard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "get /metrics", func(_ context.Context, token string) (bool, error) {
		asked[token]++
		return token == "prometheus", nil
	})
	g.now = func() time.Time { return now }
	ask := func(token string) int {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Code
	}
	for range 5 {
		if code := ask("prometheus"); code != 200 {
			t.Fatal(code)
		}
	}
	if asked["prometheus"] != 1 {
		t.Errorf("asked %d times within a minute", asked["prometheus"])
	}
	codes := map[int]int{}
	for i := range 1000 {
		codes[ask(fmt.Sprint("unknown", i))]++
	}
	if codes[http.StatusForbidden] > reviewsPerMinute || codes[http.StatusForbidden]+codes[http.StatusTooManyRequests] != 1000 || len(asked) > reviewsPerMinute+1 {
		t.Errorf("answers %v, the API server was asked for %d tokens", codes, len(asked))
	}
	now = now.Add(remembered - time.Second)
	for i := range 1000 { // a new minute of unknown tokens is about to begin
		ask(fmt.Sprint("later", i))
	}
	now = now.Add(2 * time.Second)
	if code := ask("prometheus"); code != 200 || asked["prometheus"] != 2 {
		t.Errorf("behind unknown tokens: %d, asked %d times", code, asked["prometheus"])
	}
	if len(g.answers) > maxTokens {
		t.Errorf("%d answers kept", len(g.answers))
	}
}
