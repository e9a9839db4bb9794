// Package apitest makes the client of package api from one of client-go's, which has
// a fake.
package apitest

import (
	"net/url"

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
	}
}

func whole[T, L any](of api.Resource[T, L]) api.Resource[T, L] { return listed[T, L]{of} }

func namespaced[T, L any, R api.Resource[T, L]](of func(namespace string) R) api.Namespaced[T, L] {
	return func(namespace string) api.Resource[T, L] { return listed[T, L]{of(namespace)} }
}

// listed tells informers to list before they watch, as fakes need it.
type listed[T, L any] struct{ api.Resource[T, L] }

func (listed[T, L]) IsWatchListSemanticsUnSupported() bool { return true }
