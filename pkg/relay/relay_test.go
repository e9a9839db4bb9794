package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// rights are an API server in which a token is the name of its holder.
type rights struct {
	of    map[string][]Right
	asked int
	down  bool
}

func (r *rights) Whose(_ context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	if r.down {
		return authenticationv1.UserInfo{}, false, errors.New("the API server does not answer")
	}
	_, ok := r.of[token]
	return authenticationv1.UserInfo{Username: token}, ok, nil
}

func (r *rights) May(_ context.Context, user authenticationv1.UserInfo, wanted Right) (bool, error) {
	r.asked++
	if r.down {
		return false, errors.New("the API server does not answer")
	}
	for _, right := range r.of[user.Username] {
		if right == wanted {
			return true, nil
		}
	}
	return false, nil
}

// static are the objects of a fixture.
type static struct{ s *snapshot.Snapshot }

func (o static) With(context.Context, web.Want) (*snapshot.Snapshot, error) { return o.s, nil }

// source is the agent of a node.
type source struct {
	flows flowapi.Flows
	sums  flowapi.Summary
	asked *int
}

func (s source) Summary(context.Context, bool) (*flowapi.Summary, error) { return &s.sums, nil }
func (s source) Flows(context.Context, flowapi.Query) (*flowapi.Flows, error) {
	*s.asked++
	answer := s.flows
	answer.Flows = slices.Clone(answer.Flows)
	return &answer, nil
}
func (s source) Why(context.Context, string) (*flowapi.Why, error) { return nil, flowapi.ErrNoFlow }

// world has pods of two namespaces on one node, with a flow between them.
func world(own, foreign name) (static, source) {
	s := snapshot.New(time.Unix(1_700_000_000, 0), "ovn-kubernetes")
	s.Add(snapshot.Nodes, map[string]any{"metadata": map[string]any{"name": "w1"}})
	s.Add(snapshot.Deployments, map[string]any{"metadata": map[string]any{"name": "ovnkube-master", "namespace": "ovn-kubernetes"}})
	var used, traffic []any
	asked := 0
	from := source{asked: &asked, sums: flowapi.Summary{Node: "w1", Seconds: 30}}
	for i, n := range []name{own, foreign} {
		s.Add(snapshot.Pods, map[string]any{
			"metadata": map[string]any{"namespace": n.namespace, "name": n.pod}, "spec": map[string]any{"nodeName": "w1"},
			"status": map[string]any{"phase": "Running", "podIPs": []any{map[string]any{"ip": n.address}}},
		})
		s.Add(snapshot.Services, map[string]any{"metadata": map[string]any{"namespace": n.namespace, "name": n.service}, "spec": map[string]any{}})
		s.Add(snapshot.NetworkPolicies, map[string]any{"metadata": map[string]any{"namespace": n.namespace, "name": n.policy}, "spec": map[string]any{"podSelector": map[string]any{}}})
		s.Add(snapshot.Events, map[string]any{
			"metadata": map[string]any{"namespace": n.namespace, "name": n.pod + ".1"}, "type": "Warning", "reason": "NetworkFailed", "note": n.pod + " failed",
			"regarding": map[string]any{"kind": "Pod", "namespace": n.namespace, "name": n.pod}, "eventTime": "2023-11-14T22:13:00.000000Z",
		})
		used = append(used, map[string]any{"device": fmt.Sprintf("0000:3b:00.%d", i+2), "pf": "0000:3b:00.0", "pod": n.namespace + "/" + n.pod, "phase": "attached"})
		traffic = append(traffic, map[string]any{
			"pod": n.namespace + "/" + n.pod, "port": n.port, "flows": map[string]any{"hardware": int64(50)}, "packets": map[string]any{"hardware": int64(50), "tc": int64(50)},
			"outside": []any{map[string]any{"reason": "action", "detail": "hash(l4)"}},
		})
		from.sums.Pods = append(from.sums.Pods, flowapi.PodSummary{
			Namespace: n.namespace, Name: n.pod, Ports: []string{n.port}, Traffic: offload.Share{TC: offload.Count{Packets: 300}}, Reason: offload.ReasonAction,
		})
	}
	s.Add(snapshot.NodeOffloads, map[string]any{"metadata": map[string]any{"name": "w1"}, "status": map[string]any{
		"offload": "on", "deviceCount": int64(1), "usedVFs": used, "traffic": traffic,
		"problems": []any{"VF 3: pod " + foreign.namespace + "/" + foreign.pod + " is gone", "the driver is not bound"},
		"devices":  []any{map[string]any{"name": "0000:3b:00.0", "uplink": "ens1f0np0"}},
	}})
	end := func(n name) flowapi.End { return flowapi.End{Port: n.port, Namespace: n.namespace, Pod: n.pod} }
	from.flows = flowapi.Flows{Node: "w1", Matched: 3, Flows: []flowapi.Flow{
		{ID: "1", From: end(own), To: []flowapi.End{end(foreign)}, Packet: flowapi.Packet{Source: own.address, Target: foreign.address, Tunnel: foreign.address},
			Match: "in_port(" + foreign.port + ")", Actions: foreign.port, DecidedBy: []string{"NetworkPolicy/" + foreign.namespace + "/" + foreign.policy, "NetworkPolicy/" + own.namespace + "/" + own.policy},
			Placed: flowapi.Placed{Reason: "port", Detail: foreign.port},
			Why:    &flowapi.Why{Problem: foreign.port, Rules: []flowapi.Rule{{Cookie: 0xaaaaaaaa, Rule: foreign.address}}}},
		{ID: "2", From: end(foreign), To: []flowapi.End{end(own)}, Packet: flowapi.Packet{Source: foreign.address, Target: own.address}},
		{ID: "4", From: end(own), Packet: flowapi.Packet{Source: own.address, Target: foreign.address}, Way: flowapi.Way{Drops: true}, Traffic: flowapi.Traffic{Packets: 7},
			Why: &flowapi.Why{Rules: []flowapi.Rule{{Cookie: 0xaaaaaaaa, Name: &flowapi.Name{
				Stage: "ls_in_acl_eval", Row: "ACL", Objects: []string{"NetworkPolicy/" + foreign.namespace + "/" + foreign.policy, "NetworkPolicy/" + own.namespace + "/" + own.policy}}}}}},
		{ID: "3", From: end(foreign), Packet: flowapi.Packet{Source: foreign.address, Target: foreign.address}},
	}}
	return static{s}, from
}

