package relay

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// The virtual resources of the group ovn-offload.io. Nothing is served by these names: roles alone know them.
const (
	PodOffloads  = "podoffloads"  // where a pod's traffic is handled
	PodFlows     = "podflows"     // its flows
	NodeOffloads = "nodeoffloads" // nodes, NICs and the network itself; a real one
)

const group = "ovn-offload.io"

// Right is one that a caller may have. An empty namespace is all namespaces, or none for what has none.
type Right struct{ Resource, Namespace string }

// Asker asks the API server.
type Asker interface {
	// Whose says whose a token is. ok is false if it is not valid.
	Whose(ctx context.Context, token string) (user authenticationv1.UserInfo, ok bool, err error)
	// May asks whether a user has a right to get.
	May(ctx context.Context, user authenticationv1.UserInfo, r Right) (bool, error)
}

// APIServer is an Asker.
type APIServer struct{ Client dynamic.Interface }

// Whose implements Asker: a token for the relay, or one for the API server. It is one review: the token names its audience, and
// the API server says whether that is true.
func (a APIServer) Whose(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiencesOf(token)}}
	if err := a.ask(ctx, authenticationv1.SchemeGroupVersion, "TokenReview", "tokenreviews", review); err != nil {
		return authenticationv1.UserInfo{}, false, fmt.Errorf("asking whose a token is: %w", err)
	}
	return review.Status.User, review.Status.Authenticated, nil
}

// audiencesOf are the relay's for a token that says so, and none, which are the API server's own, for any other. The format is that of
// RFC 7519, where the audience is a text or a list.
func audiencesOf(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims struct {
		Audience any `json:"aud"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return nil
	}
	list, isList := claims.Audience.([]any)
	if claims.Audience == any(web.Audience) || isList && slices.Contains(list, any(web.Audience)) {
		return []string{web.Audience}
	}
	return nil
}

// May implements Asker.
func (a APIServer) May(ctx context.Context, user authenticationv1.UserInfo, r Right) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: group, Resource: r.Resource, Namespace: r.Namespace},
	}}
	for key, values := range user.Extra {
		review.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if err := a.ask(ctx, authorizationv1.SchemeGroupVersion, "SubjectAccessReview", "subjectaccessreviews", review); err != nil {
		return false, fmt.Errorf("asking what %s may see: %w", user.Username, err)
	}
	return review.Status.Allowed, nil
}

// ask creates a review, which the API server answers and does not keep.
func (a APIServer) ask(ctx context.Context, version schema.GroupVersion, kind, resource string, review any) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(review)
	if err != nil {
		return err
	}
	asked := &unstructured.Unstructured{Object: object}
	asked.SetGroupVersionKind(version.WithKind(kind))
	answer, err := a.Client.Resource(version.WithResource(resource)).Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, review)
}

// Caller is the holder of a token, with the rights that were asked for.
type Caller struct {
	token [sha256.Size]byte
	user  authenticationv1.UserInfo
	until time.Time
	asker Asker
	// rights bounds the questions for rights, and so what is remembered of them within a minute.
	rights *rate.Limiter

	mu  sync.Mutex
	may map[Right]bool
}

// May says whether the caller has a right. Who has it in all namespaces has it in each.
func (c *Caller) May(ctx context.Context, r Right) (bool, error) {
	for _, right := range []Right{{r.Resource, ""}, r} {
		may, err := c.ask(ctx, right)
		if may || err != nil {
			return may, err
		}
	}
	return false, nil
}

func (c *Caller) ask(ctx context.Context, r Right) (bool, error) {
	c.mu.Lock()
	may, ok := c.may[r]
	c.mu.Unlock()
	if ok {
		return may, nil
	}
	if err := c.rights.Wait(ctx); err != nil {
		return false, fmt.Errorf("asking what %s may see: %w", c.user.Username, err)
	}
	may, err := c.asker.May(ctx, c.user, r)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.may[r] = may
	return may, nil
}

// Sight is what a caller may see.
type Sight struct {
	// Nodes: nodes, NICs, and the network's own parts.
	Nodes bool
	// All: the pods of all namespaces.
	All bool
	// Pods says whether the pods of a namespace are the caller's to see.
	Pods func(namespace string) bool
}

// Sight asks for the rights to a resource of pods: PodOffloads or PodFlows. An error of the API server ends all of it.
func (c *Caller) Sight(ctx context.Context, resource string) (*Sight, func() error) {
	var failed error
	may := func(r Right) bool {
		ok, err := c.May(ctx, r)
		if err != nil && failed == nil {
			failed = err
		}
		return ok && failed == nil
	}
	s := &Sight{Nodes: may(Right{NodeOffloads, ""}), All: may(Right{resource, ""})}
	s.Pods = func(namespace string) bool { return namespace != "" && (s.All || may(Right{resource, namespace})) }
	return s, func() error { return failed }
}
