package flowapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The paths of the API.
const (
	SummaryPath = "/v1/summary"
	FlowsPath   = "/v1/flows"
)

// ErrNoFlow is a flow that has ended, or never was.
var ErrNoFlow = errors.New("there is no such flow")

// Refused is an answer without what was asked for. A server gives it to a client.
type Refused struct {
	Status int
	Text   string
}

// Error implements error.
func (r Refused) Error() string { return r.Text }

// Handler serves a Source. It does not ask who the caller is: see Guard.
//
//	GET /v1/summary?fresh=true
//	GET /v1/flows?namespace=&pod=&all=&limit=&why=&tc=&counters=&flows=false&ids=
//	GET /v1/flows/{id}/why
func Handler(from Source) http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range routes(from) {
		mux.HandleFunc(pattern, handler)
	}
	return mux
}

// Patterns are those of Handler, sorted.
func Patterns() []string { return slices.Sorted(maps.Keys(routes(nil))) }

// routes are the handlers by pattern.
func routes(from Source) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET " + SummaryPath: func(w http.ResponseWriter, r *http.Request) {
			summary, err := from.Summary(r.Context(), r.URL.Query().Get("fresh") == "true")
			answer(w, summary, err)
		},
		"GET " + FlowsPath: func(w http.ResponseWriter, r *http.Request) {
			q, err := parseQuery(r.URL.Query())
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			flows, err := from.Flows(r.Context(), q)
			answer(w, flows, err)
		},
		"GET " + FlowsPath + "/{id}/why": func(w http.ResponseWriter, r *http.Request) {
			why, err := from.Why(r.Context(), r.PathValue("id"))
			answer(w, why, err)
		},
	}
}

func answer(w http.ResponseWriter, what any, err error) {
	var refused Refused
	switch {
	case errors.As(err, &refused):
		http.Error(w, refused.Text, refused.Status)
	case errors.Is(err, ErrNoFlow):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(what) // the caller is gone
	}
}

// Values are the parameters of a request for flows.
func (q Query) Values() url.Values {
	v := url.Values{}
	for key, value := range map[string]string{"namespace": q.Namespace, "pod": q.Pod, "ids": q.IDs} {
		if value != "" {
			v.Set(key, value)
		}
	}
	for key, value := range map[string]bool{"all": q.All, "why": q.Why, "tc": q.TC, "counters": q.Counters} {
		if value {
			v.Set(key, "true")
		}
	}
	if q.NoFlows {
		v.Set("flows", "false")
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

func parseQuery(v url.Values) (Query, error) {
	q := Query{
		Namespace: v.Get("namespace"), Pod: v.Get("pod"), All: v.Get("all") == "true", Why: v.Get("why") == "true", TC: v.Get("tc") == "true",
		Counters: v.Get("counters") == "true", NoFlows: v.Get("flows") == "false", IDs: v.Get("ids"), Limit: DefaultLimit,
	}
	if text := v.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > MaxLimit {
			return Query{}, fmt.Errorf("limit %q is not a number from 1 to %d", text, MaxLimit)
		}
		q.Limit = limit
	}
	if n := strings.Count(q.IDs, ",") + 1; n > MaxIDs {
		return Query{}, fmt.Errorf("%d UFIDs, at most %d", n, MaxIDs)
	}
	if q.Pod != "" && q.Namespace == "" {
		return Query{}, errors.New("a pod without its namespace")
	}
	return q, nil
}
