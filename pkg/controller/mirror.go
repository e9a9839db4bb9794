package controller

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/network/mirror"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
)

// newMirrors makes the loop of the copies of EndpointSlices.
func newMirrors(c *Controller, client *api.Client) (*mirror.Mirrors, error) {
	return mirror.New(mirror.Deps{
		Slices: client.EndpointSlices, Logger: c.log, Registerer: c.cfg.Registerer,
		Network: func(namespace string) string {
			if _, network := c.view.Primary(namespace); network != nil {
				return network.Name
			}
			return ""
		},
		OnNetwork: func(namespace string, some []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
			nad, _ := c.view.Primary(namespace)
			return lb.OnNetwork(podsOfZones{c}, namespace, nad, some)
		},
		Sources: func(service contract.Owner) []*discoveryv1.EndpointSlice {
			return c.view.EndpointSlices(service.Namespace, service.Name)
		},
		Services: func() (services []contract.Owner) {
			for _, service := range c.view.Services() {
				if _, network := c.view.Primary(service.Namespace); network != nil {
					services = append(services, contract.ServiceOwner(service.Namespace, service.Name))
				}
			}
			return services
		},
	})
}

// podsOfZones are those of all zones.
type podsOfZones struct{ *Controller }

func (a podsOfZones) PodsIn(namespace string) []*corev1.Pod { return a.view.PodsIn(namespace) }

// Allocated is that of the zone of the pod.
func (a podsOfZones) Allocated(pod *corev1.Pod, network string) *contract.PodNetwork {
	for _, zone := range a.zones {
		if zone.zone.Local == nil || zone.zone.Local(pod.Spec.NodeName) {
			return facts{a.view, zone}.Allocated(pod, network)
		}
	}
	return nil
}
