// Package agents asks the agents of a cluster's nodes for flows: through its relay, or by exec in their pods.
//
// Place in the data flow:
//
//	kubectl offload -> Relay -> pkg/web/proxy -> relay.NodesHandler -> flowapi.Handler, which gives what the caller may see
//	kubectl offload -> Found -> pkg/flowapi/byexec -> flowapi.Handler of each agent
//
// It is a package of its own because pkg/flowapi/byexec, which the tests of a cluster use as well, knows no answers.
package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/web/proxy"
)

// Relay asks the agents of nodes for flows through a relay.
type Relay struct {
	// HTTP reaches the relay: of a request the path and the parameters count.
	HTTP *http.Client
}

// Lookup keeps the relay of a cluster, once it is found.
type Lookup struct {
	// Say says on standard error that the relay gets the token of the user; nil: it is not said.
	Say func(text string)

	mu    sync.Mutex
	found *Relay
}

// Warn tells the user.
func (l *Lookup) Warn(text string) {
	if l != nil && l.Say != nil {
		l.Say(text)
	}
}

// Relay is nil if the cluster has none.
func (l *Lookup) Relay(ctx context.Context, rc *rest.Config, system string) (*Relay, error) {
	if l == nil {
		l = &Lookup{} // keeps nothing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found != nil {
		return l.found, nil
	}
	relay, err := proxy.Find(ctx, rc, system, l.Warn)
	if relay == nil || err != nil {
		return nil, err
	}
	l.found = &Relay{relay.Client()}
	return l.found, nil
}

// base is the address of the relay. Its host is in messages alone.
const base = "https://relay"

// ErrDenied is an answer of the relay to a caller without the right.
type ErrDenied struct{ Text string }

// Error implements error.
func (e ErrDenied) Error() string {
	return "the relay refuses: " + e.Text + ". --direct asks the agents themselves, by pods/exec"
}

// WithFlows are the nodes whose agents may be asked about the flows of a namespace, or about all for "".
func (r Relay) WithFlows(ctx context.Context, namespace string) (nodes, missing []string, err error) {
	path := flowapi.NodesPath
	if namespace != "" {
		path += "?namespace=" + url.QueryEscape(namespace)
	}
	var got flowapi.Nodes
	switch status, err := r.get(ctx, path, &got); {
	case status == http.StatusNotFound:
		return nil, nil, errors.New("the relay is of a former version and serves no flows to kubectl offload: update it, or give --direct to ask the agents by pods/exec")
	case err != nil:
		return nil, nil, err
	}
	return got.Nodes, got.Missing, nil
}

// Nodes is a node, or those with flows of the first of some namespaces in which the caller may see flows; "": all. In is the namespace.
func Nodes(ctx context.Context, with func(ctx context.Context, namespace string) (nodes, missing []string, err error), node string, namespaces ...string) (nodes []string, in string, missing []string, err error) {
	if node != "" {
		return []string{node}, namespaces[0], nil, nil
	}
	for _, in = range namespaces {
		if nodes, missing, err = with(ctx, in); !errors.As(err, new(ErrDenied)) {
			break
		}
	}
	return nodes, in, missing, err
}

// get reads JSON.
func (r Relay) get(ctx context.Context, path string, into any) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return 0, err
	}
	got, err := r.HTTP.Do(request)
	if err != nil {
		return 0, silent(err)
	}
	defer got.Body.Close() //nolint:errcheck // it was only read
	if got.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(got.Body, 1<<10)) // the status says enough
		return got.StatusCode, refusal(flowapi.Refused{Status: got.StatusCode, Text: strings.TrimSpace(string(text))})
	}
	if err := json.NewDecoder(got.Body).Decode(into); err != nil {
		return got.StatusCode, fmt.Errorf("reading the answer of the relay: %w", err)
	}
	return got.StatusCode, nil
}

// silent leaves out the address of a request that failed.
func silent(err error) error {
	if of := (&url.Error{}); errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("asking the relay: %w", err)
}