type name struct{ namespace, pod, service, policy, port, address string }

var (
	own     = name{"shop", "web-0", "web", "allow-web", "pf0vf2", "10.244.1.7"}
	foreign = name{"bank", "vault-0", "vault", "deny-vault", "pf0vf3", "10.244.1.8"}
)

// callers by what they may.
func callers() map[string][]Right {
	return map[string][]Right{
		"admin":    {{NodeOffloads, ""}, {PodOffloads, ""}, {PodFlows, ""}},
		"operator": {{NodeOffloads, ""}},
		"tenant":   {{PodOffloads, own.namespace}, {PodFlows, own.namespace}},
		"viewer":   {{PodOffloads, own.namespace}},
		"anyone":   nil,
	}
}

func newRelay(own, foreign name, asker Asker) *Relay {
	o, from := world(own, foreign)
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": from} }
	g := NewGathered(agents)
	g.Gather(context.Background(), time.Unix(1_700_000_000, 0))
	return New(o, NewReviewer(asker), agents, g, names{own, foreign})
}

// names are those that the leading controller gives: all rules are of policies of both.
type names struct{ own, foreign name }

func (n names) Names(_ context.Context, cookies []uint64) (map[uint64]flowapi.Name, error) {
	out := map[uint64]flowapi.Name{}
	for _, cookie := range cookies {
		out[cookie] = flowapi.Name{Stage: "ls_in_acl_eval", Row: "ACL", What: n.foreign.policy, Problem: n.foreign.policy, Objects: []string{
			"NetworkPolicy/" + n.foreign.namespace + "/" + n.foreign.policy, "NetworkPolicy/" + n.own.namespace + "/" + n.own.policy,
			"MultiNetworkPolicy/" + n.own.namespace + "/" + n.own.policy + "@" + n.foreign.namespace, "Service/" + n.foreign.namespace + "/" + n.foreign.service,
			"Neighbor/" + n.own.namespace + "/" + n.foreign.address, "AdminNetworkPolicy/" + n.foreign.policy, "Node/" + n.foreign.pod,
			"PodSet/" + n.foreign.policy, n.foreign.service + "/" + n.own.namespace + "/" + n.foreign.pod, n.foreign.port,
		}}
	}
	return out, nil
}

