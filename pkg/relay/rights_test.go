package relay

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// granted is one rule of the roles of a caller.
type granted struct{ verb, resource, namespace string }

// reviews answers reviews by rules: each token is the name of its caller.
func reviews(t *testing.T, rules map[string][]granted) APIServer {
	t.Helper()
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	answer := func(action k8stesting.Action, review any, decide func()) (bool, runtime.Object, error) {
		asked := action.(k8stesting.CreateAction).GetObject().(*unstructured.Unstructured)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(asked.Object, review); err != nil {
			t.Error(err)
		}
		decide()
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(review)
		return true, &unstructured.Unstructured{Object: object}, err
	}
	client.PrependReactor("create", "tokenreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		r := &authenticationv1.TokenReview{}
		return answer(action, r, func() {
			_, r.Status.Authenticated = rules[r.Spec.Token]
			r.Status.User.Username = r.Spec.Token
		})
	})
	client.PrependReactor("create", "subjectaccessreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		r := &authorizationv1.SubjectAccessReview{}
		return answer(action, r, func() {
			a := r.Spec.ResourceAttributes
			r.Status.Allowed = a.Group == "ovn-offload.io" && slices.ContainsFunc(rules[r.Spec.User], func(g granted) bool {
				return g.verb == a.Verb && g.resource == a.Resource && (g.namespace == "" || g.namespace == a.Namespace)
			})
		})
	})
	return APIServer{client}
}

// TestRights_OnlyTheVerbGetShows: caller, verb, resource and namespace. No other verb on a resource, and no right to capture or
// to inject, shows a pod or its flows.
func TestRights_OnlyTheVerbGetShows(t *testing.T) {
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate"}
	rules := map[string][]granted{}
	for _, verb := range verbs {
		for _, resource := range []string{PodFlows, PodOffloads, NodeOffloads, "captures", "injections"} {
			for _, namespace := range []string{own.namespace, foreign.namespace, ""} {
				caller := verb + "-" + resource + "-" + namespace
				rules[caller] = []granted{{verb, resource, namespace}}
			}
		}
	}
	r := newRelay(own, foreign, reviews(t, rules))
	pod := url.Values{"pod": {own.namespace + "/" + own.pod}}
	for caller, rule := range rules {
		g := rule[0]
		here := g.verb == "get" && (g.namespace == own.namespace || g.namespace == "")
		for _, c := range []struct {
			view  string
			q     url.Values
			shows bool
			code  int
		}{
			{"flows", pod, here && g.resource == PodFlows, 403},
			{"map", in(own), here && g.resource == PodFlows, 403},
			{"pod", of(own), here && g.resource == PodOffloads, 404},
			{"node", url.Values{"name": {"w1"}}, g.verb == "get" && g.resource == NodeOffloads && g.namespace == "", 404},
		} {
			code, body := get(t, r, caller, c.view, c.q)
			if want := map[bool]int{true: 200, false: c.code}[c.shows]; code != want || !c.shows && (strings.Contains(body, own.address) || strings.Contains(body, own.port)) {
				t.Errorf("%s asks for %s: %d, want %d:\n%s", caller, c.view, code, want, body)
			}
		}
	}
}

// TestRelay_AnswersNoMethodThatWrites: whatever rights the caller has.
func TestRelay_AnswersNoMethodThatWrites(t *testing.T) {
	r := newRelay(own, foreign, &rights{of: callers()})
	handler := (&web.Server{Facts: r.Facts, Period: time.Second}).Handler()
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, path := range []string{"/api/v1/views/overview", "/api/v1/views/flows?node=w1"} {
			request := httptest.NewRequest(method, path, nil)
			request.Header.Set("Authorization", "Bearer admin")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, request)
			if want := map[bool]int{true: 200, false: 405}[method == http.MethodGet]; w.Code != want {
				t.Errorf("%s %s: %d, want %d", method, path, w.Code, want)
			}
		}
	}
}
