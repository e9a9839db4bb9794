package relay

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// reviewed counts the reviews of tokens. It answers when it is let, if let is set.
type reviewed struct {
	rights
	n   atomic.Int32
	let chan struct{}
}

func (r *reviewed) Whose(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	r.n.Add(1)
	if r.let != nil {
		<-r.let
	}
	_, ok := r.of[token]
	return authenticationv1.UserInfo{Username: token}, ok, ctx.Err()
}

// TestReviewer_UnknownTokensCostLittle: those of one client are few reviews, and a caller who is known, or another
// client's, is not refused for them.
func TestReviewer_UnknownTokensCostLittle(t *testing.T) {
	asker := &reviewed{rights: rights{of: callers()}}
	r := NewReviewer(asker)
	now := time.Unix(0, 0)
	r.Now = func() time.Time { return now }
	floods, other := Source{"192.0.2.1", "203.0.113.7"}, Source{"192.0.2.1", "203.0.113.8"} // both through the API server
	check := func(token string, from Source, known bool, want error) {
		t.Helper()
		if c, err := r.Caller(t.Context(), token, from); (c != nil) != known || !errors.Is(err, want) {
			t.Errorf("%s from %v: known %t, %v", token, from, c != nil, err)
		}
	}
	check("tenant", floods, true, nil)
	for i := range 5000 {
		if _, err := r.Caller(t.Context(), fmt.Sprint("unknown", i), floods); i >= clientBurst && !errors.Is(err, web.ErrBusy) {
			t.Fatalf("token %d: %v", i, err)
		}
	}
	if n := asker.n.Load(); n != 1+clientBurst {
		t.Errorf("%d reviews, want %d", n, 1+clientBurst)
	}
	check("tenant", floods, true, nil)
	check("viewer", floods, false, web.ErrBusy)
	check("viewer", other, true, nil)
	check("unknown0", floods, false, nil) // which is remembered
	now = now.Add(time.Second)
	check("admin", floods, true, nil) // some more in each second
}

// TestReviewer_CountsUnknownTokensOnly: many users behind one address are no flood.
func TestReviewer_CountsUnknownTokensOnly(t *testing.T) {
	asker := &reviewed{rights: rights{of: map[string][]Right{}}}
	for i := range 500 {
		asker.of[fmt.Sprint("user", i)] = nil
	}
	r := NewReviewer(asker)
	now := time.Unix(0, 0)
	r.Now = func() time.Time { return now }
	for i := range 500 {
		if c, err := r.Caller(t.Context(), fmt.Sprint("user", i), Source{"192.0.2.1", ""}); c == nil || err != nil {
			t.Fatalf("user %d: %v, %v", i, c, err)
		}
	}
}

// TestReviewer_AnAddressHasALimit, whatever clients it says that it forwards for.
func TestReviewer_AnAddressHasALimit(t *testing.T) {
	asker := &reviewed{rights: rights{of: callers()}}
	r := NewReviewer(asker)
	now := time.Unix(0, 0)
	r.Now = func() time.Time { return now }
	for i := range 5000 {
		_, _ = r.Caller(t.Context(), fmt.Sprint("unknown", i), Source{"198.51.100.9", fmt.Sprint(i)})
	}
	if n := asker.n.Load(); n != addressBurst {
		t.Errorf("%d reviews, want %d", n, addressBurst)
	}
	if len(r.sources) > addressBurst+1 {
		t.Errorf("%d limits are kept", len(r.sources))
	}
	if c, err := r.Caller(t.Context(), "tenant", Source{"198.51.100.10", ""}); c == nil || err != nil {
		t.Errorf("another address: %v, %v", c, err)
	}
}

