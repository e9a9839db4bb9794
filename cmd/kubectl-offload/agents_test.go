package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/relay"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// tenancy is a cluster with a relay, for a user who may list the objects of the namespace shop, and see its flows.
type tenancy struct {
	// ready is the status of the relay.
	ready int
	relay http.Handler
	mu    sync.Mutex
	asked []string
}

const (
	relayed      = "/api/v1/namespaces/ovn-kubernetes/services/https:ovn-offload-relay:443/proxy"
	vaultAddress = "10.244.1.7"
)

func (c *tenancy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.asked = append(c.asked, r.URL.RequestURI())
	c.mu.Unlock()
	switch path := r.URL.Path; path {
	case relayed + "/readyz":
		w.WriteHeader(c.ready)
	case "/api/v1/namespaces/shop/pods":
		encode(w, &corev1.PodList{Items: []corev1.Pod{podAt("shop", "web", "10.244.1.5"), podAt("shop", "db", "10.244.1.6")}})
	case "/api/v1/namespaces/shop/services":
		encode(w, &corev1.ServiceList{})
	case "/api/v1/namespaces/shop": // a role in a namespace has the right to get it
		encode(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	case "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies":
		items := ""
		if r.URL.Query().Get("fieldSelector") == "metadata.name=db" {
			items = `{"metadata":{"namespace":"shop","name":"db"},"spec":{"podSelector":{"matchLabels":{"app":"db"}}}}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"NetworkPolicyList","apiVersion":"networking.k8s.io/v1","items":[%s]}`, items)
	default:
		if strings.HasPrefix(path, relayed) {
			http.StripPrefix(relayed, c.relay).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%q}`, path+" is forbidden")
	}
}

func podAt(namespace, name, address string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{
		contract.PodNetworksKey: `{"default":{"ip_addresses":["` + address + `/24"],"mac_address":"0a:58:0a:01:02:03","gateway_ips":["10.244.1.1"]}}`,
	}}, Spec: corev1.PodSpec{NodeName: "w1"}}
	p.Status.Phase, p.Status.PodIPs = corev1.PodRunning, []corev1.PodIP{{IP: address}}
	return p
}

// objects are those that the relay has.
type objects struct{ s *snapshot.Snapshot }

func (o objects) With(context.Context, web.Want) (*snapshot.Snapshot, error) { return o.s, nil }

// inShop is the API server for the relay: the one token that is valid has the rights in the namespaces.
type inShop []string

func (inShop) Whose(_ context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	return authenticationv1.UserInfo{Username: "tenant"}, token == "secret", nil
}

func (in inShop) May(_ context.Context, _ authenticationv1.UserInfo, r relay.Right) (bool, error) {
	return r.Resource != relay.NodeOffloads && slices.Contains(in, r.Namespace), nil
}

// shopAgent has flows from a pod to another one, and to one of another namespace.
type shopAgent struct{}

func (shopAgent) Summary(context.Context, bool) (*flowapi.Summary, error) {
	return &flowapi.Summary{Node: "w1", Pods: []flowapi.PodSummary{{Namespace: "shop", Name: "web"}, {Namespace: "bank", Name: "vault"}}}, nil
}

func (shopAgent) Flows(context.Context, flowapi.Query) (*flowapi.Flows, error) {
	end := func(namespace, name string) flowapi.End {
		return flowapi.End{Port: name, Namespace: namespace, Pod: name}
	}
	flow := func(id string, to flowapi.End, target string) flowapi.Flow {
		return flowapi.Flow{
			ID: id, From: end("shop", "web"), To: []flowapi.End{to}, Placed: flowapi.Placed{Place: "ovs", Reason: "port"}, Traffic: flowapi.Traffic{Packets: 7},
			Packet: flowapi.Packet{Protocol: "tcp", Source: "10.244.1.5", Target: target, TargetPort: "5432", Direction: flowapi.Original},
		}
	}
	return &flowapi.Flows{Node: "w1", Matched: 2, Flows: []flowapi.Flow{flow("1", end("shop", "db"), "10.244.1.6"), flow("2", end("bank", "vault"), vaultAddress)}}, nil
}

func (shopAgent) Why(context.Context, string) (*flowapi.Why, error) { return nil, flowapi.ErrNoFlow }

// newTenancy has a relay for a user with rights in some namespaces.
func newTenancy(t *testing.T, ready int, namespaces ...string) *tenancy {
	t.Helper()
	s := snapshot.New(time.Now(), "ovn-kubernetes")
	for _, p := range []struct{ namespace, name, address string }{{"shop", "web", "10.244.1.5"}, {"shop", "db", "10.244.1.6"}, {"bank", "vault", vaultAddress}} {
		s.Add(snapshot.Pods, map[string]any{
			"metadata": map[string]any{"namespace": p.namespace, "name": p.name}, "spec": map[string]any{"nodeName": "w1"},
			"status": map[string]any{"phase": "Running", "podIPs": []any{map[string]any{"ip": p.address}}},
		})
	}
	s.Add(snapshot.Nodes, map[string]any{"metadata": map[string]any{"name": "w1"}})
	agents := func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": shopAgent{}} }
	r := relay.New(objects{s}, relay.NewReviewer(inShop(namespaces)), agents, relay.NewGathered(agents), nil)
	mux := http.NewServeMux()
	mux.Handle("/", (&web.Server{Facts: r.Facts, Period: time.Second}).Handler())
	mux.Handle(flowapi.NodesPath, r.NodesHandler())
	mux.Handle(flowapi.NodesPath+"/", r.NodesHandler())
	return &tenancy{ready: ready, relay: mux}
}

// run runs a verb in a cluster.
func (c *tenancy) run(t *testing.T, args string) (out string, code int) {
	t.Helper()
	server := httptest.NewUnstartedServer(c)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	cmd := command()
	var written strings.Builder
	cmd.SetOut(&written)
	cmd.SetArgs(append(strings.Fields(args), "--kubeconfig", kubeconfigOf(t, server)))
	err := cmd.ExecuteContext(t.Context())
	code, silent := exitCode(err)
	if !silent {
		fmt.Fprintln(&written, err)
	}
	return written.String(), code
}

// TestVerbs_ReadFlowsThroughTheRelay with the rights of a tenant: no list of all pods, no nodes, no pods/exec, and nothing of another
// namespace. What the relay refuses, and a relay that does not answer, are errors, and no reason for pods/exec either.
func TestVerbs_ReadFlowsThroughTheRelay(t *testing.T) {
	const silent, shop = "the relay of this cluster does not answer", "shop"
	for _, test := range []struct {
		args  string
		ready int
		in    string
		code  int
		has   []string
	}{
		{"flows --pod web -n shop", 200, shop, 0, []string{"pod/shop/web", "pod/shop/db", "withheld"}},
		{"flows --from-label app=web -n shop", 200, shop, 0, []string{"pod/shop/web"}},
		{"flows --from-label app=db -n shop", 200, shop, 0, []string{"no such stream"}},
		{"flows --to-label app=( -n shop", 200, shop, 64, []string{"--to-label"}},
		{"explain pod/web -n shop", 200, shop, 0, []string{"pod/shop/web  running", "pod/shop/db", "withheld"}},
		{"explain pod/web --to pod/db -n shop", 200, shop, 0, []string{"pod/shop/db"}},
		{"explain netpol/db -n shop", 200, shop, 0, []string{"pod/shop/db"}},
		{"explain netpol/none -n shop", 200, shop, 1, []string{"there is no NetworkPolicy shop/none"}},
		{"explain flow/1@w1 -n shop", 200, shop, 0, []string{"pod/shop/db"}},
		{"explain svc/db -n shop", 200, shop, 1, []string{"there is no service shop/db"}},
		{"trace pod/web pod/db:5432 --live -n shop", 200, shop, 0, []string{"ALLOWED", "node w1"}},
		{"trace pod/web 10.244.1.7:5432 --live -n shop", 200, shop, 3, []string{"IDLE", "the relay withholds that end"}},
		{"trace pod/web pod/bank/vault:5432 --live -n shop", 200, shop, 3, []string{"/api/v1/namespaces/bank/pods is forbidden"}},
		{"top --interval 0 -n shop", 200, shop, 0, []string{"1 node answered"}},
		{"explain pod/vault -n bank", 200, shop, 1, []string{"podoffloads.ovn-offload.io in namespace bank"}},
		{"flows -n bank", 200, shop, 3, []string{"the relay refuses: you may not get podflows.ovn-offload.io in namespace bank"}},
		{"flows", 200, shop, 3, []string{"the relay refuses", "give one with -n", "--direct"}},
		{"explain flow/1@w1", 200, shop, 3, []string{"you may not get nodeoffloads.ovn-offload.io", "give a namespace with -n"}},
		// without the role
		{"flows --pod web -n shop", 200, "other", 3, []string{"you may not get podflows.ovn-offload.io in namespace shop"}},
		{"explain pod/web -n shop", 200, "other", 1, []string{"podoffloads.ovn-offload.io in namespace shop"}},
		{"top -n shop", 200, "other", 3, []string{"you may not get podflows.ovn-offload.io in namespace shop"}},
		// a relay that does not answer
		{"flows -n shop", 503, shop, 3, []string{silent, "--direct"}},
		{"explain pod/web -n shop", 503, shop, 3, []string{silent}},
		{"top -n shop", 502, shop, 3, []string{silent}},
		{"trace pod/web pod/db:5432 --live -n shop", 503, shop, 3, []string{silent}},
		// without a relay
		{"explain pod/web -n shop --direct", 200, shop, 3, []string{"not known: nodes: /api/v1/nodes is forbidden", "not known: streams: "}},
		{"flows -n shop --direct", 200, shop, 3, []string{"not known: pods: /api/v1/namespaces/ovn-kubernetes/pods is forbidden"}},
		{"explain flow/1@w1 -n shop --ask-driver", 200, shop, 1, []string{"node w1"}},
		{"explain pod/web -n shop --ask-driver", 200, shop, 64, []string{"--ask-driver: want flow/UFID@NODE, and a cluster"}},
		{"explain flow/1@w1 --ask-driver --from x.tgz", 200, shop, 64, []string{"--ask-driver: want flow/UFID@NODE, and a cluster"}},
		{"flows -n shop", 404, shop, 3, []string{"not known: pods: /api/v1/namespaces/ovn-kubernetes/pods is forbidden"}},
	} {
		cluster := newTenancy(t, test.ready, test.in)
		out, code := cluster.run(t, test.args)
		for _, text := range test.has {
			if code != test.code || !strings.Contains(out, text) {
				t.Errorf("%s with a relay of status %d and rights in %s: exit code %d, want %d and %q: %s", test.args, test.ready, test.in, code, test.code, text, out)
			}
		}
		if strings.Contains(out, vaultAddress) && !strings.Contains(test.args, vaultAddress) || strings.Contains(out, "vault") && !strings.Contains(test.args, "vault") {
			t.Errorf("%s shows what is of another namespace: %s", test.args, out)
		}
		for _, path := range cluster.asked {
			if strings.Contains(path, "/exec") {
				t.Errorf("%s asked for %s", test.args, path)
			}
			if (strings.Contains(test.args, "--direct") || strings.Contains(test.args, "--ask-driver")) && strings.HasPrefix(path, relayed) {
				t.Errorf("%s asked the relay: %s", test.args, path)
			}
		}
	}
	// who may see both namespaces sees both ends
	if out, code := newTenancy(t, 200, "shop", "bank").run(t, "flows -n shop"); code != 0 || !strings.Contains(out, "pod/bank/vault") || strings.Contains(out, "withheld") {
		t.Errorf("with rights in both: exit code %d: %s", code, out)
	}
}
