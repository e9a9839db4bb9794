package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// ask asks the relay for a node's API with a token.
func ask(t testing.TB, r *Relay, token, path string) (int, string) {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	r.NodesHandler().ServeHTTP(w, request)
	return w.Code, w.Body.String()
}

// explains is an agent that knows the rules of its flows.
type explains struct {
	source
	rule string
}

func (e explains) Why(_ context.Context, id string) (*flowapi.Why, error) {
	if id != "1" {
		return nil, flowapi.ErrNoFlow
	}
	return &flowapi.Why{ID: id, Rules: []flowapi.Rule{{Cookie: 0xaaaaaaaa, Rule: e.rule}}}, nil
}

func nodesRelay(own, foreign name, asker Asker) *Relay {
	o, from := world(own, foreign)
	from.sums.Total = offload.Share{OVS: offload.Count{Packets: 4444}}
	from.sums.Outside = []offload.Cause{{Reason: "port", Detail: foreign.port, Count: offload.Count{Packets: 4444}}}
	from.sums.Pods[0].Reason, from.sums.Pods[0].Detail = "port", foreign.port
	agents := func() map[string]flowapi.Source {
		return map[string]flowapi.Source{"w1": explains{from, foreign.address}, "w2": from}
	}
	viewers := callers()
	viewers["everyones"] = []Right{{PodOffloads, ""}, {PodFlows, ""}} // the role view of the whole cluster
	if r, ok := asker.(*rights); ok {
		r.of = viewers
	}
	g := NewGathered(agents)
	g.Gather(context.Background(), time.Unix(1_700_000_000, 0))
	return New(o, NewReviewer(asker), agents, g, names{own, foreign})
}

// TestNodes_GiveEachCallerWhatHeMaySee: caller, verb and namespace.
func TestNodes_GiveEachCallerWhatHeMaySee(t *testing.T) {
	r := nodesRelay(own, foreign, &rights{})
	const flows, all = "/api/v1/nodes/w1/v1/flows", "in all namespaces"
	for _, test := range []struct {
		caller, path string
		code         int
		has, lacks   string
	}{
		{"", "/api/v1/nodes", 401, "does not know", "w1"},
		{"unknown", flows, 401, "does not know", "10.244"},
		{"admin", "/api/v1/nodes", 200, `["w1","w2"]`, ""},
		{"everyones", "/api/v1/nodes", 200, `["w1","w2"]`, ""},
		{"operator", "/api/v1/nodes", 200, `["w1","w2"]`, ""},
		{"tenant", "/api/v1/nodes", 403, all, "w1"},
		{"viewer", "/api/v1/nodes", 403, all, "w1"},
		{"tenant", "/api/v1/nodes?namespace=shop", 200, `["w1"]`, "w2"},
		{"tenant", "/api/v1/nodes?namespace=bank", 403, "podflows.ovn-offload.io in namespace bank", "w1"},
		{"viewer", "/api/v1/nodes?namespace=shop", 403, "podflows.ovn-offload.io in namespace shop", "w1"},
		{"anyone", "/api/v1/nodes?namespace=shop", 403, "podflows.ovn-offload.io in namespace shop", "w1"},
		{"admin", "/api/v1/nodes?namespace=bank", 200, `["w1"]`, "w2"},

		{"admin", flows + "?all=true", 200, foreign.address, ""},
		{"everyones", flows + "?all=true", 403, "nodeoffloads.ovn-offload.io", "10.244"},
		{"everyones", flows + "?why=true", 200, "NetworkPolicy/bank/deny-vault", ""},
		{"operator", flows + "?all=true", 200, `"matched":0`, "10.244"},
		{"tenant", flows, 403, all, "10.244"},
		{"tenant", flows + "?all=true&namespace=shop", 403, "nodeoffloads.ovn-offload.io", "10.244"},
		{"tenant", flows + "?namespace=bank", 403, "in namespace bank", "10.244"},
		{"tenant", flows + "?namespace=bank&pod=vault-0", 403, "in namespace bank", "10.244"},
		{"tenant", flows + "?namespace=shop&why=true", 200, "NetworkPolicy/shop/allow-web", "vault"},
		{"tenant", flows + "?namespace=shop&pod=web-0&why=true", 200, own.address, "bank"},
		{"tenant", flows + "?namespace=shop", 200, `"withheld"`, foreign.address},
		{"tenant", "/api/v1/nodes/w2/v1/flows?namespace=shop", 403, "no pod whose flows you may see", "10.244"},
		{"tenant", "/api/v1/nodes/none/v1/flows?namespace=shop", 403, "no pod whose flows you may see", "10.244"},
		{"admin", "/api/v1/nodes/none/v1/flows?namespace=shop", 503, "knows no agent with the flows of node none", ""},
		{"viewer", flows + "?namespace=shop", 403, "in namespace shop", "10.244"},
		{"tenant", flows + "?limit=x", 400, "limit", "10.244"},

		{"admin", "/api/v1/nodes/w1/v1/summary", 200, "vault-0", ""},
		{"operator", "/api/v1/nodes/w1/v1/summary", 200, "4444", "vault-0"},
		{"tenant", "/api/v1/nodes/w1/v1/summary?fresh=true", 200, "web-0", "vault-0"},
		{"tenant", "/api/v1/nodes/w1/v1/summary", 200, `"total":{`, "4444"},
		{"viewer", "/api/v1/nodes/w1/v1/summary", 200, "web-0", foreign.port},
		{"anyone", "/api/v1/nodes/w1/v1/summary", 403, "no pod", "web-0"},
		{"anyone", "/api/v1/nodes/none/v1/summary", 403, "no pod", "web-0"},
		{"anyone", "/api/v1/nodes/w1/v1/summary?namespace=shop", 403, "podoffloads.ovn-offload.io in namespace shop", "web-0"},
		{"tenant", "/api/v1/nodes/w1/v1/summary?namespace=bank", 403, "podoffloads.ovn-offload.io in namespace bank", "web-0"},
		{"tenant", "/api/v1/nodes/w1/v1/summary?namespace=shop", 200, "web-0", "vault-0"},
		{"tenant", "/api/v1/nodes/w2/v1/summary?namespace=shop", 403, "no pod whose flows you may see", "web-0"},
		{"tenant", "/api/v1/nodes/none/v1/summary?namespace=shop", 403, "no pod whose flows you may see", "web-0"},

		{"admin", flows + "/1/why", 200, "NetworkPolicy/bank/deny-vault", ""},
		{"admin", flows + "/9/why", 404, "no such flow", ""},
		{"everyones", flows + "/1/why", 200, foreign.address, ""},
		{"tenant", flows + "/1/why", 403, all, "vault"},
		{"operator", flows + "/1/why", 403, all, "vault"},
	} {
		code, body := ask(t, r, test.caller, test.path)
		if code != test.code || !strings.Contains(body, test.has) || test.lacks != "" && strings.Contains(body, test.lacks) {
			t.Errorf("%s asks for %s: %d, want %d with %q and without %q:\n%s", test.caller, test.path, code, test.code, test.has, test.lacks, body)
		}
	}
}

