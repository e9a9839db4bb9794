package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

const (
	// remembered is how long an answer of the API server counts. A right that is taken away ends then, also for
	// streams.
	remembered = time.Minute
	// maxCallers bounds the callers that are remembered, and maxUnknown the tokens that the API server does not know.
	maxCallers = 10_000
	maxUnknown = 1_000
	// maxSources bounds the addresses whose reviews are counted.
	maxSources = 10_000
)

// The reviews of unknown tokens a second, and at once: of one client, and of one address that requests come from. That
// of the API server has those of many clients.
const (
	clientRate, clientBurst   = 2, 20
	addressRate, addressBurst = 20, 200
	// rightsRate and rightsBurst are for the rights of one caller, one for each namespace.
	rightsRate, rightsBurst = 100, 1000
)

// Reviewer remembers the answers of an Asker. What unknown tokens can cost is bounded: they do not displace callers,
// and the reviews of one client do not take those of others.
type Reviewer struct {
	Asker Asker
	Now   func() time.Time

	asking singleflight.Group

	mu      sync.Mutex
	callers map[[sha256.Size]byte]*Caller
	// unknown are tokens that the API server does not know, with the time until which that counts.
	unknown map[[sha256.Size]byte]time.Time
	// sources are limits of reviews.
	sources map[string]*rate.Limiter
}

// NewReviewer makes one that knows nothing yet.
func NewReviewer(asker Asker) *Reviewer {
	return &Reviewer{
		Asker: asker, Now: time.Now, callers: map[[sha256.Size]byte]*Caller{}, unknown: map[[sha256.Size]byte]time.Time{}, sources: map[string]*rate.Limiter{},
	}
}

// Source is where a request comes from.
type Source struct {
	// Address is that of the other end of the connection.
	Address string
	// Client is the address of the client of the API server that forwards the request; "": it was not forwarded. It
	// counts with the address alone.
	Client string
}

// sourceOf reads the source of a request. The API server forwards by httputil.NewSingleHostReverseProxy
// (k8s.io/apimachinery/pkg/util/proxy), which adds the address of its client at the end of X-Forwarded-For, whatever
// the client has sent in this header.
func sourceOf(request *http.Request) Source {
	address, _, err := net.SplitHostPort(request.RemoteAddr)
	if err != nil {
		address = request.RemoteAddr
	}
	forwarded := strings.Join(request.Header.Values("X-Forwarded-For"), ",")
	return Source{Address: address, Client: strings.TrimSpace(forwarded[strings.LastIndexByte(forwarded, ',')+1:])}
}

// Caller says whose a token is; nil if it is not valid. web.ErrBusy: too many tokens that are not known come from the
// source.
func (r *Reviewer) Caller(ctx context.Context, token string, from Source) (*Caller, error) {
	key := sha256.Sum256([]byte(token))
	if c, ok := r.known(key); ok {
		return c, nil
	}
	if !r.take(from, 1) {
		return nil, web.ErrBusy
	}
	got, err, _ := r.asking.Do(hex.EncodeToString(key[:]), func() (any, error) {
		if c, ok := r.known(key); ok { // answered meanwhile
			return c, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // for the others who wait
		defer cancel()
		user, ok, err := r.Asker.Whose(ctx, token)
		if err != nil {
			return nil, err
		}
		return r.remember(key, user, ok), nil
	})
	c, _ := got.(*Caller)
	if c != nil {
		r.take(from, -1) // it was no unknown token
	}
	return c, err
}

// known is what is remembered of a token: a caller, or nil for one that the API server does not know.
func (r *Reviewer) known(key [sha256.Size]byte) (c *Caller, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	if c, ok = r.callers[key]; ok && now.Before(c.until) {
		return c, true
	}
	until, ok := r.unknown[key]
	return nil, ok && now.Before(until)
}

func (r *Reviewer) remember(key [sha256.Size]byte, user authenticationv1.UserInfo, ok bool) *Caller {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	delete(r.callers, key)
	delete(r.unknown, key)
	if !ok {
		makeRoom(r.unknown, maxUnknown, func(until time.Time) bool { return !now.Before(until) })
		r.unknown[key] = now.Add(remembered)
		return nil
	}
	makeRoom(r.callers, maxCallers, func(c *Caller) bool { return !now.Before(c.until) })
	c := &Caller{token: key, user: user, until: now.Add(remembered), asker: r.Asker, may: map[Right]bool{}, rights: rate.NewLimiter(rightsRate, rightsBurst)}
	r.callers[key] = c
	return c
}

// makeRoom deletes what has ended from a map that is full, and any other entries until a quarter is free: so it is
// seldom full.
func makeRoom[K comparable, V any](of map[K]V, size int, isOver func(V) bool) {
	if len(of) < size {
		return
	}
	maps.DeleteFunc(of, func(_ K, v V) bool { return isOver(v) })
	for key := range of {
		if len(of) <= size-size/4 {
			return
		}
		delete(of, key)
	}
}

// take takes a number of reviews from the limits of a source, or gives them back for a number below zero. A client that
// has none left takes none of those of its address.
func (r *Reviewer) take(from Source, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	address := r.limit(from.Address, addressRate, addressBurst)
	if address.TokensAt(now) < float64(n) {
		return false
	}
	client := r.limit(fmt.Sprintf("%q for %q", from.Address, from.Client), clientRate, clientBurst)
	return client.AllowN(now, n) && address.AllowN(now, n)
}

// limit is that of a source. It needs the lock. A limit that is full again is as good as none.
func (r *Reviewer) limit(source string, perSecond rate.Limit, burst int) *rate.Limiter {
	l, ok := r.sources[source]
	if !ok {
		now := r.Now()
		makeRoom(r.sources, maxSources, func(l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) })
		l = rate.NewLimiter(perSecond, burst)
		r.sources[source] = l
	}
	return l
}
