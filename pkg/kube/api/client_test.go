package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": "` + server + `"}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {"token": "t"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConfig_ServerReplacesThatOfKubeconfig(t *testing.T) {
	file := kubeconfig(t, "https://10.96.0.1:443")
	rc, err := Config{Kubeconfig: file, UserAgent: "x"}.REST()
	if err != nil || rc.Host != "https://10.96.0.1:443" || rc.QPS >= 0 || rc.UserAgent != "x" || rc.ContentType != runtime.ContentTypeProtobuf {
		t.Errorf("%+v, %v", rc, err)
	}
	rc, err = Config{Kubeconfig: file, Server: "https://172.18.0.3:6443"}.REST()
	if err != nil || rc.Host != "https://172.18.0.3:6443" || rc.BearerToken != "t" {
		t.Errorf("%+v, %v", rc, err)
	}
	if client, err := New(Config{Kubeconfig: file}); err != nil || client.Server.Host != "10.96.0.1:443" || !client.Scheme.Recognizes(corev1.SchemeGroupVersion.WithKind("Pod")) {
		t.Errorf("%+v, %v", client, err)
	}
	if _, err := New(Config{Kubeconfig: file + ".missing"}); err == nil {
		t.Error("a client without a kubeconfig")
	}
}

// server answers everything with one object in protobuf, and keeps what it was
// asked, but for the time that a watch takes, which client-go draws by lot.
type server struct {
	*httptest.Server
	asked  chan string
	answer []byte
	code   int
}

func newServer(t *testing.T, code int, answer runtime.Object) *server {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	gvks, _, err := scheme.Scheme.ObjectKinds(answer)
	if err != nil {
		t.Fatal(err)
	}
	body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, gvks[0].GroupVersion()), answer)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{asked: make(chan string, 100), answer: body, code: code}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	url := regexp.MustCompile(`timeoutSeconds=[0-9]+|timeout=[0-9a-z]+`).ReplaceAllString(r.URL.String(), "time")
	body, _ := io.ReadAll(r.Body)
	asked := r.Method + " " + url
	for _, header := range []string{"Accept", "Content-Type", "User-Agent", "Authorization"} {
		asked += "\n" + header + ": " + r.Header.Get(header)
	}
	s.asked <- asked + "\n" + string(body)
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	w.WriteHeader(s.code)
	w.Write(s.answer)
}

// both gives our client and client-go's for one server.
func both(t *testing.T, s *server) (*Client, kubernetes.Interface) {
	t.Helper()
	cfg := Config{Kubeconfig: kubeconfig(t, s.URL), UserAgent: "tester"}
	ours, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := cfg.REST()
	if err != nil {
		t.Fatal(err)
	}
	return ours, kubernetes.NewForConfigOrDie(rc)
}

// use does with a resource what can be done.
func use[T, L any](ctx context.Context, r Resource[T, L], object *T) (out []any) {
	collect := func(object any, err error) { out = append(out, object, err) }
	limit := int64(17)
	collect(r.Get(ctx, "x", metav1.GetOptions{ResourceVersion: "5"}))
	collect(r.List(ctx, metav1.ListOptions{LabelSelector: "a=b", FieldSelector: "c=d", Limit: 3, TimeoutSeconds: &limit}))
	collect(r.Create(ctx, object, metav1.CreateOptions{FieldManager: "m"}))
	collect(r.Update(ctx, object, metav1.UpdateOptions{DryRun: []string{"All"}}))
	collect(r.Patch(ctx, "x", types.MergePatchType, []byte(`{"a":"b"}`), metav1.PatchOptions{}, "status"))
	collect(r.Patch(ctx, "x", types.StrategicMergePatchType, []byte(`{"a":"b"}`), metav1.PatchOptions{}))
	collect(nil, r.Delete(ctx, "x", metav1.DeleteOptions{DryRun: []string{"All"}}))
	if w, err := r.Watch(ctx, metav1.ListOptions{ResourceVersion: "7", AllowWatchBookmarks: true}); err == nil {
		w.Stop()
	}
	return out
}

// alike fails when ours and theirs do not ask and understand the same.
func alike[T, L any](t *testing.T, s *server, ours, theirs Resource[T, L], object *T) {
	t.Helper()
	understood := use(t.Context(), theirs, object)
	want := drain(s)
	if len(want) != 8 {
		t.Errorf("%d requests", len(want))
	}
	if diff := cmp.Diff(understood, use(t.Context(), ours, object), cmp.Comparer(sameError)); diff != "" {
		t.Errorf("understood (-client-go +ours):\n%s", diff)
	}
	if diff := cmp.Diff(want, drain(s)); diff != "" {
		t.Errorf("requests (-client-go +ours):\n%s", diff)
	}
}

func sameError(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error() && apierrors.IsNotFound(a) == apierrors.IsNotFound(b)
}

func drain(s *server) (out []string) {
	for len(s.asked) > 0 {
		out = append(out, <-s.asked)
	}
	return out
}

