package flowapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// fake is a Source with one flow.
type fake struct {
	asked  Query
	fresh  bool
	broken error
}

func (f *fake) Summary(_ context.Context, fresh bool) (*Summary, error) {
	f.fresh = fresh
	return &Summary{
		Node: "w1", Taken: time.Unix(1000, 0).UTC(), Seconds: 30, Offload: offload.Settings{HWOffload: true},
		Pods: []PodSummary{{Namespace: "shop", Name: "web", Ports: []string{"rep1"}, VF: true, Traffic: offload.Share{Hardware: offload.Count{Flows: 1, Packets: 7}}}},
	}, f.broken
}

func (f *fake) Flows(_ context.Context, q Query) (*Flows, error) {
	f.asked = q
	rate := 41.5
	return &Flows{Node: "w1", Matched: 1, Flows: []Flow{{
		ID: "u1", From: End{Port: "rep1", Namespace: "shop", Pod: "web"}, To: []End{{Port: "genev_sys_6081"}}, Placed: Placed{Place: offload.Hardware}, Traffic: Traffic{PacketsPerSecond: &rate},
	}}}, f.broken
}

func (f *fake) Why(_ context.Context, id string) (*Why, error) {
	if id != "ufid:u 1" {
		return nil, ErrNoFlow
	}
	return &Why{ID: id, Rules: []Rule{{Cookie: 0xdeadbeef, Table: 17, Rule: "priority=100"}}}, nil
}

func TestClient_GetsWhatTheHandlerServes(t *testing.T) {
	source := &fake{}
	server := httptest.NewServer(Handler(source))
	defer server.Close()
	c := Client{URL: server.URL, HTTP: server.Client()}
	ctx := t.Context()
	wantSummary, _ := (&fake{}).Summary(ctx, false)
	if got, err := c.Summary(ctx, true); err != nil || !source.fresh || cmp.Diff(wantSummary, got) != "" {
		t.Errorf("fresh %v, %v\n%s", source.fresh, err, cmp.Diff(wantSummary, got))
	}
	q := Query{Namespace: "shop", Pod: "web", All: true, Limit: 5, Why: true, TC: true, Counters: true, NoFlows: true, IDs: "u1,u2"}
	wantFlows, _ := (&fake{}).Flows(ctx, q)
	got, err := c.Flows(ctx, q)
	if diff := cmp.Diff(wantFlows, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if diff := cmp.Diff(q, source.asked); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Flows(ctx, Query{}); err != nil || source.asked.Limit != DefaultLimit {
		t.Errorf("%v, limit %d", err, source.asked.Limit)
	}
	why, err := c.Why(ctx, "ufid:u 1")
	if err != nil || len(why.Rules) != 1 || why.Rules[0].Cookie != 0xdeadbeef {
		t.Errorf("%+v, %v", why, err)
	}
	if _, err := c.Why(ctx, "u2"); !errors.Is(err, ErrNoFlow) {
		t.Errorf("a flow that is not there: %v", err)
	}
	source.broken = errors.New("ovs-vswitchd does not answer")
	if _, err := c.Summary(ctx, false); err == nil || !strings.Contains(err.Error(), "ovs-vswitchd does not answer") {
		t.Errorf("a broken source: %v", err)
	}
}

func TestHandler_RefusesWrongQueries(t *testing.T) {
	handler := Handler(&fake{})
	for _, path := range []string{"/v1/flows?limit=0", "/v1/flows?limit=x", "/v1/flows?limit=20001", "/v1/flows?pod=web", "/v1/flows?ids=" + strings.Repeat("u,", MaxIDs)} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/flows", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestClient_SaysThatAnAgentDoesNotAnswer, without a URL.
func TestClient_SaysThatAnAgentDoesNotAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("fresh") {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	client := Client{URL: server.URL, HTTP: &http.Client{Timeout: 200 * time.Millisecond}}
	for fresh, want := range map[bool]string{true: "the agent has not answered in time: ", false: "asking an agent: EOF"} {
		if _, err := client.Summary(t.Context(), fresh); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "http://") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestClient_ReadsNoAnswerWithoutEnd: one broken agent must not take the memory of a relay.
func TestClient_ReadsNoAnswerWithoutEnd(t *testing.T) {
	size := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"node":"`)
		for range size >> 10 {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return // the client is gone
			}
		}
		_, _ = io.WriteString(w, `"}`)
	}))
	t.Cleanup(server.Close)
	c := Client{URL: server.URL, HTTP: server.Client()}
	for size = range map[int]bool{1 << 20: true, maxSummary + 1<<20: true} {
		summary, err := c.Summary(t.Context(), false)
		if fits := size < maxSummary; fits && (err != nil || len(summary.Node) != size) || !fits && !errors.Is(err, errLarge) {
			t.Errorf("a summary of %d bytes: %v", size, err)
		}
		if _, err := c.Why(t.Context(), "1"); (err == nil) != (size < maxWhy) {
			t.Errorf("rules of %d bytes: %v", size, err)
		}
		if flows, err := c.Flows(t.Context(), Query{}); err != nil || len(flows.Node) != size { // they may be as large
			t.Errorf("flows of %d bytes: %v", size, err)
		}
	}
}

// TestHandler_OnlyReads: what changes anything for a moment, as asking a driver does, is no part of the API. The control is a question.
func TestHandler_OnlyReads(t *testing.T) {
	status := func(method, path string) int {
		w := httptest.NewRecorder()
		Handler(&fake{}).ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code
	}
	for _, path := range []string{SummaryPath, FlowsPath, FlowsPath + "/ufid:u%201/why"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if got := status(method, path); got != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, got)
			}
		}
		if got := status(http.MethodGet, path); got != http.StatusOK {
			t.Errorf("GET %s: %d", path, got)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if got := status(method, FlowsPath+"/u1/ask-driver"); got != http.StatusNotFound {
			t.Errorf("%s to ask a driver: %d", method, got)
		}
	}
}