// TestReviewer_UnknownTokensDisplaceNoCaller, however many addresses they come from, and what is kept of them is
// bounded.
func TestReviewer_UnknownTokensDisplaceNoCaller(t *testing.T) {
	asker := &reviewed{rights: rights{of: callers()}}
	r := NewReviewer(asker)
	now := time.Unix(0, 0)
	r.Now = func() time.Time { return now }
	if c, err := r.Caller(t.Context(), "tenant", Source{"192.0.2.1", ""}); c == nil || err != nil {
		t.Fatal(c, err)
	}
	for i := range 12_000 {
		_, _ = r.Caller(t.Context(), fmt.Sprint("unknown", i), Source{fmt.Sprint("address", i), ""})
	}
	before := asker.n.Load()
	if c, err := r.Caller(t.Context(), "tenant", Source{"192.0.2.1", ""}); c == nil || err != nil || asker.n.Load() != before {
		t.Errorf("the tenant is not known any more: %v, %v", c, err)
	}
	if len(r.unknown) > maxUnknown || len(r.sources) > maxSources {
		t.Errorf("%d unknown tokens and %d limits are kept", len(r.unknown), len(r.sources))
	}
}

// TestReviewer_AsksOnceForAToken, however many requests have it at the same time.
func TestReviewer_AsksOnceForAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asker := &reviewed{rights: rights{of: callers()}, let: make(chan struct{})}
		r := NewReviewer(asker)
		var all sync.WaitGroup
		var known atomic.Int32
		for range 10 {
			all.Go(func() {
				if c, err := r.Caller(t.Context(), "tenant", Source{}); c != nil && err == nil {
					known.Add(1)
				}
			})
		}
		synctest.Wait()
		close(asker.let)
		all.Wait()
		if asker.n.Load() != 1 || known.Load() != 10 {
			t.Errorf("%d reviews for %d requests that know the caller", asker.n.Load(), known.Load())
		}
	})
}

// TestSourceOf_IsTheLastOfThoseForwarded: who sends a header of its own through the API server is at its end, too.
func TestSourceOf_IsTheLastOfThoseForwarded(t *testing.T) {
	for want, forwarded := range map[Source][]string{
		{"192.0.2.1", ""}:            nil,
		{"192.0.2.1", "203.0.113.7"}: {"203.0.113.7"},
		{"192.0.2.1", "203.0.113.8"}: {"1.1.1.1, 2.2.2.2", "3.3.3.3, 203.0.113.8"},
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.RemoteAddr, request.Header["X-Forwarded-For"] = "192.0.2.1:4711", forwarded
		if got := sourceOf(request); got != want {
			t.Errorf("%q: %v, want %v", forwarded, got, want)
		}
	}
}

// TestAudiencesOf_AreThoseThatATokenSays. Only the API server says whether that is true.
func TestAudiencesOf_AreThoseThatATokenSays(t *testing.T) {
	jwt := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for token, want := range map[string][]string{
		jwt(`{"aud":["ovn-offload-relay"]}`): {web.Audience}, jwt(`{"aud":"ovn-offload-relay"}`): {web.Audience}, jwt(`{"aud":["a","ovn-offload-relay"]}`): {web.Audience},
		jwt(`{"aud":["https://kubernetes.default.svc"]}`): nil, jwt(`{"aud":[{}]}`): nil, jwt(`{"aud":{}}`): nil, jwt(`{}`): nil, jwt(`[`): nil, "a.%.c": nil, "opaque": nil, "": nil,
	} {
		if got := audiencesOf(token); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", token, got, want)
		}
	}
}

// TestCaller_RightsOfManyNamespacesAreBounded in a second.
func TestCaller_RightsOfManyNamespacesAreBounded(t *testing.T) {
	asker := &rights{of: callers()}
	c, err := NewReviewer(asker).Caller(t.Context(), "tenant", Source{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	sight, failed := c.Sight(ctx, PodFlows)
	for i := range 5 * rightsBurst {
		sight.Pods(fmt.Sprint("namespace", i))
	}
	if failed() == nil || asker.asked > 2*rightsBurst {
		t.Errorf("%d questions for rights: %v", asker.asked, failed())
	}
	sight, failed = c.Sight(t.Context(), PodFlows)
	if !sight.Pods(own.namespace) || failed() != nil {
		t.Errorf("the caller's own namespace: %v", failed())
	}
}
