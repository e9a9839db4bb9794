package token

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

var (
	account = types.NamespacedName{Namespace: "ovn-dpu", Name: "worker-1"}
	start   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

const day = 24 * time.Hour

// jwt makes a token with the claims of one of the API server, and no good signature.
func jwt(subject string, issued, expires time.Time) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"iss":"https://kubernetes.default.svc","sub":%q,"iat":%d,"exp":%d}`, subject, issued.Unix(), expires.Unix())
	return strings.Join([]string{encode([]byte(`{"alg":"RS256"}`)), encode([]byte(claims)), encode([]byte("signature"))}, ".")
}

func worker(issued, expires time.Time) string {
	return jwt("system:serviceaccount:ovn-dpu:worker-1", issued, expires)
}

func TestParse_ServiceAccountGivesAccountAndValidity(t *testing.T) {
	got, err := Parse(worker(start, start.Add(90*day)) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.Account != account || !got.Issued.Equal(start) || !got.Expires.Equal(start.Add(90*day)) {
		t.Errorf("%+v", got)
	}
}

func TestParse_OtherTextsAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "no JSON Web Token",
		"a.!.c":                     "decoding the token",
		"a." + "bm90IGpzb24" + ".c": "decoding the token",
		jwt("kubernetes-admin", start, start.Add(day)):         "is no service account",
		jwt("system:serviceaccount:none", start, start.Add(1)): "is no service account",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// fixture is a Renewer with a clock, and what came of its passes.
type fixture struct {
	*Renewer
	requested, warned []string
	refuse            error
	now               time.Time
}

func newFixture(t *testing.T, rc *rest.Config) *fixture {
	f := &fixture{now: start}
	cfg := Defaults(rc)
	cfg.Now = func() time.Time { return f.now }
	cfg.Logger, cfg.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	cfg.Warn = func(message string) { f.warned = append(f.warned, message) }
	cfg.Request = func(_ context.Context, of types.NamespacedName, validity time.Duration) (string, error) {
		f.requested = append(f.requested, fmt.Sprint(of, " ", validity))
		return worker(f.now, f.now.Add(validity)), f.refuse
	}
	f.Renewer = NewRenewer(cfg)
	return f
}

func inFile(t *testing.T, token string) *rest.Config {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return &rest.Config{BearerTokenFile: path, BearerToken: token}
}

func TestRenewer_FileIsReplacedAfterAThird(t *testing.T) {
	f := newFixture(t, inFile(t, worker(start, start.Add(90*day))))
	f.now = start.Add(30*day - time.Second)
	if err := f.pass(t.Context()); err != nil || len(f.requested) != 0 {
		t.Fatalf("before a third: %v, %q", err, f.requested)
	}
	f.now = start.Add(30 * day)
	if err := f.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.requested) != 1 || f.requested[0] != "ovn-dpu/worker-1 2160h0m0s" {
		t.Errorf("requested %q", f.requested)
	}
	claims, err := f.cfg.Claims()
	if err != nil || !claims.Expires.Equal(f.now.Add(90*day)) {
		t.Errorf("the file has %+v, %v", claims, err)
	}
	if got := testutil.ToFloat64(f.expiry); got != float64(f.now.Add(90*day).Unix()) {
		t.Errorf("expiry %v", got)
	}
	if len(f.warned) != 0 {
		t.Errorf("warned of %q", f.warned)
	}
}

func TestRenewer_RefusalKeepsTokenAndWarnsInTheLastThirtyDays(t *testing.T) {
	before := worker(start, start.Add(90*day))
	f := newFixture(t, inFile(t, before))
	f.refuse = errors.New("forbidden")
	f.now = start.Add(59 * day)
	if err := f.pass(t.Context()); !errors.Is(err, f.refuse) || len(f.warned) != 0 {
		t.Fatalf("31 days left: %v, %q", err, f.warned)
	}
	f.now = start.Add(61 * day)
	if err := f.pass(t.Context()); !errors.Is(err, f.refuse) {
		t.Fatal(err)
	}
	if len(f.warned) != 1 || !strings.Contains(f.warned[0], "ends at 2026-04-01T00:00:00Z: renewing the token of ovn-dpu/worker-1: forbidden") {
		t.Errorf("29 days left: %q", f.warned)
	}
	if kept, _ := os.ReadFile(f.cfg.File); string(kept) != before {
		t.Errorf("the file has %s", kept)
	}
}

func TestRenewer_InlineTokenIsOnlyReported(t *testing.T) {
	f := newFixture(t, &rest.Config{BearerToken: worker(start, start.Add(365*day))})
	for _, tc := range []struct {
		age    time.Duration
		warned int
	}{{300 * day, 0}, {340 * day, 1}} {
		f.now = start.Add(tc.age)
		if err := f.pass(t.Context()); err != nil || len(f.warned) != tc.warned {
			t.Errorf("after %s: %v, %q", tc.age, err, f.warned)
		}
	}
	if len(f.requested) != 0 {
		t.Errorf("requested %q", f.requested)
	}
	if got := testutil.ToFloat64(f.expiry); got != float64(start.Add(365*day).Unix()) {
		t.Errorf("expiry %v", got)
	}
}

func TestRenewer_ShortTokenRenewedInTimeDoesNotWarn(t *testing.T) {
	f := newFixture(t, inFile(t, worker(start, start.Add(time.Hour))))
	f.now = start.Add(30 * time.Minute)
	if err := f.pass(t.Context()); err != nil || len(f.warned) != 0 || len(f.requested) != 1 {
		t.Errorf("%v, warned %q, requested %q", err, f.warned, f.requested)
	}
}

func TestRenewer_DamagedFileIsAnErrorWithItsName(t *testing.T) {
	f := newFixture(t, inFile(t, "nothing"))
	if err := f.pass(t.Context()); err == nil || !strings.Contains(err.Error(), f.cfg.File) {
		t.Error(err)
	}
}
