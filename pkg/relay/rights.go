package relay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

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

// Whose implements Asker: a token for the relay, or one for the API server.
func (a APIServer) Whose(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	for _, audiences := range [][]string{{web.Audience}, nil} {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
		if err := a.ask(ctx, authenticationv1.SchemeGroupVersion, "TokenReview", "tokenreviews", review); err != nil {
			return authenticationv1.UserInfo{}, false, fmt.Errorf("asking whose a token is: %w", err)
		}
		if review.Status.Authenticated {
			return review.Status.User, true, nil
		}
	}
	return authenticationv1.UserInfo{}, false, nil
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

const (
	// remembered is how long an answer of the API server counts. A right that is taken away ends then, also for streams.
	remembered = time.Minute
	// maxAnswers bounds what is remembered, and with it what unknown tokens can use of memory.
	maxAnswers = 10_000
)

// Reviewer remembers the answers of an Asker.
type Reviewer struct {
	Asker Asker
	Now   func() time.Time

	mu      sync.Mutex
	callers map[[sha256.Size]byte]*Caller
}

// NewReviewer makes one that knows nothing yet.
func NewReviewer(asker Asker) *Reviewer {
	return &Reviewer{Asker: asker, Now: time.Now, callers: map[[sha256.Size]byte]*Caller{}}
}

// Caller is the holder of a token, with the rights that were asked for. Unknown callers are nil.
type Caller struct {
	token [sha256.Size]byte
	user  authenticationv1.UserInfo
	until time.Time
	asker Asker

	mu  sync.Mutex
	may map[Right]bool
}

// Caller says whose a token is; nil if it is not valid.
func (r *Reviewer) Caller(ctx context.Context, token string) (*Caller, error) {
	key := sha256.Sum256([]byte(token))
	r.mu.Lock()
	known, ok := r.callers[key]
	r.mu.Unlock()
	if ok && r.Now().Before(known.until) {
		return known.orNil(), nil
	}
	user, ok, err := r.Asker.Whose(ctx, token)
	if err != nil {
		return nil, err
	}
	c := &Caller{token: key, user: user, until: r.Now().Add(remembered), asker: r.Asker, may: map[Right]bool{}}
	if !ok {
		c.asker = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.callers) >= maxAnswers {
		clear(r.callers)
	}
	r.callers[key] = c
	return c.orNil(), nil
}

func (c *Caller) orNil() *Caller {
	if c.asker == nil {
		return nil
	}
	return c
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
