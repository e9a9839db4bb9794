package web

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web/scene"
)

var update = flag.Bool("update", false, "write the wanted views again")

// TestBuild_GivesTheViewOfEachName: a cluster in, JSON with coordinates out.
func TestBuild_GivesTheViewOfEachName(t *testing.T) {
	archive, facts := fixture(t, "shop", taken)
	for i, file := range archive.Files[1:] {
		view, query, _ := strings.Cut(file.Name, "?")
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if v, err := Build(t.Context(), facts, view, q); err != nil {
			got = err.Error() + "\n"
		} else if text, err := json.MarshalIndent(v, "", " "); err != nil {
			t.Fatal(err)
		} else {
			got = string(text) + "\n"
		}
		if *update {
			archive.Files[i+1].Data = []byte(got)
		} else if got != string(file.Data) {
			t.Errorf("%s: got\n%s\nwant\n%s", file.Name, got, file.Data)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/shop.txtar", txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScenes_KeepWithinTheirSize: no box is outside the drawing, and none covers another but its band.
func TestScenes_KeepWithinTheirSize(t *testing.T) {
	archive, facts := fixture(t, "shop", taken)
	for _, file := range archive.Files[1:] {
		view, query, _ := strings.Cut(file.Name, "?")
		q, _ := url.ParseQuery(query)
		v, err := Build(t.Context(), facts, view, q)
		if err != nil || v.Scene == nil {
			continue
		}
		for i, b := range v.Scene.Boxes {
			if b.X < 0 || b.Y < 0 || b.X+b.W > v.Scene.Width || b.Y+b.H > v.Scene.Height {
				t.Errorf("%s: %s is outside", file.Name, b.ID)
			}
			for _, other := range v.Scene.Boxes[:i] {
				inBand := other.Kind == scene.KindHardware || other.Kind == scene.KindSoftware
				if !inBand && b.Kind != scene.KindHardware && b.Kind != scene.KindSoftware && b.X < other.X+other.W && other.X < b.X+b.W && b.Y < other.Y+other.H && other.Y < b.Y+b.H {
					t.Errorf("%s: %s covers %s", file.Name, b.ID, other.ID)
				}
			}
		}
	}
}

func serve(t testing.TB, facts func(*http.Request) (Facts, error)) *httptest.Server {
	t.Helper()
	page := &Server{Facts: facts, Period: 20 * time.Millisecond}
	server := httptest.NewServer(page.Handler())
	t.Cleanup(server.Close)
	return server
}

func constant(f Facts) func(*http.Request) (Facts, error) {
	return func(*http.Request) (Facts, error) { return f, nil }
}

func status(t *testing.T, handler http.Handler, change func(*http.Request)) int {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1234/", nil)
	change(r)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code
}

// TestLocal_AsksForTheToken: a page of another origin, and another user of the machine, get nothing.
func TestLocal_AsksForTheToken(t *testing.T) {
	handler := Local("secret", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	place, signedIn := signIn(t, handler, "secret")
	at := func(path string, cookies ...*http.Cookie) func(*http.Request) {
		return func(r *http.Request) {
			r.URL.Path = path
			for _, cookie := range cookies {
				r.AddCookie(cookie)
			}
		}
	}
	view := place + "api/v1/views/health"
	wrong := &http.Cookie{Name: signedIn.Name, Value: signedIn.Value[1:]}
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"no cookie":                  {at(view), http.StatusUnauthorized},
		"a wrong cookie":             {at(view, wrong), http.StatusUnauthorized},
		"the token as the cookie":    {at(view, &http.Cookie{Name: signedIn.Name, Value: "secret"}), http.StatusUnauthorized},
		"a cookie of another name":   {at(view, &http.Cookie{Name: "ovn-offload", Value: signedIn.Value}), http.StatusUnauthorized},
		"the cookie":                 {at(view, signedIn), http.StatusOK},
		"the cookie elsewhere":       {at("/api/v1/views/health", signedIn), http.StatusUnauthorized},
		"the cookie, another name":   {func(r *http.Request) { at(view, signedIn)(r); r.Host = "example.com" }, http.StatusForbidden},
		"the token a second time":    {func(r *http.Request) { r.URL.RawQuery = "token=secret" }, http.StatusUnauthorized},
		"the token without its path": {func(r *http.Request) { r.URL.RawQuery, r.URL.Path = "token=secret", "/api/v1/views/health" }, http.StatusUnauthorized},
	} {
		if got := status(t, handler, test.change); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// TestLocal_SignsInOneBrowser by the token: another one, or a wrong token before it, does not.
func TestLocal_SignsInOneBrowser(t *testing.T) {
	handler := Local("secret", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, query := range map[string]string{"no token": "", "a wrong one": "token=x", "an empty one": "token="} {
		if got := status(t, handler, func(r *http.Request) { r.URL.RawQuery = query }); got != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, got)
		}
	}
	place, cookie := signIn(t, handler, "secret")
	if cookie.Path != place || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || len(place) < 20 {
		t.Errorf("at %s, cookie %+v", place, cookie)
	}
}

// TestLocal_TwoCommandsKeepEachOtherSignedIn: browsers have one cookie of a name for all ports.
func TestLocal_TwoCommandsKeepEachOtherSignedIn(t *testing.T) {
	one, two := Local("secret", http.NotFoundHandler()), Local("secret", http.NotFoundHandler())
	_, a := signIn(t, one, "secret")
	_, b := signIn(t, two, "secret")
	if a.Name == b.Name || a.Path == b.Path {
		t.Errorf("cookies %s at %s and %s at %s", a.Name, a.Path, b.Name, b.Path)
	}
}

// signIn gives where the page is, and the cookie.
func signIn(t *testing.T, handler http.Handler, token string) (place string, cookie *http.Cookie) {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1234/?token="+token, nil))
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("signing in: %d, %v", w.Code, cookies)
	}
	return w.Header().Get("Location"), cookies[0]
}

// TestHandler_ReadsOnly and answers with a status that says what is wrong.
func TestHandler_ReadsOnly(t *testing.T) {
	_, facts := fixture(t, "shop", taken)
	server := serve(t, constant(facts))
	unknown := serve(t, func(*http.Request) (Facts, error) { return nil, ErrUnknown })
	for address, want := range map[string]int{
		server.URL + "/": 200, server.URL + "/app.js": 200, server.URL + "/api/v1/views/health": 200, server.URL + "/api/v1/help/DPUNotReady": 200,
		server.URL + "/api/v1/help/nothing": 404, server.URL + "/api/v1/views/nothing": 404, server.URL + "/api/v1/views/pod?name=web": 400,
		server.URL + "/api/v1/help/..%2fdocs": 404, unknown.URL + "/api/v1/views/health": 401, unknown.URL + "/api/v1/stream/health": 401,
	} {
		response, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", address, response.StatusCode, want)
		}
		if policy := response.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'self'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", address, policy)
		}
	}
	answer, err := http.Post(server.URL+"/api/v1/views/health", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a write: %d", answer.StatusCode)
	}
}

// TestPath_SaysWhoseFaultItIs: what does not exist, and what the page does not ask for, is no failure of the cluster.
func TestPath_SaysWhoseFaultItIs(t *testing.T) {
	_, facts := fixture(t, "shop", taken)
	server := serve(t, constant(facts))
	for from, want := range map[string]int{
		"node/worker-1": http.StatusOK, "node/worker-4": http.StatusOK, "node/gone": http.StatusNotFound, "pod/shop/gone": http.StatusNotFound,
		"outside": http.StatusBadRequest, "node/": http.StatusBadRequest, "node/a/b": http.StatusBadRequest, "pod/web-0": http.StatusBadRequest, "": http.StatusBadRequest,
	} {
		reply, err := http.Get(server.URL + "/api/v1/views/path?" + url.Values{"from": {from}, "to": {"svc/shop/db:5432/tcp"}}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != want {
			t.Errorf("from %q: %d, want %d", from, reply.StatusCode, want)
		}
	}
}

// changing are facts that a test replaces.
type changing struct{ now chan fake }

func (c changing) facts(r *http.Request) (Facts, error) {
	f := <-c.now
	c.now <- f
	return f, r.Context().Err()
}

// bounded records what is written without a deadline, and the last deadline.
type bounded struct {
	*httptest.ResponseRecorder
	until     time.Time
	unbounded int
}

func (b *bounded) SetWriteDeadline(until time.Time) error {
	b.until = until
	return nil
}

func (b *bounded) Write(text []byte) (int, error) {
	if left := time.Until(b.until); left <= 0 || left > writeWithin {
		b.unbounded++
	}
	return b.ResponseRecorder.Write(text)
}

// TestServer_TakesAPlaceBeforeItLooks, and gives it back. A caller without a place gets status 429, and nothing is looked at. A
// browser has a time to take an answer; an open stream that has nothing to send has none.
func TestServer_TakesAPlaceBeforeItLooks(t *testing.T) {
	_, facts := fixture(t, "shop", taken)
	for path, follows := range map[string]bool{"/api/v1/views/health": false, "/api/v1/stream/health": true} {
		for _, busy := range []bool{false, true} {
			looks, open := 0, 0
			server := &Server{Period: time.Hour, Facts: func(*http.Request) (Facts, error) {
				looks++
				return facts, nil
			}}
			server.Admit = func(_ *http.Request, got bool) (func(), error) {
				if got != follows || looks > 0 {
					t.Errorf("%s: follows %t, after %d looks", path, got, looks)
				}
				if busy {
					return nil, ErrBusy
				}
				open++
				return func() { open-- }, nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			w := &bounded{ResponseRecorder: httptest.NewRecorder()}
			server.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
			cancel()
			if busy && (w.Code != http.StatusTooManyRequests || looks > 0) || !busy && (w.Code != http.StatusOK || looks != 1 || w.unbounded > 0) || open != 0 {
				t.Errorf("%s, busy %t: status %d, %d looks, %d places are taken, %d writes without a deadline", path, busy, w.Code, looks, open, w.unbounded)
			}
			if follows && !busy && !w.until.IsZero() {
				t.Errorf("an open stream ends at %s", w.until)
			}
		}
	}
}

// TestStream_SendsAViewWhenItChanges, only its age otherwise, and nothing again to a browser that has the newest.
func TestStream_SendsAViewWhenItChanges(t *testing.T) {
	_, facts := fixture(t, "shop", taken)
	c := changing{make(chan fake, 1)}
	c.now <- facts
	server := serve(t, c.facts)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	listen := func(id string) *bufio.Scanner {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/stream/health", nil)
		r.Header.Set("Last-Event-ID", id)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		return lines
	}
	next := func(lines *bufio.Scanner, prefix string) string {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return text
			}
		}
		t.Fatalf("the stream ended before %q: %v", prefix, lines.Err())
		return ""
	}
	lines := listen("")
	id := next(lines, "id: ")
	if event := next(lines, "event: "); event != "view" {
		t.Fatalf("first event %s", event)
	}
	if event := next(lines, "event: "); event != "age" {
		t.Errorf("without a change: %s", event)
	}
	if event := next(listen(id), "event: "); event != "age" {
		t.Errorf("after a cut, with the newest: %s", event)
	}
	<-c.now
	c.now <- fake{snapshot.New(taken, "ovn-kubernetes")}
	if changed := next(lines, "id: "); changed == id {
		t.Error("another view has the same id")
	}
}

// TestOverview_OfManyNodesFitsOneScreen.
func TestOverview_OfManyNodesFitsOneScreen(t *testing.T) {
	v, err := Build(t.Context(), large(taken, 2000), "overview", nil)
	if err != nil {
		t.Fatal(err)
	}
	if g := v.Grid; len(g.Squares) != 2000 || g.Height > 700 || g.Cell < minCell {
		t.Errorf("%d squares, %d high, %d wide", len(g.Squares), g.Height, g.Cell)
	}
}

// TestNodeSVG_IsAFileOfItsOwn: well-formed, with each box and way, whatever the names have.
func TestNodeSVG_IsAFileOfItsOwn(t *testing.T) {
	_, facts := fixture(t, "shop", taken)
	topology, err := answer.NewTopology(facts.s, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	n := topology.Nodes[0]
	n.NICs[0].Product = `<script>"&`
	drawn, found := scene.Node(n), map[string]int{}
	for text := xml.NewDecoder(strings.NewReader(scene.NodeSVG(n))); ; {
		token, err := text.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			found[start.Name.Local]++
		}
	}
	if found["rect"] != len(drawn.Boxes)+len(drawn.Frames) || found["path"] != len(drawn.Lines) || found["script"] != 0 {
		t.Errorf("elements %v of %d boxes, %d frames and %d lines", found, len(drawn.Boxes), len(drawn.Frames), len(drawn.Lines))
	}
}
