package chain

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// FunctionsOf are the positions of the functions that a pod is.
func (c *Chain) FunctionsOf(pod *corev1.Pod) (functions []int) {
	for i, selector := range c.Functions {
		if pod.Namespace == c.Owner.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			functions = append(functions, i)
		}
	}
	return functions
}

// Routes are those that a pod, in a namespace with labels, has on the network of a NAD. One subnet may have several routes,
// by the router's addresses of all subnets of the network.
func (c *Chain) Routes(pod *corev1.Pod, namespace map[string]string, nad string) (routes []contract.Route) {
	functions := c.FunctionsOf(pod)
	for stage, places := range c.Stages {
		for _, place := range places {
			if place.NAD != nad {
				continue
			}
			leadsRight, leadsLeft := stage == 0 && place.selects(pod, namespace), stage == len(c.Stages)-1 && place.selects(pod, namespace)
			if len(functions) > 0 { // a function leads away from itself; at an end, to what is behind the end's network
				leadsRight, leadsLeft = slices.Contains(functions, stage-1), slices.Contains(functions, stage)
			}
			if leadsRight {
				routes = append(routes, c.routes(place, stage, true)...)
			}
			if leadsLeft {
				routes = append(routes, c.routes(place, stage, false)...)
			}
		}
	}
	return routes
}

func (p Place) selects(pod *corev1.Pod, namespace map[string]string) bool {
	return p.pods == nil || p.pods.Matches(labels.Set(pod.Labels)) && p.namespaces.Matches(labels.Set(namespace))
}

// routes lead from a place of a stage to an end. No route leads to all addresses: a pod chooses its default route itself.
func (c *Chain) routes(place Place, stage int, right bool) (routes []contract.Route) {
	atEnd := right && stage == len(c.Stages)-1 || !right && stage == 0
	add := func(subnet netip.Prefix, via netip.Addr) {
		if subnet.Bits() > 0 {
			routes = append(routes, contract.Route{Dest: subnet, NextHop: via})
		}
	}
	for _, family := range c.Families() {
		for _, subnet := range c.Ends(right, family) {
			if atEnd {
				if slices.Contains(place.Subnets, subnet) && !place.IsOwn(subnet) {
					add(subnet, place.Gateway)
				}
				continue
			}
			for _, router := range place.Network.Gateways {
				if family.Has(router.Addr()) {
					add(subnet, router.Addr())
				}
			}
		}
	}
	return routes
}
