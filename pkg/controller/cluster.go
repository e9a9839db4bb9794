package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Cluster allocates the nodes' subnets and ids, and the networks' ids, for all zones. It has no database.
type Cluster struct {
	*process
	nodes, networks *reconcile.Loop[contract.Owner]
	// problems has the problem of each NAD that an Event has reported; lacking, why nodes have no part of a network.
	problems, lacking sync.Map
	// networkWriter is nil without a dynamic client, and then there are no NADs.
	networkWriter *kube.ObjectWriter
	// allocated takes in which networks have no part for a node, and why.
	allocated func(node string, failed map[string]error)
	// hasRows says whether a zone has rows of a node in its database.
	hasRows func(contract.Owner) bool
}

func newCluster(p *process) *Cluster {
	c := &Cluster{process: p, allocated: func(string, map[string]error) {}}
	if p.cfg.Dynamic != nil {
		c.networkWriter = kube.NewObjectWriter(p.cfg.Dynamic, kube.NADs())
	}
	c.nodes = p.loop("node-allocation", 1, 1, c.allocateNodes)
	c.nodes.MarkAllWith(func() []contract.Owner {
		return onDefault(append(ovn.OwnersOf(contract.KindNode, c.view), c.subnets.Owners()...))
	})
	c.networks = p.loop("network-allocation", 1, 1, c.allocateNetworks)
	c.networks.MarkAllWith(c.view.NADOwners)
	return c
}

// onDefault replaces owners on further networks by those of the same objects on the default network.
func onDefault(owners []contract.Owner) []contract.Owner {
	for i := range owners {
		owners[i].Network = ""
	}
	return contract.Unique(owners)
}

func (c *Cluster) mark(owners ...contract.Owner) {
	if !c.leading.Load() {
		return
	}
	for _, owner := range owners {
		switch {
		case owner.Kind == contract.KindNode && owner.Network == "":
			c.nodes.Mark(owner)
		case owner.Kind == contract.KindNAD:
			c.networks.Mark(owner)
		}
	}
}

// allocateNodes records subnets and ids. A node without a subnet has a condition with the reason until it gets one.
func (c *Cluster) allocateNodes(ctx context.Context, owners []contract.Owner) (map[contract.Owner]error, error) {
	failed := map[contract.Owner]error{}
	for _, owner := range owners {
		node := c.view.Node(owner.Name)
		if node == nil {
			c.allocated(owner.Name, nil)
			if !c.hasRows(owner) { // else the zone says when they are deleted
				c.mark(c.subnets.Release(owner.Name)...)
			}
			continue
		}
		decision, err := c.subnets.Node(node)
		c.allocated(node.Name, decision.Failed)
		c.warn(owner, decision)
		err = c.recordNode(ctx, node, decision, err)
		failed[owner] = c.forgetGone(owner, errors.Join(err, c.warnFailed(decision.Failed)))
	}
	return failed, nil
}

// recordNode writes what a node has on the default network first, and its condition: all networks together may not fit into
// the annotations of an object.
func (c *Cluster) recordNode(ctx context.Context, node *corev1.Node, decision ipam.Decision, err error) error {
	first, rest := decision.Annotations, map[string]string(nil)
	if decision.First != nil {
		first, rest = decision.First, decision.Annotations
	}
	if err == nil {
		first[contract.NodeNamespaceSubnetsKey] = contract.FormatNamespaceSubnets(c.view.NamespaceSubnets())
		err = c.write.AnnotateNode(ctx, node, first)
	}
	if !c.cfg.Plan.SecondaryOnly && (err == nil || errors.Is(err, ipam.ErrExhausted)) {
		err = errors.Join(err, c.write.SetNodeCondition(ctx, node, networkCondition(err)))
	}
	if err == nil {
		err = c.write.AnnotateNode(ctx, node, rest)
	}
	return err
}

// warnFailed reports on the NADs of a network once why nodes have no part of it. The error names the first of the networks.
func (c *Cluster) warnFailed(failed map[string]error) error {
	names := slices.Sorted(maps.Keys(failed))
	for _, name := range names {
		text := failed[name].Error()
		if before, _ := c.lacking.Swap(name, text); before == text {
			continue
		}
		for _, key := range c.view.NADsOf(name) {
			namespace, nad, _ := strings.Cut(key, "/")
			c.report.Warn(contract.Owner{Kind: contract.KindNAD, Namespace: namespace, Name: nad}, "NetworkFailed", text)
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("network %s: %w", names[0], failed[names[0]])
	}
	return fmt.Errorf("network %s and %d others: %w", names[0], len(names)-1, failed[names[0]])
}

// reasonExhausted is the reason of a node's condition when no subnet was left.
const reasonExhausted = "SubnetsExhausted"

// networkCondition is Kubernetes' condition for a node with or without a network.
func networkCondition(err error) corev1.NodeCondition {
	if err != nil {
		return corev1.NodeCondition{
			Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue,
			Reason: reasonExhausted, Message: err.Error(),
		}
	}
	return corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
		Reason: "SubnetAllocated", Message: "the node has a subnet of the pod network",
	}
}
