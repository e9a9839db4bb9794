// Package apitest makes the client of package api from one of client-go's, which has
// a fake.
package apitest

import (
	"context"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// Client reads and writes with another client, fake or real.
func Client(client kubernetes.Interface) *api.Client {
	core, networking := client.CoreV1(), client.NetworkingV1()
	return &api.Client{
		Nodes:          whole(core.Nodes()),
		Namespaces:     whole(core.Namespaces()),
		ServiceCIDRs:   whole(networking.ServiceCIDRs()),
		Pods:           namespaced(core.Pods),
		Services:       namespaced(core.Services),
		Secrets:        namespaced(core.Secrets),
		EndpointSlices: namespaced(client.DiscoveryV1().EndpointSlices),
		Policies:       namespaced(networking.NetworkPolicies),
		Leases:         namespaced(client.CoordinationV1().Leases),
		Events:         namespaced(client.EventsV1().Events),
		ConfigMaps:     namespaced(core.ConfigMaps),
		Accounts:       namespaced(core.ServiceAccounts),
		Requests:       whole(client.CertificatesV1().CertificateSigningRequests()),
		Server:         &url.URL{},
		Scheme:         api.Scheme(),
		Token: func(ctx context.Context, account types.NamespacedName, validity time.Duration) (string, error) {
			seconds := int64(validity.Seconds())
			asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
			granted, err := core.ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name, asked, metav1.CreateOptions{})
			if err != nil {
				return "", err
			}
			return granted.Status.Token, nil
		},
	}
}

func whole[T, L any](of api.Resource[T, L]) api.Resource[T, L] { return listed[T, L]{of} }

func namespaced[T, L any, R api.Resource[T, L]](of func(namespace string) R) api.Namespaced[T, L] {
	return func(namespace string) api.Resource[T, L] { return listed[T, L]{of(namespace)} }
}

// listed tells informers to list before they watch, as fakes need it.
type listed[T, L any] struct{ api.Resource[T, L] }

func (listed[T, L]) IsWatchListSemanticsUnSupported() bool { return true }
