package expose

import (
	"context"
	"crypto/sha256"
	"maps"
	"net/http"
	"sync"
	"time"
)

const (
	// remembered is how long an answer about a token counts.
	remembered = time.Minute
	// maxTokens bounds the answers that are kept.
	maxTokens = 128
	// reviewsPerMinute bounds what unknown tokens may cost the API server.
	reviewsPerMinute = 60
)

// guard lets a request pass when the API server knows its token and allows the path.
type guard struct {
	next    http.Handler
	allowed func(ctx context.Context, token, path string) (bool, error)
	now     func() time.Time

	mu      sync.Mutex
	answers map[[sha256.Size]byte]answer
	minute  time.Time
	reviews int
}

type answer struct {
	allowed bool
	until   time.Time
}

func newGuard(next http.Handler, allowed func(ctx context.Context, token, path string) (bool, error)) *guard {
	return &guard{next: next, allowed: allowed, now: time.Now, answers: map[[sha256.Size]byte]answer{}}
}

// ServeHTTP implements http.Handler. Health is for the node itself.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		http.NotFound(w, r)
		return
	}
	token := tokenOf(r)
	if token == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a token of an account that may get /metrics is needed", http.StatusUnauthorized)
		return
	}
	key := sha256.Sum256([]byte(token))
	known, ok := g.known(key)
	if !ok && !known.allowed && !g.mayAsk() {
		http.Error(w, "too many unknown tokens", http.StatusTooManyRequests)
		return
	}
	if !ok {
		allowed, err := g.allowed(r.Context(), token, r.URL.Path)
		if err != nil {
			http.Error(w, "the API server does not answer", http.StatusServiceUnavailable)
			return
		}
		known = g.keep(key, allowed)
	}
	if !known.allowed {
		http.Error(w, "this account may not get /metrics", http.StatusForbidden)
		return
	}
	g.next.ServeHTTP(w, r)
}

// known gives the cached answer about a token, and whether the answer is still valid. Requests of unknown clients cannot
// keep an allowed token from being reviewed again.
func (g *guard) known(key [sha256.Size]byte) (answer, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.answers[key]
	return a, ok && g.now().Before(a.until)
}

func (g *guard) mayAsk() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.now(); now.Sub(g.minute) >= time.Minute {
		g.minute, g.reviews = now, 0
	}
	g.reviews++
	return g.reviews <= reviewsPerMinute
}

func (g *guard) keep(key [sha256.Size]byte, allowed bool) answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.answers) >= maxTokens {
		maps.DeleteFunc(g.answers, func(_ [sha256.Size]byte, a answer) bool { return !a.allowed || g.now().After(a.until) })
	}
	a := answer{allowed, g.now().Add(remembered)}
	if len(g.answers) < maxTokens {
		g.answers[key] = a
	}
	return a
}
