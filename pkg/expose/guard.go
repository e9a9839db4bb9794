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

// Guard lets a request pass when the API server knows its token and allows What.
type Guard struct {
	Next http.Handler
	// What is a right in words, such as "get /metrics".
	What string
	// Allowed asks whether the holder of a token has the right.
	Allowed func(ctx context.Context, token string) (bool, error)
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

// NewGuard makes a Guard that has no answers yet.
func NewGuard(next http.Handler, what string, allowed func(ctx context.Context, token string) (bool, error)) *Guard {
	return &Guard{Next: next, What: what, Allowed: allowed, now: time.Now, answers: map[[sha256.Size]byte]answer{}}
}

// ServeHTTP implements http.Handler.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := tokenOf(r)
	if token == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a token of an account that may "+g.What+" is needed", http.StatusUnauthorized)
		return
	}
	key := sha256.Sum256([]byte(token))
	known, ok := g.known(key)
	if !ok && !known.allowed && !g.mayAsk() {
		http.Error(w, "too many unknown tokens", http.StatusTooManyRequests)
		return
	}
	if !ok {
		allowed, err := g.Allowed(r.Context(), token)
		if err != nil {
			http.Error(w, "the API server does not answer", http.StatusServiceUnavailable)
			return
		}
		known = g.keep(key, allowed)
	}
	if !known.allowed {
		http.Error(w, "this account may not "+g.What, http.StatusForbidden)
		return
	}
	g.Next.ServeHTTP(w, r)
}

// known gives the cached answer about a token, and whether the answer is still valid. Requests of unknown clients cannot
// keep an allowed token from being reviewed again.
func (g *Guard) known(key [sha256.Size]byte) (answer, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.answers[key]
	return a, ok && g.now().Before(a.until)
}

func (g *Guard) mayAsk() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.now(); now.Sub(g.minute) >= time.Minute {
		g.minute, g.reviews = now, 0
	}
	g.reviews++
	return g.reviews <= reviewsPerMinute
}

func (g *Guard) keep(key [sha256.Size]byte, allowed bool) answer {
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