// get asks the relay for a view with a token.
func get(t testing.TB, r *Relay, token, view string, q url.Values) (int, string) {
	t.Helper()
	page := &web.Server{Facts: r.Facts, Period: time.Second}
	request := httptest.NewRequest(http.MethodGet, "/api/v1/views/"+view+"?"+q.Encode(), nil)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, request)
	return w.Code, w.Body.String()
}

// in are the namespaces of a view.
func in(names ...name) url.Values {
	var all []string
	for _, n := range names {
		all = append(all, n.namespace)
	}
	return url.Values{"namespaces": {strings.Join(all, ",")}}
}

func of(n name) url.Values { return url.Values{"name": {n.namespace + "/" + n.pod}} }

// TestRelay_ShowsEachCallerWhatHeMaySee: caller, view and namespace.
func TestRelay_ShowsEachCallerWhatHeMaySee(t *testing.T) {
	r := newRelay(own, foreign, &rights{of: callers()})
	pod := func(n name) url.Values { return url.Values{"pod": {n.namespace + "/" + n.pod}} }
	node := url.Values{"node": {"w1"}, "name": {"w1"}}
	for _, test := range []struct {
		caller, view string
		q            url.Values
		code         int
		has, lacks   string
	}{
		{"", "overview", nil, 401, "", "w1"},
		{"unknown", "overview", nil, 401, "", "w1"},
		{"admin", "overview", nil, 200, `"node":"w1"`, ""},
		{"operator", "overview", nil, 200, `"node":"w1"`, "vault-0"},
		{"tenant", "overview", nil, 200, denied, `"node":"w1"`},
		{"anyone", "overview", nil, 200, denied, "w1"},
		{"admin", "pod", of(foreign), 200, "pf0vf3", ""},
		{"operator", "pod", of(foreign), 404, "", "pf0vf3"},
		{"tenant", "pod", of(own), 200, "hash(l4)", "ens1f0np0"},
		{"tenant", "pod", of(foreign), 404, "", "pf0vf3"},
		{"viewer", "pod", of(own), 200, "hash(l4)", `"flows":{"node"`},
		{"anyone", "pod", of(own), 404, "", "pf0vf2"},
		{"admin", "node", node, 200, "vault-0", ""},
		{"operator", "node", node, 200, "the driver is not bound", "vault-0"},
		{"tenant", "node", node, 404, "", "ens1f0np0"},
		{"admin", "flows", node, 200, foreign.address, ""},
		{"admin", "flows", pod(foreign), 200, "vault-0", ""},
		{"operator", "flows", node, 200, `"matched":3`, "10.244"},
		{"tenant", "flows", node, 403, "", "10.244"},
		{"tenant", "flows", pod(own), 200, "NetworkPolicy/shop/allow-web", "deny-vault"},
		{"tenant", "flows", pod(own), 200, `"NetworkPolicy of another namespace"`, "vault"},
		{"tenant", "flows", pod(own), 200, `"MultiNetworkPolicy/shop/allow-web"`, "bank"},
		{"tenant", "flows", pod(own), 200, `"AdminNetworkPolicy"`, "vault"},
		{"admin", "flows", pod(own), 200, "NetworkPolicy/bank/deny-vault", ""},
		{"tenant", "flows", pod(foreign), 403, "", "vault"},
		{"viewer", "flows", pod(own), 403, "", "10.244"},
		{"admin", "flows", url.Values{"namespace": {own.namespace}, "verdict": {"dropped"}, "policy": {own.policy}}, 200, `"matched":1`, ""},
		{"tenant", "flows", url.Values{"namespace": {own.namespace}}, 200, "pod/shop/web-0", "vault"},
		{"tenant", "flows", url.Values{"namespace": {foreign.namespace}}, 403, "", "vault"},
		{"viewer", "flows", url.Values{"namespace": {own.namespace}}, 403, "", "web-0"},
		{"admin", "traffic", nil, 200, "bank/vault-0", ""},
		{"operator", "traffic", nil, 200, `"sums"`, "vault-0"},
		{"tenant", "traffic", nil, 200, "shop/web-0", `"sums"`},
		{"anyone", "traffic", nil, 200, `"agents":1`, "web-0"},
		{"tenant", "worst", nil, 200, "shop/web-0", "vault-0"},
		{"admin", "map", in(own, foreign), 200, "dropped by netpol/bank/deny-vault, netpol/shop/allow-web", ""},
		{"tenant", "map", in(own), 200, "pod/shop/web-0", "vault"},
		{"tenant", "map", in(own), 200, "7 packets dropped\"", "allow-web"},
		{"tenant", "map", in(own), 200, "another namespace", "10.244"},
		{"tenant", "map", in(own, foreign), 403, "", "vault"},
		{"viewer", "map", in(own), 403, "", "web-0"},
		{"operator", "map", in(own), 403, "", "web-0"},
		{"", "map", in(own), 401, "", "web-0"},
		{"admin", "policies", in(foreign), 200, "netpol/bank/deny-vault", "netpol/shop"},
		{"tenant", "policies", in(own), 200, "netpol/shop/allow-web", "deny-vault"},
		{"tenant", "policies", in(foreign), 403, "", "deny-vault"},
		{"viewer", "policies", in(own), 403, "", "allow-web"},
		{"admin", "path", url.Values{"from": {"pod/shop/web-0"}, "to": {"192.0.2.1:80"}}, 502, "kubectl offload trace", ""},
	} {
		code, body := get(t, r, test.caller, test.view, test.q)
		if code != test.code || !strings.Contains(body, test.has) || test.lacks != "" && strings.Contains(body, test.lacks) {
			t.Errorf("%s asks for %s %v: %d, want %d with %q and without %q:\n%s", test.caller, test.view, test.q, code, test.code, test.has, test.lacks, body)
		}
	}
}