// TestNodes_SummaryOfANamespaceNeedsNoEarlierOne: agents without offload measure when they are asked, and a node without an earlier
// summary has none of the pods that the relay knows. Without a namespace the caller is asked for one.
func TestNodes_SummaryOfANamespaceNeedsNoEarlierOne(t *testing.T) {
	o, from := world(own, foreign)
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": from} }
	r := New(o, NewReviewer(&rights{of: callers()}), agents, NewGathered(agents), nil)
	const path = "/api/v1/nodes/w1/v1/summary?fresh=true"
	for _, test := range []struct {
		caller, path string
		code         int
		has          string
	}{
		{"tenant", path + "&namespace=shop", 200, "web-0"},
		{"tenant", path, 403, "give a namespace with -n"},
		{"anyone", path + "&namespace=shop", 403, "podoffloads.ovn-offload.io in namespace shop"},
		{"admin", path, 200, "web-0"},
	} {
		if code, body := ask(t, r, test.caller, test.path); code != test.code || !strings.Contains(body, test.has) {
			t.Errorf("%s asks for %s: %d, want %d with %q: %s", test.caller, test.path, code, test.code, test.has, body)
		}
	}
}

// TestNodes_GiveNoForeignName: whatever the names are, no byte of one leaves for who may not see it.
func TestNodes_GiveNoForeignName(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, seed))
		word := func() string { return fmt.Sprintf("x%dq", random.Uint64()) } // in no other text
		other := name{word(), word(), word(), word(), word(), fmt.Sprintf("203.0.113.%d", random.IntN(256))}
		r := nodesRelay(own, other, &rights{})
		for _, caller := range []string{"tenant", "viewer", "operator", "anyone"} {
			for _, path := range []string{"flows", "flows?all=true", "flows?why=true&tc=true&counters=true&namespace=shop", "flows?namespace=shop&pod=web-0&why=true", "flows/1/why", "summary", "summary?fresh=true"} {
				_, body := ask(t, r, caller, "/api/v1/nodes/w1/v1/"+path)
				for _, text := range []string{other.namespace, other.pod, other.service, other.policy, other.port, other.address} {
					if strings.Contains(body, text) {
						t.Fatalf("seed %d: %s asks for %s and sees %q:\n%s", seed, caller, path, text, body)
					}
				}
			}
		}
		if _, body := ask(t, r, "admin", "/api/v1/nodes/w1/v1/flows?why=true"); !strings.Contains(body, other.policy) || !strings.Contains(body, other.address) {
			t.Fatalf("the fixture has no foreign name to see: %s", body)
		}
	}
}

