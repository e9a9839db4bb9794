package controller

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam/quota"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// warnMissing says which networks a pod waits for.
func (c *Zone) warnMissing(owner contract.Owner, missing error) {
	if c.isOther(lack{owner, lackNetwork}, missing) {
		c.report.Warn(owner, "NetworkNotFound", missing.Error())
	}
}

// warnBeyond says that a pod waits for the quota of its namespace.
func (c *Zone) warnBeyond(owner contract.Owner, err error) {
	var beyond *quota.Error
	if !errors.As(err, &beyond) {
		c.isOther(lack{owner, lackQuota}, nil)
	} else if c.isOther(lack{owner, lackQuota}, beyond) {
		c.report.Warn(owner, "AttachmentQuotaExceeded", beyond.Error())
	}
}

// cause is what a pod with an attachment that has no decision waits for: a network, or the quota of its namespace.
func cause(missing, err error) error {
	if beyond := (*quota.Error)(nil); missing == nil && errors.As(err, &beyond) {
		return beyond
	}
	return missing
}

// lack is what an Event has said of an owner that waits.
type lack struct {
	owner contract.Owner
	of    lackOf
}

type lackOf int

const (
	lackNetwork lackOf = iota
	lackQuota
	lackSubnet
)

// isOther says that an error is another one than before.
func (c *Zone) isOther(key lack, err error) bool {
	if err == nil {
		c.lacks.Delete(key)
		return false
	}
	text := noted(err)
	before, _ := c.lacks.Swap(key, text)
	return before != text
}

// maxNoted is how many bytes of an error are remembered, about as many as an Event has: objects of users make errors of any
// length.
const maxNoted = 1024

// noted is what is remembered of an error.
func noted(err error) string {
	text := err.Error()
	return strings.Clone(text[:min(len(text), maxNoted)])
}

// warnNoSubnet copies the condition of a node without a subnet into an Event of the pod.
func (c *Zone) warnNoSubnet(owner contract.Owner, node string, err error) {
	object := c.view.Node(node)
	if object == nil || !errors.Is(err, reconcile.ErrNotReady) {
		return
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == corev1.NodeNetworkUnavailable && condition.Reason == reasonExhausted {
			c.report.Warn(owner, "NodeHasNoSubnet", fmt.Sprintf("node %s: %s", node, condition.Message))
		}
	}
}
