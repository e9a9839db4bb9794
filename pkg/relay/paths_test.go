package relay

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// apiPath is a path of the relay's API, with what a caller without any right, and an administrator, get there.
type apiPath struct {
	path           string
	without, admin int
	// work: it reads objects or asks an agent for who may. Other paths have what the relay knows.
	work bool
}

// apiPaths are all, by the pattern that serves them. A view stands for its stream, too.
func apiPaths() map[string][]apiPath {
	const pod, node = "name=shop/web-0", "name=w1"
	return map[string][]apiPath{
		"GET /":                    {{"/", 200, 200, false}},
		"GET /api/v1/help/{page}":  {{"/api/v1/help/page", 200, 200, false}},
		"GET /api/v1/views/{view}": viewPaths("views", pod, node), "GET /api/v1/stream/{view}": viewPaths("stream", pod, node),
		"GET /api/v1/nodes": {{"/api/v1/nodes", 403, 200, false}, {"/api/v1/nodes?namespace=shop", 403, 200, true}},
		"GET /api/v1/nodes/{node}/v1/summary": {
			{"/api/v1/nodes/w1/v1/summary", 403, 200, true}, {"/api/v1/nodes/w1/v1/summary?fresh=true", 403, 200, true},
			{"/api/v1/nodes/w1/v1/summary?namespace=shop", 403, 200, true}, {"/api/v1/nodes/none/v1/summary", 403, 503, false},
		},
		"GET /api/v1/nodes/{node}/v1/flows": {
			{"/api/v1/nodes/w1/v1/flows", 403, 200, true}, {"/api/v1/nodes/w1/v1/flows?all=true", 403, 200, true},
			{"/api/v1/nodes/w1/v1/flows?namespace=shop&why=true", 403, 200, true}, {"/api/v1/nodes/none/v1/flows?namespace=shop", 403, 503, false},
		},
		"GET /api/v1/nodes/{node}/v1/flows/{id}/why": {{"/api/v1/nodes/w1/v1/flows/1/why", 403, 200, true}},
	}
}

func viewPaths(kind, pod, node string) []apiPath {
	all := []apiPath{
		{"overview", 200, 200, false}, {"health", 200, 200, false}, {"worst", 200, 200, false}, {"traffic", 200, 200, false},
		{"pod?" + pod, 404, 200, true}, {"node?" + node, 404, 200, true}, {"path?from=pod/shop/web-0&to=192.0.2.1:80", 404, 502, true},
		{"flows?pod=shop/web-0", 403, 200, true}, {"flows?node=w1", 403, 200, true}, {"flows?namespace=shop", 403, 200, true},
		{"map?namespaces=shop", 403, 200, true}, {"policies?namespaces=shop,bank", 403, 200, true},
	}
	for i := range all {
		all[i].path = "/api/v1/" + kind + "/" + all[i].path
	}
	return all
}

// atWork counts what the relay does for callers: lists of objects, and questions to agents and to the leading
// controller.
type atWork struct {
	static
	source
	rule string
	n    *atomic.Int32
}

func (w atWork) With(ctx context.Context, want web.Want) (*snapshot.Snapshot, error) {
	if want.Pod != "" || want.Node != "" || len(want.Namespaces) > 0 {
		w.n.Add(1)
	}
	return w.static.With(ctx, want)
}

func (w atWork) Summary(ctx context.Context, fresh bool) (*flowapi.Summary, error) {
	w.n.Add(1)
	return w.source.Summary(ctx, fresh)
}

func (w atWork) Flows(ctx context.Context, q flowapi.Query) (*flowapi.Flows, error) {
	w.n.Add(1)
	return w.source.Flows(ctx, q)
}

func (w atWork) Why(ctx context.Context, id string) (*flowapi.Why, error) {
	w.n.Add(1)
	return explains{w.source, w.rule}.Why(ctx, id)
}

func (w atWork) Names(ctx context.Context, cookies []uint64) (map[uint64]flowapi.Name, error) {
	w.n.Add(1)
	return names{own, foreign}.Names(ctx, cookies)
}

// TestPaths_AskForRightsBeforeAnyWork walks all patterns of the API: a caller without rights causes no list of objects
// and no question to an agent, and few reviews. The control is the administrator.
func TestPaths_AskForRightsBeforeAnyWork(t *testing.T) {
	var patterns []string
	patterns = append(patterns, web.Patterns()...)
	for pattern := range nodesRoutes() {
		base, isAgent := strings.CutSuffix(pattern, "/v1/")
		if !isAgent {
			patterns = append(patterns, pattern)
			continue
		}
		for _, of := range flowapi.Patterns() {
			patterns = append(patterns, base+strings.TrimPrefix(of, "GET "))
		}
	}
	paths := apiPaths()
	for _, pattern := range patterns {
		if len(paths[pattern]) == 0 {
			t.Errorf("%s is in no row of the table", pattern)
		}
		for _, p := range paths[pattern] {
			checkPath(t, p)
		}
		delete(paths, pattern)
	}
	for pattern := range paths {
		t.Errorf("%s is no pattern of the API", pattern)
	}
	for _, view := range web.Views() {
		if !slices.ContainsFunc(viewPaths("views", "", ""), func(p apiPath) bool { return strings.HasPrefix(p.path, "/api/v1/views/"+view) }) {
			t.Errorf("view %s is in no row of the table", view)
		}
	}
}

func checkPath(t *testing.T, p apiPath) {
	t.Helper()
	o, from := world(own, foreign)
	var done atomic.Int32
	work := atWork{o, from, foreign.address, &done}
	asker := &rights{of: callers()}
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": work} }
	g := NewGathered(agents)
	g.Gather(t.Context(), time.Unix(1_700_000_000, 0))
	done.Store(0)
	r := New(work, NewReviewer(asker), agents, g, work)
	for caller, want := range map[string]int{"anyone": p.without, "admin": p.admin} {
		asker.asked = 0
		if code := status(t, r, caller, p.path); code != want {
			t.Errorf("%s asks for %s: %d, want %d", caller, p.path, code, want)
		}
		// one review for each resource, and for each namespace of the request and of the summaries
		if worked := done.Swap(0) > 0; worked != (p.work && caller == "admin") || asker.asked > 8 {
			t.Errorf("%s asks for %s: worked %t, %d reviews", caller, p.path, worked, asker.asked)
		}
	}
}

// status is that of an answer of the page or of the API of nodes. A stream is read for a moment.
func status(t *testing.T, r *Relay, caller, path string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if !strings.Contains(path, "/stream/") {
		ctx = t.Context()
	}
	handler := (&web.Server{Facts: r.Facts, Period: 20 * time.Millisecond}).Handler()
	if strings.HasPrefix(path, flowapi.NodesPath) {
		handler = r.NodesHandler()
	}
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	request.Header.Set("Authorization", "Bearer "+caller)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request)
	return w.Code
}
