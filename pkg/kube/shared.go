package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sharedServices are the services of the default network that pods of primary networks reach, by their cluster addresses: the API
// server, the DNS of the cluster, and those that an administrator has named.
type sharedServices struct {
	allServices store[corev1.Service]
	// FurtherShared are the keys of the services that an administrator has named; set it before Start.
	FurtherShared []string
}

// byDNS is the index of services that are the DNS of the cluster, whatever their names are: its only value is its name.
const byDNS = "DNS of the cluster"

func servicesOfDNS() map[string]func(*corev1.Service) []string {
	return map[string]func(*corev1.Service) []string{byDNS: func(service *corev1.Service) []string {
		if isDNS(service) {
			return []string{byDNS}
		}
		return nil
	}}
}

// isDNS says that a service, which may be nil, is the DNS of the cluster: distributions give it different names and this label.
func isDNS(service *corev1.Service) bool {
	return service != nil && service.Namespace == metav1.NamespaceSystem && service.Labels["k8s-app"] == "kube-dns"
}

// sharedNames are the keys of services that are shared whatever their labels are.
func (s *sharedServices) sharedNames() []string {
	return append([]string{"default/kubernetes", "kube-system/kube-dns"}, s.FurtherShared...)
}

// isShared says that a service of this name is shared, if there is one.
func (s *sharedServices) isShared(namespace, name string) bool {
	key := namespace + "/" + name
	return slices.Contains(s.sharedNames(), key) || isDNS(s.allServices.Get(key))
}

// SharedServices are the services of the default network that pods of primary networks reach, in a fixed order. Of several that are
// the DNS of the cluster, kube-dns is the first.
func (s *sharedServices) SharedServices() (services []*corev1.Service) {
	labelled := s.allServices.Keys(byDNS, byDNS)
	slices.Sort(labelled)
	var seen []string
	for _, key := range append(s.sharedNames(), labelled...) {
		service := s.allServices.Get(key)
		if service == nil || slices.Contains(seen, key) {
			continue
		}
		services, seen = append(services, service), append(seen, key)
	}
	return services
}
