package controller

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// countPolicies registers how many policies there are, and selections of pods in them.
func countPolicies(registerer prometheus.Registerer, view *kube.View) {
	opts := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "ovn_offload", Subsystem: "policy", Name: name, Help: help}
	}
	registerer.MustRegister(
		prometheus.NewGaugeFunc(opts("policies", "Network policies in force."), func() float64 { return float64(len(view.PolicyOwners())) }),
		prometheus.NewGaugeFunc(opts("pod_sets", "Distinct selections of pods by rules of policies."), func() float64 { return float64(len(view.PodSetOwners())) }),
	)
}

// warnUnmatched tells the author of a policy, once, that a namespace selector
// selects nothing now: the policy means then that nobody is allowed, which is
// seldom what its author means.
func (c *Controller) warnUnmatched(owner kube.Owner) {
	policy := c.view.Policy(owner)
	if policy == nil {
		c.warned.Delete(owner)
		return
	}
	unmatched := policy.Unmatched(func(s labels.Selector) bool { return len(c.view.Namespaces(s)) > 0 })
	if before, _ := c.warned.Swap(owner, unmatched); unmatched != "" && before != unmatched {
		c.report.Warn(owner, "NoNamespaceSelected", fmt.Sprintf("no namespace has the labels that namespaceSelector wants: %s", unmatched))
	}
}