func TestClient_SendsRequestsOfClientGo(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n"}}
	for name, s := range map[string]*server{
		"found": newServer(t, http.StatusOK, pod),
		"not":   newServer(t, http.StatusNotFound, &apierrors.NewNotFound(corev1.Resource("pods"), "x").ErrStatus),
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := both(t, s)
			core, networking := theirs.CoreV1(), theirs.NetworkingV1()
			alike(t, s, ours.Nodes, core.Nodes(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.Namespaces, core.Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.Pods("ns"), core.Pods("ns"), pod)
			alike(t, s, ours.Pods(""), core.Pods(""), pod)
			alike(t, s, ours.Services("ns"), core.Services("ns"), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.Secrets("ns"), core.Secrets("ns"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.Leases("ns"), theirs.CoordinationV1().Leases("ns"), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.Events("ns"), theirs.EventsV1().Events("ns"), &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.ConfigMaps("ns"), core.ConfigMaps("ns"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.Accounts("ns"), core.ServiceAccounts("ns"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.Requests, theirs.CertificatesV1().CertificateSigningRequests(),
				&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.ServiceCIDRs, networking.ServiceCIDRs(), &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.Policies("ns"), networking.NetworkPolicies("ns"), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			alike(t, s, ours.EndpointSlices("ns"), theirs.DiscoveryV1().EndpointSlices("ns"), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
		})
	}
}

func TestAllowed_AsksForTheTokensUser(t *testing.T) {
	who := &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
		Authenticated: true, User: authenticationv1.UserInfo{Username: "prometheus", Groups: []string{"g"}},
	}}
	for name, tc := range map[string]struct {
		answer runtime.Object
		asked  int
	}{
		"unknown token": {&authenticationv1.TokenReview{}, 1},
		"known token":   {who, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, http.StatusCreated, tc.answer)
			ours, _ := both(t, s)
			allowed, _ := ours.Allowed(t.Context(), "secret", "/metrics")
			asked := drain(s)
			if allowed || len(asked) != tc.asked || !strings.Contains(asked[0], "POST /apis/authentication.k8s.io/v1/tokenreviews\n") || !strings.Contains(asked[0], "secret") {
				t.Errorf("%t, asked %q", allowed, asked)
			}
			if tc.asked == 2 && (!strings.Contains(asked[1], "POST /apis/authorization.k8s.io/v1/subjectaccessreviews\n") || !strings.Contains(asked[1], "prometheus") || !strings.Contains(asked[1], "/metrics")) {
				t.Errorf("asked %q", asked[1])
			}
		})
	}
}

// TestMayFor_TokenIsForTheAudience: an API server that does not know audiences accepts a token for whatever it is.
func TestMayFor_TokenIsForTheAudience(t *testing.T) {
	for answered, asked := range map[string]int{"names": 2, "": 1, "other": 1} {
		who := &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "relay"}}}
		if answered != "" {
			who.Status.Audiences = []string{answered}
		}
		s := newServer(t, http.StatusCreated, who)
		ours, _ := both(t, s)
		may, err := ours.MayFor(t.Context(), "names", "secret", authorizationv1.ResourceAttributes{Verb: "get", Resource: "flownames"})
		got := drain(s)
		if may || err != nil || len(got) != asked || !strings.Contains(got[0], "\x05names") {
			t.Errorf("%q: %t, %v, asked %q", answered, may, err, got)
		}
	}
}

func TestTime_IsTheServers(t *testing.T) {
	s := newServer(t, http.StatusForbidden, &apierrors.NewForbidden(corev1.Resource("x"), "x", nil).ErrStatus)
	ours, _ := both(t, s)
	got, err := ours.Time(t.Context())
	if err != nil || time.Since(got).Abs() > 5*time.Second {
		t.Errorf("%s, %v", got, err)
	}
	s.Close()
	if _, err := ours.Time(t.Context()); err == nil {
		t.Error("no error without a server")
	}
}

// TestInformers_SendRequestsOfClientGo: the first request of each, which is for all that there is.
func TestInformers_SendRequestsOfClientGo(t *testing.T) {
	s := newServer(t, http.StatusInternalServerError, &apierrors.NewInternalError(io.EOF).ErrStatus)
	ours, theirs := both(t, s)
	only := func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName=n" }
	first := func(informer cache.SharedIndexInformer) string {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); informer.RunWithContext(ctx) }()
		request := <-s.asked
		cancel()
		<-ended
		drain(s)
		return request
	}
	for _, options := range []func(*metav1.ListOptions){nil, only} {
		want := first(informers.NewFilteredPodInformer(theirs, "", 0, nil, options))
		if diff := cmp.Diff(want, first(NewInformer(ours.Pods(""), &corev1.Pod{}, nil, options))); diff != "" {
			t.Errorf("requests (-client-go +ours):\n%s", diff)
		}
	}
}
