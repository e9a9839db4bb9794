package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/docs"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

//go:embed assets
var assets embed.FS

// Server serves the page. Who may see it is asked before: see Local.
type Server struct {
	// Facts gives what the caller of a request may see.
	Facts func(*http.Request) (Facts, error)
	// Period is the time between two looks at the facts while a view is open.
	Period time.Duration
	// Admit, if set, takes a place for a request before anything else is done. follows: the request is for a stream. leave gives the place back.
	Admit func(r *http.Request, follows bool) (leave func(), err error)
}

const (
	// writeWithin bounds the time in which a browser takes an event of a stream.
	writeWithin = 30 * time.Second
	// streamFor is how long a stream lasts. The browser comes back by itself, with the id of what it has.
	streamFor = time.Hour
)

// ErrBusy is the error for a caller with too many requests at a time.
var ErrBusy = errors.New("too many requests at a time: close views, or ask again later")

// ErrDenied is a caller who is known and may not see it.
var ErrDenied = errors.New("you may not see this")

// ErrUnknown is a caller who is not known.
var ErrUnknown = errors.New("sign in again: kubectl offload ui")

// Handler serves
//
//	GET /                           the page
//	GET /api/v1/views/{view}?...    a view as JSON
//	GET /api/v1/stream/{view}?...   the same whenever it changes, as server-sent events
//	GET /api/v1/help/{page}         a page of the documentation
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range s.routes() {
		mux.HandleFunc(pattern, handler)
	}
	return Secure(mux)
}

// routes are the handlers by pattern.
func (s *Server) routes() map[string]http.HandlerFunc {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the name is right
	}
	return map[string]http.HandlerFunc{
		"GET /": http.FileServerFS(files).ServeHTTP, "GET /api/v1/help/{page}": help, "GET /api/v1/views/{view}": s.view, "GET /api/v1/stream/{view}": s.stream,
	}
}

// Patterns are those of Handler, sorted.
func Patterns() []string { return slices.Sorted(maps.Keys((&Server{}).routes())) }

// Secure sets the headers of all answers. The page runs no script and loads no file but its own.
func Secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) view(w http.ResponseWriter, r *http.Request) {
	leave, err := s.admit(r, false)
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.build(r.Context(), r)
	leave() // the answer is written without it: a browser may be slow
	if err != nil {
		fail(w, err)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin)) // where the connection has one
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the caller is gone
}

// admit takes a place, if the server has places.
func (s *Server) admit(r *http.Request, follows bool) (leave func(), err error) {
	if s.Admit == nil {
		return func() {}, nil
	}
	return s.Admit(r, follows)
}

func (s *Server) build(ctx context.Context, r *http.Request) (*View, error) {
	facts, err := s.Facts(r)
	if err != nil {
		return nil, err
	}
	return Build(ctx, facts, r.PathValue("view"), r.URL.Query())
}

// fail answers with an error. Its text is for people.
func fail(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), code(err))
}

func code(err error) int {
	switch {
	case errors.Is(err, ErrUnknown):
		return http.StatusUnauthorized
	case errors.Is(err, ErrBusy):
		return http.StatusTooManyRequests
	case errors.Is(err, ErrDenied):
		return http.StatusForbidden
	case errors.As(err, new(answer.ErrNotFound)), errors.As(err, new(trace.ErrNoObject)), errors.Is(err, ErrNoRelay):
		return http.StatusNotFound
	case errors.As(err, new(errRequest)):
		return http.StatusBadRequest
	}
	return http.StatusBadGateway
}

// stream sends a view, and again whenever it changes. The id of an event is a hash of the view: a browser that comes back
// with the newest gets no second copy. What the caller may see is asked anew for each.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	leave, err := s.admit(r, true)
	if err != nil {
		fail(w, err)
		return
	}
	defer leave()
	ends := time.Now().Add(streamFor)
	w.Header().Set("Content-Type", "text/event-stream")
	last := r.Header.Get("Last-Event-ID")
	tick := time.NewTicker(s.Period)
	defer tick.Stop()
	for {
		text, id, err := s.event(r, last)
		if err != nil && last == "" { // nothing was sent: a status says more
			fail(w, err)
			return
		}
		if err == nil {
			last = id
		}
		if send(w, text) != nil || err != nil && code(err) == http.StatusUnauthorized || time.Now().After(ends) {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// send writes an event. A browser that does not take it in time is gone.
func send(w http.ResponseWriter, text []byte) error {
	to := http.NewResponseController(w)
	_ = to.SetWriteDeadline(time.Now().Add(writeWithin)) // where the connection has one
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := to.Flush(); err != nil {
		return err
	}
	_ = to.SetWriteDeadline(time.Time{})
	return nil
}

// event is the next event of a stream whose last one had an id.
func (s *Server) event(r *http.Request, last string) (text []byte, id string, err error) {
	v, err := s.build(r.Context(), r)
	if err != nil {
		fault, _ := json.Marshal(map[string]any{"code": code(err), "error": err.Error()}) // strings and numbers
		return fmt.Appendf(nil, "event: fault\ndata: %s\n\n", fault), "", err
	}
	id, err = v.hash()
	if err != nil {
		return nil, "", err
	}
	if id == last {
		return fmt.Appendf(nil, "event: age\ndata: %q\n\n", v.Taken.Format(time.RFC3339)), id, nil
	}
	data, err := json.Marshal(v)
	return fmt.Appendf(nil, "id: %s\nevent: view\ndata: %s\n\n", id, data), id, err
}

var takenField = regexp.MustCompile(`"taken":"[^"]*"`)

// hash is that of all but the view's age.
func (v *View) hash() (string, error) {
	text, err := json.Marshal(v)
	sum := sha256.Sum256(takenField.ReplaceAll(text, nil))
	return hex.EncodeToString(sum[:8]), err
}

// pageName has no way out of the documentation.
var pageName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

func help(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("page")
	if pageName.MatchString(name) {
		for _, path := range []string{"failures/" + name + ".md", name + ".md"} {
			if text, err := docs.Pages.ReadFile(path); err == nil {
				http.ServeContent(w, r, name+".txt", time.Time{}, bytes.NewReader(text))
				return
			}
		}
	}
	fail(w, answer.ErrNotFound{Object: "page " + name})
}