// counted counts what is read.
type counted struct {
	static
	read *int
}

func (o counted) With(ctx context.Context, want web.Want) (*snapshot.Snapshot, error) {
	*o.read++
	return o.static.With(ctx, want)
}

// TestRelay_AsksForRightsBeforeItReadsObjects: a caller without rights on a namespace gets status 403, and costs the API server no lists.
func TestRelay_AsksForRightsBeforeItReadsObjects(t *testing.T) {
	o, from := world(own, foreign)
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": from} }
	for _, view := range []string{"map", "policies"} {
		read := 0
		r := New(counted{o, &read}, NewReviewer(&rights{of: callers()}), agents, NewGathered(agents), nil)
		if code, _ := get(t, r, "viewer", view, in(own)); code != 403 || read != 0 {
			t.Errorf("%s: %d, %d times read", view, code, read)
		}
		if code, _ := get(t, r, "tenant", view, in(own)); code != 200 || read == 0 {
			t.Errorf("%s: %d, %d times read for who may", view, code, read)
		}
	}
}

// TestRelay_GivesNoForeignName: whatever the names are, no byte of one leaves for who may not see it.
func TestRelay_GivesNoForeignName(t *testing.T) {
	seed := tier.Seed(t)
	for i := range uint64(200) {
		checkForeign(t, seed+i)
	}
}

// FuzzRelay_GivesNoForeignName looks further.
func FuzzRelay_GivesNoForeignName(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkForeign(t, seed) })
}

