// Package proxy reaches the relay of a cluster through the API server, with a token for the relay alone where the caller may
// make one, and otherwise with the caller's own.
//
// Place in the data flow:
//
//	browser -> pkg/web.Local of the plugin -> Relay -> API server -> Service ovn-offload-relay -> pkg/relay
//	kubectl offload -> pkg/flowapi/agents -> Relay
//
// It is a package of its own because pkg/web knows no client of the API server.
package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// Relay reaches the relay through the API server, which forwards to its Service.
type Relay struct {
	address *url.URL
	http    http.RoundTripper
	tokens  *tokens
}

// service is the name of the relay's Service.
const service = "ovn-offload-relay"

// patience bounds the question whether there is a relay.
const patience = 30 * time.Second

// ErrSilent is a relay that is there and does not answer.
type ErrSilent struct{ Why string }

// Error implements error.
func (e ErrSilent) Error() string {
	return "the relay of this cluster does not answer: " + e.Why + ". --direct does without it: it reads the API server, and agents by pods/exec"
}

// ErrDenied is a relay that the caller may not reach.
type ErrDenied struct{ Why string }

// Error implements error.
func (e ErrDenied) Error() string {
	return "you may not reach the relay of this cluster: " + e.Why + ". --direct does without it: it reads the API server, and agents by pods/exec"
}

// Find gives nil if the cluster has none. One that the caller may not reach, or of which the caller may not know
// whether it is there, is ErrDenied: the chart's lets all users reach it. One that does not answer is ErrSilent. system
// is the namespace of the network's own pods. say tells the user whose token the relay gets.
func Find(ctx context.Context, rc *rest.Config, system string, say func(text string)) (*Relay, error) {
	address, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(rc)
	if err != nil {
		return nil, err
	}
	r := &Relay{http: transport, tokens: &tokens{config: rc, system: system, say: say}}
	if address.Path == "" { // JoinPath would give a path without a slash before it
		address.Path = "/"
	}
	r.address = address.JoinPath("/api/v1/namespaces", system, "services/https:"+service+":443/proxy")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch status, why, err := r.probe(ctx, r.address.JoinPath("readyz")); {
	case err != nil:
		return nil, err
	case status == http.StatusOK:
		return r, nil
	case status == http.StatusNotFound:
		return nil, nil
	case status == http.StatusUnauthorized:
		return nil, ErrDenied{why}
	case status == http.StatusForbidden: // which the API server says of Services that there are not, too
		is, _, err := r.probe(ctx, r.address.JoinPath("../../"+service))
		if err != nil || is == http.StatusNotFound {
			return nil, err
		}
		return nil, ErrDenied{why}
	default:
		return nil, ErrSilent{why}
	}
}

// probe asks for a path. why is what an answer other than 200 says.
func (r *Relay) probe(ctx context.Context, at *url.URL) (status int, why string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := r.http.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		why = said(answer)
	}
	return answer.StatusCode, why, nil
}

// said is what an answer without what was asked for says. The API server answers in place of a Service without pods.
func said(answer *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // the status says enough
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		return status.Message
	}
	return strings.TrimSpace(answer.Status + " " + string(text))
}

// Client asks the relay with a token. Of the address of a request its path and parameters count.
func (r *Relay) Client() *http.Client {
	return &http.Client{Transport: withToken{r}, Timeout: answerWithin}
}

// answerWithin bounds one answer: of an agent, after those that others wait for.
const answerWithin = time.Minute

type withToken struct{ *Relay }

// RoundTrip implements http.RoundTripper.
func (w withToken) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := w.tokens.get(request.Context())
	if err != nil {
		return nil, err
	}
	out := request.Clone(request.Context())
	out.URL = w.address.JoinPath(request.URL.EscapedPath())
	out.URL.RawQuery, out.Host = request.URL.RawQuery, ""
	out.Header.Set(web.TokenHeader, token)
	return w.http.RoundTrip(out)
}

// ServeHTTP forwards a request of the page, with a token that the browser never has.
func (r *Relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	token, err := r.tokens.get(request.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	proxy := &httputil.ReverseProxy{Transport: r.http, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(r.address)
		p.Out.Header.Del("Cookie")
		p.Out.Header.Set(web.TokenHeader, token)
	}}
	proxy.ServeHTTP(w, request)
}

// MayExec says whether the caller may run commands in the network's own pods, as the names of flows need.
func MayExec(ctx context.Context, rc *rest.Config, system string) (bool, error) {
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return false, err
	}
	asked := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resourceAttributes": map[string]any{
		"namespace": system, "verb": "create", "resource": "pods", "subresource": "exec",
	}}}}
	asked.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"))
	got, err := client.Resource(authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")).Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking for the right to name flows: %w", err)
	}
	may, _, err := unstructured.NestedBool(got.Object, "status", "allowed")
	return may, err
}
