package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

const (
	// viewerAccount sees all that the relay has. Its name is that of the chart.
	viewerAccount = "ovn-offload-viewer"
	// madeFor is how long a token is valid that is made for the relay.
	madeFor = 10 * time.Minute
	// accountPrefix is that of the name of a ServiceAccount's user.
	accountPrefix = "system:serviceaccount:"
)

// ownToken is said once to a user whose own token the relay gets.
const ownToken = "sends your own token to the relay. It is good for all that you may do, and the API server, through which it goes, " +
	"does not check the relay's certificate. --direct sends none. docs/security.md says which rights avoid it"

// tokens has the token that the relay is shown: one that is made for the relay alone, and good for nothing else, before
// the caller's own one.
type tokens struct {
	config *rest.Config
	system string
	say    func(text string)

	mu sync.Mutex
	// made is a token for the relay; "" if the caller may make none. Both count until a time.
	made  string
	until time.Time
	said  bool
}

// get is the token for the next request.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !time.Now().Before(t.until) {
		made, err := t.make(ctx)
		if err != nil {
			return "", fmt.Errorf("making a token for the relay: %w", err)
		}
		t.made, t.until = made, time.Now().Add(madeFor/2)
	}
	if t.made != "" {
		return t.made, nil
	}
	own, err := t.own(ctx)
	if err != nil {
		return "", err
	}
	if !t.said {
		t.said = true
		t.say(ownToken)
	}
	return own, nil
}

// make makes a token of the viewer, or of the caller's own ServiceAccount. It gives "" if the caller may do neither.
// Other errors are no reason to show the caller's own token.
func (t *tokens) make(ctx context.Context) (string, error) {
	client, err := dynamic.NewForConfig(t.config)
	if err != nil {
		return "", err
	}
	token, err := request(ctx, client, t.system, viewerAccount)
	if !isRefused(err) {
		return token, err
	}
	namespace, name, err := account(ctx, client)
	if err == nil && name != "" {
		token, err = request(ctx, client, namespace, name)
	}
	if isRefused(err) {
		return "", nil
	}
	return token, err
}

// isRefused is a caller without the right, or an account that there is not.
func isRefused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// request asks for a token of a ServiceAccount, for the relay alone.
func request(ctx context.Context, client dynamic.Interface, namespace, name string) (string, error) {
	asked := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"audiences": []any{web.Audience}, "expirationSeconds": int64(madeFor.Seconds())},
	}}
	asked.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"))
	asked.SetName(name)
	accounts := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(namespace)
	granted, err := accounts.Create(ctx, asked, metav1.CreateOptions{}, "token")
	if err != nil {
		return "", err
	}
	token, _, err := unstructured.NestedString(granted.Object, "status", "token")
	if err == nil && token == "" {
		err = fmt.Errorf("the API server has given no token of account %s/%s", namespace, name)
	}
	return token, err
}

// account is the caller's ServiceAccount; name "": the caller is none.
func account(ctx context.Context, client dynamic.Interface) (namespace, name string, err error) {
	asked := &unstructured.Unstructured{Object: map[string]any{}}
	asked.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"))
	got, err := client.Resource(authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")).Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return "", "", err
	}
	user, _, err := unstructured.NestedString(got.Object, "status", "userInfo", "username")
	if of, ok := strings.CutPrefix(user, accountPrefix); ok {
		namespace, name, _ = strings.Cut(of, ":")
	}
	return namespace, name, err
}

// own is the token that kubectl would use. It says nothing of a user in whose name the caller acts: the relay would
// show what the caller may see.
func (t *tokens) own(ctx context.Context) (string, error) {
	if as := t.config.Impersonate.UserName; as != "" {
		return "", fmt.Errorf("the relay cannot know that you act as %s, and there is no token of this user: --direct does without the relay", as)
	}
	var seen recorder
	wrapped, err := rest.HTTPWrappersForConfig(t.config, &seen)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://relay", nil)
	if err != nil {
		return "", err
	}
	if _, err := wrapped.RoundTrip(request); !errors.Is(err, errRecorded) { //nolint:bodyclose // there is none
		return "", err
	}
	token, ok := strings.CutPrefix(seen.header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", fmt.Errorf("the kubeconfig has no token, and you may not create serviceaccounts/token of %s in namespace %s", viewerAccount, t.system)
	}
	return token, nil
}

var errRecorded = errors.New("the request was recorded")

// recorder sends nothing: it shows what a request would have had.
type recorder struct{ header http.Header }

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.header = request.Header
	return nil, errRecorded
}
