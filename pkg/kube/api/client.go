// Package api is a client of the API server for the kinds that this project
// reads and writes. It does what client-go's clients and informers for these do,
// which know all kinds: docs/decisions/own-api-client.md has what they cost the
// agent.
package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Config says how to reach the API server.
type Config struct {
	// Kubeconfig is a file; "" uses the pod's service account.
	Kubeconfig string
	// Server, if set, replaces the address: a node's network must not depend on
	// a service address that it has yet to provide.
	Server string
	// UserAgent is what the API server's audit log and metrics show.
	UserAgent string
}

// Client has what can be done with each kind. Tests make one with apitest.
type Client struct {
	Nodes          Resource[corev1.Node, corev1.NodeList]
	Namespaces     Resource[corev1.Namespace, corev1.NamespaceList]
	ServiceCIDRs   Resource[networkingv1.ServiceCIDR, networkingv1.ServiceCIDRList]
	Pods           Namespaced[corev1.Pod, corev1.PodList]
	Services       Namespaced[corev1.Service, corev1.ServiceList]
	Secrets        Namespaced[corev1.Secret, corev1.SecretList]
	EndpointSlices Namespaced[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList]
	Policies       Namespaced[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList]
	Leases         Namespaced[coordinationv1.Lease, coordinationv1.LeaseList]
	Events         Namespaced[eventsv1.Event, eventsv1.EventList]
	ConfigMaps     Namespaced[corev1.ConfigMap, corev1.ConfigMapList]
	Accounts       Namespaced[corev1.ServiceAccount, corev1.ServiceAccountList]
	Requests       Resource[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList]
	// Server is where the API is.
	Server *url.URL
	// Time asks the API server for its time, to a second.
	Time func(context.Context) (time.Time, error)
	// Token asks for a token of a service account.
	Token func(ctx context.Context, account types.NamespacedName, validity time.Duration) (string, error)
	// Scheme knows the kinds.
	Scheme *runtime.Scheme
	review review
}

// New makes a client without an artificial rate limit: the API server has its
// own, and ours would only delay pods.
func New(cfg Config) (*Client, error) {
	rc, err := cfg.REST()
	if err != nil {
		return nil, err
	}
	return NewFor(rc)
}

// NewFor is New with a configuration of client-go.
func NewFor(rc *rest.Config) (*Client, error) {
	web, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", rc.Host, err)
	}
	scheme := Scheme()
	codecs, params := serializer.NewCodecFactory(scheme).WithoutConversion(), runtime.NewParameterCodec(scheme)
	groups := map[schema.GroupVersion]group{}
	for _, version := range versions() {
		client, err := connect(rc, web, codecs, version)
		if err != nil {
			return nil, fmt.Errorf("making a client for %s: %w", rc.Host, err)
		}
		groups[version] = group{client, params}
	}
	core, networking := groups[corev1.SchemeGroupVersion], groups[networkingv1.SchemeGroupVersion]
	return &Client{
		Nodes:          whole[corev1.Node, corev1.NodeList](core, "nodes"),
		Namespaces:     whole[corev1.Namespace, corev1.NamespaceList](core, "namespaces"),
		ServiceCIDRs:   whole[networkingv1.ServiceCIDR, networkingv1.ServiceCIDRList](networking, "servicecidrs"),
		Pods:           namespaced[corev1.Pod, corev1.PodList](core, "pods"),
		Services:       namespaced[corev1.Service, corev1.ServiceList](core, "services"),
		Secrets:        namespaced[corev1.Secret, corev1.SecretList](core, "secrets"),
		EndpointSlices: namespaced[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](groups[discoveryv1.SchemeGroupVersion], "endpointslices"),
		Policies:       namespaced[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](networking, "networkpolicies"),
		Leases:         namespaced[coordinationv1.Lease, coordinationv1.LeaseList](groups[coordinationv1.SchemeGroupVersion], "leases"),
		Events:         namespaced[eventsv1.Event, eventsv1.EventList](groups[eventsv1.SchemeGroupVersion], "events"),
		ConfigMaps:     namespaced[corev1.ConfigMap, corev1.ConfigMapList](core, "configmaps"),
		Accounts:       namespaced[corev1.ServiceAccount, corev1.ServiceAccountList](core, "serviceaccounts"),
		Requests:       whole[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList](groups[certificatesv1.SchemeGroupVersion], "certificatesigningrequests"),
		Server:         core.Get().URL(),
		Time:           func(ctx context.Context) (time.Time, error) { return clock(ctx, web, core.Get().URL()) },
		review:         reviews(groups[authenticationv1.SchemeGroupVersion], groups[authorizationv1.SchemeGroupVersion]),
		Token:          tokens(core),
		Scheme:         scheme,
	}, nil
}

// clock reads the Date of an answer, whatever the answer is.
func clock(ctx context.Context, web *http.Client, server *url.URL) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, server.JoinPath("/version").String(), nil)
	if err != nil {
		return time.Time{}, err
	}
	response, err := web.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	date, err := http.ParseTime(response.Header.Get("Date"))
	return date, errors.Join(err, response.Body.Close())
}

func versions() []schema.GroupVersion {
	return []schema.GroupVersion{
		corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion,
		coordinationv1.SchemeGroupVersion, eventsv1.SchemeGroupVersion, certificatesv1.SchemeGroupVersion,
		authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion,
	}
}

// Scheme knows the kinds that a Client reads and writes, and their neighbours.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, coordinationv1.AddToScheme, eventsv1.AddToScheme,
		certificatesv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme)) // fails for two kinds of one name
	}
	return scheme
}

func connect(rc *rest.Config, web *http.Client, codecs runtime.NegotiatedSerializer, version schema.GroupVersion) (rest.Interface, error) {
	cfg := rest.CopyConfig(rc)
	cfg.GroupVersion, cfg.APIPath = &version, "/apis"
	if version.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = codecs
	return rest.RESTClientForConfigAndClient(cfg, web)
}

// NewDynamic is New for kinds that are not Kubernetes' own.
func NewDynamic(cfg Config) (dynamic.Interface, error) {
	rc, err := cfg.REST()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", rc.Host, err)
	}
	return client, nil
}

// REST is what any client of client-go is made from.
func (c Config) REST() (*rest.Config, error) {
	rc, err := rest.InClusterConfig()
	if c.Kubeconfig != "" {
		rc, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	if c.Server != "" {
		rc.Host = c.Server
	}
	rc.UserAgent = c.UserAgent
	rc.QPS = -1
	rc.ContentType = "application/vnd.kubernetes.protobuf"
	rc.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return rc, nil
}