// refusal says in words what an answer of the relay means. Other errors stay.
func refusal(err error) error {
	refused := flowapi.Refused{}
	switch {
	case err == nil, errors.Is(err, flowapi.ErrNoFlow):
		return err
	case !errors.As(err, &refused):
		return silent(err)
	case refused.Status == http.StatusForbidden, refused.Status == http.StatusUnauthorized:
		return ErrDenied{words(refused.Text)}
	}
	return fmt.Errorf("asking the relay: %s", words(refused.Text))
}

// words are those of the API server, which answers in place of the relay where it cannot forward a request.
func words(text string) string {
	var status metav1.Status
	if json.Unmarshal([]byte(text), &status) == nil && status.Message != "" {
		return status.Message
	}
	return text
}

// Asked are the agents of nodes, for summaries with the pods of a namespace, or of all for "".
func (r Relay) Asked(namespace string) flowapi.Sources {
	return func(node string) flowapi.Source {
		return source{flowapi.Client{URL: base + flowapi.NodesPath + "/" + url.PathEscape(node), HTTP: r.HTTP, Namespace: namespace}}
	}
}

// source has errors in words.
type source struct{ client flowapi.Client }

// Summary implements flowapi.Source.
func (s source) Summary(ctx context.Context, fresh bool) (*flowapi.Summary, error) {
	got, err := s.client.Summary(ctx, fresh)
	return got, refusal(err)
}

// Flows implements flowapi.Source.
func (s source) Flows(ctx context.Context, q flowapi.Query) (*flowapi.Flows, error) {
	got, err := s.client.Flows(ctx, q)
	return got, refusal(err)
}

// Why implements flowapi.Source.
func (s source) Why(ctx context.Context, id string) (*flowapi.Why, error) {
	got, err := s.client.Why(ctx, id)
	return got, refusal(err)
}

// Named are the answers of nodes. The relay has named their flows if the query asks for the rules.
func (r Relay) Named(ctx context.Context, nodes []string, q flowapi.Query) (answers []*flowapi.Flows, missing []string) {
	answers, missing = r.Asked("").Flows(ctx, nodes, q)
	slices.Sort(missing)
	return answers, slices.Compact(missing) // all nodes may lack the names
}

// AddRules asks for the rules of flows, one by one. The relay has named them.
func (r Relay) AddRules(ctx context.Context, flows []*flowapi.Flow) error {
	err := r.Asked("").AddRules(ctx, flows)
	for _, f := range flows {
		if f.Why != nil {
			f.DecidedBy = flownames.Decided(f.Why.Rules, f.Drops)
		}
	}
	return err
}

// Pod is what the relay knows of a pod "namespace/name", without its streams.
func (r Relay) Pod(ctx context.Context, name string) (*answer.PodExplained, error) {
	var view struct{ Answer *answer.PodExplained }
	status, err := r.get(ctx, "/api/v1/views/pod?name="+url.QueryEscape(name), &view)
	namespace, _, _ := strings.Cut(name, "/")
	switch {
	case status == http.StatusNotFound:
		return nil, answer.ErrNotFound{Object: fmt.Sprintf("pod %s that the relay shows you: there is none, or you may not get podoffloads.ovn-offload.io in namespace %s", name, namespace)}
	case err != nil:
		return nil, err
	case view.Answer == nil:
		return nil, errors.New("reading the answer of the relay: it has no pod")
	}
	e := view.Answer
	e.PodStreams = answer.PodStreams{}
	denied := len(e.Missing)
	e.Missing = slices.DeleteFunc(e.Missing, func(why string) bool { return strings.HasSuffix(why, flowapi.DeniedNodes) })
	if denied -= len(e.Missing); denied > 0 && len(e.Missing) == 0 && e.Code == answer.Uncertain {
		e.Code = answer.Good // the problems of its node are not the caller's
	}
	if denied > 0 && strings.HasPrefix(e.Next, "kubectl offload explain node/") {
		e.Next = "kubectl offload top -n " + namespace
	}
	return e, nil
}
