package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

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