func checkForeign(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, seed))
	word := func() string { return fmt.Sprintf("x%dq", random.Uint64()) } // in no other text
	other := name{word(), word(), word(), word(), word(), fmt.Sprintf("203.0.113.%d", random.IntN(256))}
	r := newRelay(own, other, &rights{of: callers()})
	for _, caller := range []string{"tenant", "viewer", "operator", "anyone"} {
		for _, view := range []string{"overview", "health", "worst", "traffic", "pod", "node", "flows", "map", "policies"} {
			for _, q := range []url.Values{nil, of(own), in(own), {"name": {"w1"}}, {"node": {"w1"}}, {"pod": {own.namespace + "/" + own.pod}}} {
				_, body := get(t, r, caller, view, q)
				for _, text := range []string{other.namespace, other.pod, other.service, other.policy, other.port, other.address} {
					if strings.Contains(body, text) {
						t.Fatalf("seed %d: %s asks for %s %v and sees %q:\n%s", seed, caller, view, q, text, body)
					}
				}
			}
		}
	}
	if _, body := get(t, r, "admin", "node", url.Values{"name": {"w1"}}); !strings.Contains(body, other.pod) {
		t.Fatal("the fixture has no foreign name to see")
	}
	if _, body := get(t, r, "admin", "flows", url.Values{"node": {"w1"}}); !strings.Contains(body, "AdminNetworkPolicy/"+other.policy) {
		t.Fatal("the fixture has no foreign name to see in a flow")
	}
	if _, body := get(t, r, "admin", "map", in(own)); !strings.Contains(body, other.policy) || !strings.Contains(body, other.namespace) {
		t.Fatal("the fixture has no foreign name to see in a map")
	}
}

// TestRelay_AddressOfEndedPodHasNoOwner: the address of a pod that has ended may belong to a pod of another tenant now.
func TestRelay_AddressOfEndedPodHasNoOwner(t *testing.T) {
	for _, phase := range []string{"Succeeded", "Failed", "Running", "Pending"} {
		o, from := world(own, foreign)
		o.s.Add(snapshot.Pods, map[string]any{
			"metadata": map[string]any{"namespace": own.namespace, "name": "job-0"}, "spec": map[string]any{"nodeName": "w1"},
			"status": map[string]any{"phase": phase, "podIPs": []any{map[string]any{"ip": foreign.address}}},
		})
		agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": from} }
		r := New(o, NewReviewer(&rights{of: callers()}), agents, NewGathered(agents), nil)
		lives := phase == "Running" || phase == "Pending" // the control
		if code, body := get(t, r, "tenant", "flows", url.Values{"pod": {"shop/web-0"}}); code != 200 || strings.Contains(body, `"`+foreign.address+`"`) != lives {
			t.Errorf("%s: page: %d: %s", phase, code, body)
		}
		if code, body := ask(t, r, "tenant", "/api/v1/nodes/w1/v1/flows?namespace=shop"); code != 200 || strings.Contains(body, `"`+foreign.address+`"`) != lives {
			t.Errorf("%s: flows: %d: %s", phase, code, body)
		}
	}
}

// TestRelay_SaysWhoseFlowsAreMissing without the name of a node.
func TestRelay_SaysWhoseFlowsAreMissing(t *testing.T) {
	o, from := world(own, foreign)
	for want, agents := range map[string]map[string]flowapi.Source{"has no agent": nil, "does not answer": {"w1": failing{from}}} {
		of := func() map[string]flowapi.Source { return agents }
		r := New(o, NewReviewer(&rights{of: callers()}), of, NewGathered(of), nil)
		if code, body := get(t, r, "tenant", "map", in(own)); code != 200 || !strings.Contains(body, want) || strings.Contains(body, "w1") {
			t.Errorf("%d: %s, want %q", code, body, want)
		}
	}
}

// TestReviewer_ForgetsAfterAMinute: a right that is taken away ends, also for a stream that is open.
func TestReviewer_ForgetsAfterAMinute(t *testing.T) {
	asker := &rights{of: callers()}
	reviewer := NewReviewer(asker)
	now := time.Unix(0, 0)
	reviewer.Now = func() time.Time { return now }
	see := func() bool {
		c, err := reviewer.Caller(t.Context(), "tenant", Source{})
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			return false
		}
		sight, failed := c.Sight(t.Context(), PodOffloads)
		return sight.Pods("shop") && failed() == nil
	}
	for range 2 {
		if !see() {
			t.Fatal("the tenant does not see his pods")
		}
	}
	if asked := asker.asked; asked != 3 {
		t.Errorf("asked %d times, want once for each right", asked)
	}
	asker.of["tenant"] = nil
	if !see() {
		t.Error("it was not remembered")
	}
	now = now.Add(remembered)
	if see() {
		t.Error("the right has not ended after a minute")
	}
	delete(asker.of, "tenant")
	now = now.Add(remembered)
	if c, err := reviewer.Caller(t.Context(), "tenant", Source{}); c != nil || err != nil {
		t.Errorf("a token that has ended: %v, %v", c, err)
	}
}

