package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// TestLeader_ShowsItsTokenToTheControllerOfTheLease, and to no other server: a node can write the same into its own Lease.
func TestLeader_ShowsItsTokenToTheControllerOfTheLease(t *testing.T) {
	tokens := []string{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		flownames.Handler(names{own, foreign}, prometheus.NewRegistry()).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(server.Certificate().Raw)
	at := flownames.Endpoint{Address: server.Listener.Addr().String(), Fingerprint: hex.EncodeToString(sum[:])}
	other := flownames.Endpoint{Address: at.Address, Fingerprint: strings.Repeat("0", 64)}
	text := func(e flownames.Endpoint) string { text, _ := json.Marshal(e); return string(text) }
	for want, leases := range map[string]map[string]string{
		"":                              {"ovn-kubernetes-master": text(at), "w1": text(other)},
		"no controller serves them":     {"ovn-kubernetes-master": "", "w1": text(at)},
		"is not the one that":           {"ovn-kubernetes-master": text(other), "w1": text(at)},
		"is not an address":             {"ovn-kubernetes-master": "{}"},
		"no controller serves them\x00": {},
	} {
		tokens = nil
		s := snapshot.New(time.Now(), "ovn-kubernetes")
		for name, value := range leases {
			s.Add(snapshot.Leases, map[string]any{"metadata": map[string]any{"name": name, "annotations": map[string]any{flownames.LeaseKey: value}}, "spec": map[string]any{}})
		}
		l := &Leader{Objects: func() *snapshot.Snapshot { return s }, Token: func() (string, error) { return "secret", nil }}
		got, err := l.Names(t.Context(), []uint64{7})
		if want == "" {
			if err != nil || len(got[7].Objects) == 0 || len(tokens) != 1 || tokens[0] != "Bearer secret" {
				t.Errorf("%v, %v, tokens %v", got, err, tokens)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), strings.Trim(want, "\x00")) || len(tokens) != 0 {
			t.Errorf("%v: %v, tokens %v", leases, err, tokens)
		}
	}
}

// silent is a leading controller that does not answer.
type silent struct{}

func (silent) Names(context.Context, []uint64) (map[uint64]flowapi.Name, error) {
	return nil, errors.New("dial tcp 192.0.2.9:9413: no route to host")
}

// TestRelay_WithoutNamesStillShowsFlows, and says where the names are missing; who may not see nodes sees no address.
func TestRelay_WithoutNamesStillShowsFlows(t *testing.T) {
	o, from := world(own, foreign)
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": from} }
	for _, c := range []struct {
		asker              flownames.Asker
		caller, has, lacks string
	}{
		{silent{}, "tenant", "the leading controller does not answer", "192.0.2.9"},
		{silent{}, "admin", "no route to host", "does not answer"},
		{nil, "admin", "10.244.1.7", "names of flows"},
	} {
		r := New(o, NewReviewer(&rights{of: callers()}), agents, NewGathered(agents), c.asker)
		code, body := get(t, r, c.caller, "flows", url.Values{"pod": {"shop/web-0"}})
		if code != 200 || !strings.Contains(body, c.has) || strings.Contains(body, c.lacks) || !strings.Contains(body, own.address) {
			t.Errorf("%s: %d, want %q and not %q: %s", c.caller, code, c.has, c.lacks, body)
		}
	}
}

// askedOf is an Asker, and restarting an agent that gives no second answer.
type (
	askedOf    map[uint64]flowapi.Name
	restarting struct{ flowapi.Source }
)

func (a askedOf) Names(context.Context, []uint64) (map[uint64]flowapi.Name, error) { return a, nil }

func (restarting) Flows(context.Context, flowapi.Query) (*flowapi.Flows, error) {
	return nil, errors.New("restarting")
}

// TestAddNames_InheritsWithoutASecondAnswer: an agent that does not answer again keeps no names from the other flows.
func TestAddNames_InheritsWithoutASecondAnswer(t *testing.T) {
	flow := func(id string, cookie uint64, way flowapi.Way) flowapi.Flow {
		why := &flowapi.Why{ID: id, Rules: []flowapi.Rule{{Cookie: cookie, Rule: "priority=1"}}}
		return flowapi.Flow{ID: id, Node: "w1", From: flowapi.End{Port: "p"}, Way: way, Why: why}
	}
	got := &flowapi.Flows{Flows: []flowapi.Flow{
		flow("first", 1, flowapi.Way{Next: []uint32{7}}), flow("second", 2, flowapi.Way{Recirculation: 7}), flow("changed", 3, flowapi.Way{}),
	}}
	err := addNames(t.Context(), askedOf{
		1: {Stage: "ls_in_acl_eval", Row: "ACL", Objects: []string{"NetworkPolicy/shop/allow"}}, 2: {Stage: "ls_in_l2_lkup"}, 3: {Problem: "has no row"},
	}, restarting{}, got)
	if err == nil || !strings.Contains(err.Error(), "node/w1: restarting") {
		t.Error(err)
	}
	if is := got.Flows[1].DecidedBy; len(is) != 1 || is[0] != "NetworkPolicy/shop/allow" {
		t.Errorf("the second flow of the way is decided by %v", is)
	}
}
