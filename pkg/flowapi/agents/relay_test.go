package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// reaches sends all requests to a server.
type reaches struct{ server *httptest.Server }

func (r reaches) RoundTrip(request *http.Request) (*http.Response, error) {
	to, err := url.Parse(r.server.URL)
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.URL.Scheme, request.URL.Host = to.Scheme, to.Host
	return http.DefaultTransport.RoundTrip(request)
}

func relayOf(t *testing.T, handler http.Handler) *Relay {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &Relay{&http.Client{Transport: reaches{server}}}
}

// TestRelay_SaysWhyItRefuses, and what else an answer means.
func TestRelay_SaysWhyItRefuses(t *testing.T) {
	for _, test := range []struct {
		status int
		text   string
		denied bool
		want   string
	}{
		{403, "you may not get podflows.ovn-offload.io in namespace bank", true, "the relay refuses: you may not get podflows.ovn-offload.io in namespace bank. --direct"},
		{401, "the relay does not know whose token this is", true, "whose token"},
		{503, "the agent of node w1 does not answer the relay", false, "asking the relay: the agent of node w1 does not answer the relay"},
		{503, `{"kind":"Status","message":"no endpoints available for service"}`, false, "asking the relay: no endpoints available for service"},
		{404, "404 page not found", false, "former version"},
	} {
		r := relayOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, test.text, test.status) }))
		_, _, err := r.WithFlows(t.Context(), "bank")
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.As(err, new(ErrDenied)) != test.denied {
			t.Errorf("%d: nodes: %v", test.status, err)
		}
		if test.status == 404 {
			if _, err := r.Asked("")("w1").Why(t.Context(), "1"); !errors.Is(err, flowapi.ErrNoFlow) {
				t.Errorf("a flow that has ended: %v", err)
			}
			continue
		}
		if _, missing := r.Named(t.Context(), []string{"w1"}, flowapi.Query{}); len(missing) != 1 || !strings.HasPrefix(missing[0], "node/w1: ") || !strings.Contains(missing[0], test.want) {
			t.Errorf("%d: flows: %q", test.status, missing)
		}
	}
	r := relayOf(t, http.NotFoundHandler())
	r.HTTP.Transport.(reaches).server.Close()
	if _, _, err := r.WithFlows(t.Context(), ""); err == nil || !strings.HasPrefix(err.Error(), "asking the relay: ") || errors.As(err, new(ErrDenied)) {
		t.Errorf("a relay that is gone: %v", err)
	}
}

// TestRelay_GivesFlowsOfNodes with what is missing once.
func TestRelay_GivesFlowsOfNodes(t *testing.T) {
	var asked []string
	r := relayOf(t, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		asked = append(asked, request.URL.RequestURI())
		switch {
		case request.URL.Path == "/api/v1/nodes":
			fmt.Fprint(w, `{"nodes":["w1"],"missing":["node/w2: no agent"]}`)
		case strings.HasSuffix(request.URL.Path, "/why"):
			fmt.Fprint(w, `{"id":"1","rules":[{"cookie":1,"name":{"row":"ACL","objects":["NetworkPolicy/shop/deny"]}}]}`)
		default:
			_ = json.NewEncoder(w).Encode(flowapi.Flows{
				Node: "w1", Matched: 3, Flows: []flowapi.Flow{{ID: request.URL.Query().Get("namespace")}}, Missing: []string{"names of flows: none"},
			})
		}
	}))
	nodes, missing, err := r.WithFlows(t.Context(), "shop")
	if err != nil || !slices.Equal(nodes, []string{"w1"}) || !slices.Equal(missing, []string{"node/w2: no agent"}) {
		t.Fatalf("%v, %v, %v", nodes, missing, err)
	}
	answers, missing := r.Named(t.Context(), []string{"w1"}, flowapi.Query{Namespace: "shop", Why: true})
	if len(answers) != 1 || answers[0].Flows[0].Node != "w1" || answers[0].Flows[0].ID != "shop" || len(missing) != 2 {
		t.Errorf("%+v, %q", answers, missing)
	}
	flow := &flowapi.Flow{ID: "1", Node: "w1"}
	if err := r.AddRules(t.Context(), []*flowapi.Flow{flow}); err != nil || !slices.Equal(flow.DecidedBy, []string{"NetworkPolicy/shop/deny"}) {
		t.Errorf("%+v, %v", flow, err)
	}
	if want := []string{"/api/v1/nodes?namespace=shop", "/api/v1/nodes/w1/v1/flows?namespace=shop&why=true", "/api/v1/nodes/w1/v1/flows/1/why"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// TestRelay_Pod is that of the page, without what is not the caller's to know.
func TestRelay_Pod(t *testing.T) {
	const denied = "you may not get nodeoffloads.ovn-offload.io"
	for _, test := range []struct {
		of      answer.PodExplained
		code    answer.Code
		next    string
		missing int
	}{
		{answer.PodExplained{Header: answer.Header{Code: answer.Uncertain, Missing: []string{"nodes: " + denied, "leases: " + denied}, Next: "kubectl offload explain node/w1"}}, answer.Good, "kubectl offload top -n shop", 0},
		{answer.PodExplained{Header: answer.Header{Code: answer.Uncertain, Missing: []string{"nodes: " + denied, "events: not read yet"}}}, answer.Uncertain, "", 1},
		{answer.PodExplained{Header: answer.Header{Code: answer.Broken, Missing: []string{"nodes: " + denied}}}, answer.Broken, "", 0},
		{answer.PodExplained{Header: answer.Header{Next: "kubectl offload explain node/w1"}}, answer.Good, "kubectl offload explain node/w1", 0},
	} {
		r := relayOf(t, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Path != "/api/v1/views/pod" || request.URL.Query().Get("name") != "shop/web" {
				t.Errorf("asked %s", request.URL)
			}
			test.of.Pod, test.of.Node = "shop/web", "w1"
			_ = json.NewEncoder(w).Encode(map[string]any{"name": "pod", "answer": test.of})
		}))
		e, err := r.Pod(t.Context(), "shop/web")
		if err != nil || e.Pod != "shop/web" || e.Node != "w1" || e.Code != test.code || e.Next != test.next || len(e.Missing) != test.missing {
			t.Errorf("%+v, %v, want %+v", e, err, test)
		}
	}
	r := relayOf(t, http.NotFoundHandler())
	if _, err := r.Pod(t.Context(), "shop/web"); !errors.As(err, new(answer.ErrNotFound)) || !strings.Contains(err.Error(), "podoffloads.ovn-offload.io in namespace shop") {
		t.Errorf("%v", err)
	}
}