// TestRelay_WithoutTheAPIServerShowsNothing.
func TestRelay_WithoutTheAPIServerShowsNothing(t *testing.T) {
	asker := &rights{of: callers()}
	r := newRelay(own, foreign, asker)
	if _, err := r.reviewer.Caller(t.Context(), "tenant", Source{}); err != nil {
		t.Fatal(err)
	}
	asker.down = true
	if code, body := get(t, r, "tenant", "pod", of(own)); code != 502 || strings.Contains(body, "pf0vf2") {
		t.Errorf("%d\n%s", code, body)
	}
}

// TestRelay_ManyViewersAreOneQuestion to the agent.
func TestRelay_ManyViewersAreOneQuestion(t *testing.T) {
	o, from := world(own, foreign)
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": from} }
	r := New(o, NewReviewer(&rights{of: callers()}), agents, NewGathered(agents), nil)
	done := make(chan int, 50)
	for range cap(done) {
		go func() {
			code, _ := get(t, r, "admin", "flows", url.Values{"node": {"w1"}})
			done <- code
		}()
	}
	for range cap(done) {
		if code := <-done; code != 200 {
			t.Errorf("status %d", code)
		}
	}
	if *from.asked != 1 {
		t.Errorf("%d questions, want 1", *from.asked)
	}
}

// failing is an agent that does not answer.
type failing struct{ source }

func (failing) Flows(context.Context, flowapi.Query) (*flowapi.Flows, error) {
	return nil, errors.New("no route to host w1")
}

func (failing) Summary(context.Context, bool) (*flowapi.Summary, error) {
	return nil, errors.New("no route to host")
}

// TestGathered_KeepsAnHourAndNoOldNumbers.
func TestGathered_KeepsAnHourAndNoOldNumbers(t *testing.T) {
	_, from := world(own, foreign)
	from.sums.Total = offload.Share{Hardware: offload.Count{Packets: 3000}, OVS: offload.Count{Packets: 300}}
	agents := map[string]flowapi.Source{"w1": from, "w2": from}
	g := NewGathered(func() map[string]flowapi.Source { return agents })
	for i := range steps + 5 {
		g.Gather(t.Context(), time.Unix(int64(i)*30, 0))
	}
	sums := g.Sums()
	if last := sums[len(sums)-1]; len(sums) != steps || last.Hardware != 200 || last.Software != 20 || last.Nodes != 2 {
		t.Errorf("%d sums, the last %+v", len(sums), last)
	}
	agents["w2"] = failing{from}
	g.Gather(t.Context(), time.Unix(9000, 0))
	if nodes, failed := g.Summaries(); nodes["w2"] != nil || failed["w2"] == "" {
		t.Errorf("an agent that does not answer: %v, %v", nodes["w2"], failed)
	}
	delete(agents, "w2")
	g.Gather(t.Context(), time.Unix(9030, 0))
	if _, failed := g.Summaries(); len(failed) != 0 {
		t.Errorf("an agent that is gone: %v", failed)
	}
}

// TestRestrict_DoesNotChangeWhatOthersSee: snapshots are shared.
func TestRestrict_DoesNotChangeWhatOthersSee(t *testing.T) {
	o, _ := world(own, foreign)
	before, err := json.Marshal(o.s.Shared(snapshot.NodeOffloads))
	if err != nil {
		t.Fatal(err)
	}
	Restrict(o.s, &Sight{Nodes: true, Pods: func(namespace string) bool { return namespace == own.namespace }})
	if after, _ := json.Marshal(o.s.Shared(snapshot.NodeOffloads)); string(after) != string(before) {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}