// TestNodes_AskForRightsBeforeTheyAskAgents: a caller without rights costs the agents nothing, and the API server no lists.
func TestNodes_AskForRightsBeforeTheyAskAgents(t *testing.T) {
	o, from := world(own, foreign)
	read := 0
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": from} }
	r := New(counted{o, &read}, NewReviewer(&rights{of: callers()}), agents, NewGathered(agents), nil)
	for _, path := range []string{"/api/v1/nodes?namespace=shop", "/api/v1/nodes/w1/v1/flows?namespace=shop"} {
		if code, _ := ask(t, r, "viewer", path); code != 403 || read != 0 || *from.asked != 0 {
			t.Errorf("%s: %d, %d lists, %d questions", path, code, read, *from.asked)
		}
		if code, _ := ask(t, r, "tenant", path); code != 200 || read == 0 {
			t.Errorf("%s: %d, %d lists for who may", path, code, read)
		}
		read = 0
	}
	if *from.asked != 1 {
		t.Errorf("%d questions to the agent, want 1", *from.asked)
	}
}

// TestNodes_AgentWithoutAnswer is named, and its address only to who may see nodes.
func TestNodes_AgentWithoutAnswer(t *testing.T) {
	o, from := world(own, foreign)
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": failing{from}} }
	r := New(o, NewReviewer(&rights{of: callers()}), agents, NewGathered(agents), nil)
	for caller, detailed := range map[string]bool{"admin": true, "tenant": false} {
		code, body := ask(t, r, caller, "/api/v1/nodes/w1/v1/flows?namespace=shop")
		if code != 503 || !strings.Contains(body, "agent of node w1 does not answer") || strings.Contains(body, "no route to host") != detailed {
			t.Errorf("%s: %d: %s", caller, code, body)
		}
	}
}

// waiting is an agent that answers when it is let.
type waiting struct {
	source
	asked chan struct{}
	let   chan struct{}
}

func (w waiting) Flows(ctx context.Context, _ flowapi.Query) (*flowapi.Flows, error) {
	w.asked <- struct{}{}
	select {
	case <-w.let:
		return &flowapi.Flows{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestNodes_FewAgentsAreAskedAtOnce: answers with all rules are large, so their number at a time is bounded. One
// caller that asks in a loop does not take all places.
func TestNodes_FewAgentsAreAskedAtOnce(t *testing.T) {
	o, from := world(own, foreign)
	agent := waiting{from, make(chan struct{}, 100), make(chan struct{})}
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": agent} }
	r := New(o, NewReviewer(&rights{of: callers()}), agents, NewGathered(agents), nil)
	done := make(chan int, 10)
	for range cap(done) {
		go func() {
			code, _ := ask(t, r, "admin", "/api/v1/nodes/w1/v1/flows?why=true")
			done <- code
		}()
	}
	none := func(when string) {
		select {
		case <-agent.asked:
			t.Errorf("a further agent was asked, %s", when)
		case <-time.After(100 * time.Millisecond):
		}
	}
	for range ruledEach {
		<-agent.asked
	}
	none("for the caller who has his places")
	tenant := make(chan int, 2)
	for range cap(tenant) {
		go func() {
			code, _ := ask(t, r, "tenant", "/api/v1/nodes/w1/v1/flows?namespace=shop&why=true")
			tenant <- code
		}()
	}
	<-agent.asked
	none("where all places are taken")
	close(agent.let)
	for range cap(done) {
		if code := <-done; code != 200 {
			t.Errorf("status %d", code)
		}
	}
	for range cap(tenant) {
		if code := <-tenant; code != 200 {
			t.Errorf("status %d for the other caller", code)
		}
	}
}
