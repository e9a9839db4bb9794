package probe

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Connection is one that a pod keeps: of tcp or udp, to an address.
type Connection struct {
	Protocol string
	To       netip.AddrPort
}

// UnmarshalText reads PROTOCOL/ADDRESS:PORT.
func (c *Connection) UnmarshalText(text []byte) (err error) {
	protocol, to, _ := strings.Cut(string(text), "/")
	if protocol != "tcp" && protocol != "udp" {
		return fmt.Errorf("%q: want tcp/ADDRESS:PORT or udp/ADDRESS:PORT", text)
	}
	c.Protocol = protocol
	c.To, err = netip.ParseAddrPort(to)
	return err
}

// String is what UnmarshalText reads.
func (c Connection) String() string { return c.Protocol + "/" + c.To.String() }

// Lasted is what became of a connection.
type Lasted struct {
	// Began is the time of the first answer; zero: none came.
	Began time.Time `json:"began,omitzero"`
	// Seconds are those since then until now, or until the connection broke.
	Seconds float64 `json:"seconds"`
	// Sent are the questions since then, or all if no answer came. Lost are those of UDP without an answer.
	Sent     uint64 `json:"sent"`
	Answered uint64 `json:"answered"`
	Lost     uint64 `json:"lost,omitempty"`
	// Silence is the longest time without an answer, in seconds, and SilentFrom its begin. Silent: the last answer is older
	// than a second.
	Silence    float64   `json:"silence"`
	SilentFrom time.Time `json:"silentFrom,omitzero"`
	Silent     bool      `json:"silent,omitempty"`
	// Broken is why TCP ended before its time, and BrokenAt when.
	Broken   string    `json:"broken,omitempty"`
	BrokenAt time.Time `json:"brokenAt,omitzero"`
}

// lostAfter is the time after which a datagram counts as lost.
const lostAfter = time.Second

// record is what is known of a connection while it lasts.
type record struct {
	mu   sync.Mutex
	of   Lasted
	last time.Time
	next uint64
	// waits are the datagrams without an answer so far.
	waits map[uint64]time.Time
}

// sends gives the number of the next question.
func (r *record) sends(now time.Time) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	r.of.Sent++
	if r.waits != nil {
		r.lose(now)
		r.waits[r.next] = now
	}
	return r.next
}

func (r *record) lose(now time.Time) {
	for n, sent := range r.waits {
		if now.Sub(sent) > lostAfter {
			r.of.Lost++
			delete(r.waits, n)
		}
	}
}

// answered takes the answer to a question.
func (r *record) answered(n uint64, protocol string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of.Began.IsZero() {
		r.of.Began, r.of.Sent, r.of.Answered, r.last = now, 1, 1, now
		if protocol == "udp" {
			r.waits = map[uint64]time.Time{}
		}
		return
	}
	r.silence(now)
	r.last = now
	if _, waits := r.waits[n]; waits || protocol == "tcp" {
		r.of.Answered++
		delete(r.waits, n)
	}
}

func (r *record) silence(now time.Time) {
	if s := now.Sub(r.last).Seconds(); s > r.of.Silence {
		r.of.Silence, r.of.SilentFrom = s, r.last
	}
}

// broke ends the connection. It says whether the connection had begun.
func (r *record) broke(err error, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of.Began.IsZero() {
		return false
	}
	r.silence(now)
	r.of.Broken, r.of.BrokenAt, r.of.Seconds = cause(err), now, now.Sub(r.of.Began).Seconds()
	return true
}

// cause is the error of the system, which has no addresses.
func cause(err error) string {
	if errors.Is(err, io.EOF) {
		return "closed by the other side"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// state is what became of the connection until now.
func (r *record) state(now time.Time) Lasted {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose(now)
	if !r.of.Began.IsZero() && r.of.Broken == "" {
		r.of.Silent, r.of.Seconds = now.Sub(r.last) > lostAfter, now.Sub(r.of.Began).Seconds()
		r.silence(now)
	}
	return r.of
}
