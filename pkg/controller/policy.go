package controller

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
)

// countPolicies registers the numbers of policies and of their pod selections as metrics.
func countPolicies(registerer prometheus.Registerer, view *kube.ClusterView) {
	opts := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Name: name, Help: help}
	}
	registerer.MustRegister(
		prometheus.NewGaugeFunc(opts("ovn_offload_policy_policies", "Network policies in force."), func() float64 { return float64(len(view.PolicyOwners())) }),
		prometheus.NewGaugeFunc(opts("ovn_offload_policy_pod_sets", "Distinct selections of pods by rules of policies."), func() float64 { return float64(len(view.PodSetOwners())) }),
	)
}

// warnAuthor writes one Event on an object about the parts that have no effect.
func (c *Zone) warnAuthor(owner contract.Owner) {
	reason, text := c.warning(owner)
	if text == "" {
		c.warned.Delete(owner)
		return
	}
	if before, _ := c.warned.Swap(owner, text); before != text {
		c.report.Warn(owner, reason, text)
	}
}

// warning is about a namespace selector that selects no namespace now and so allows no peer, which is seldom intended.
// For a MultiNetworkPolicy it is about networks that do not exist. For a service it is about external IPs that the service
// must not have, ports that are too much, and endpoints of others. The text is empty without a warning.
func (c *Zone) warning(owner contract.Owner) (reason, text string) {
	if owner.Kind == contract.KindService {
		name := types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}
		if refused := lb.RefusedExternalIPs(facts{c.view, c}, c.network, name); refused != "" {
			return "ExternalIPRefused", fmt.Sprintf("the service does not answer at %s of its externalIPs: "+
				"they belong to nodes or to the networks of pods, services or routers", refused)
		}
		if refused := lb.RefusedPorts(facts{c.view, c}, c.network, name); refused != "" {
			return "PartRefused", fmt.Sprintf("over the limit: ports, endpoints and external addresses of the service make more than %d backends. "+
				"These ports are not served: %s", lb.MaxBackends, refused)
		}
		if refused := lb.RefusedEndpoints(facts{c.view, c}, c.network, name); refused != "" {
			return "EndpointRefused", fmt.Sprintf("node ports and external addresses of the service do not lead to its endpoints %s: "+
				"they are in the subnets of a primary network that the service is not on", refused)
		}
		return "", ""
	}
	if problem := c.view.MultiProblem(owner); problem != nil {
		return "PolicyForNotFound", fmt.Sprint(problem)
	}
	policy := c.view.Policy(owner)
	if policy == nil {
		return "", ""
	}
	if unmatched := policy.Unmatched(func(s labels.Selector) bool { return len(c.view.Namespaces(s)) > 0 }); unmatched != "" {
		return "NoNamespaceSelected", "no namespace has the labels that namespaceSelector wants: " + unmatched
	}
	return "", ""
}
