// Package ovn says what the Northbound database should hold: for each owner (a
// Kubernetes object) a builder turns facts into the rows of that object.
//
// Builders are pure: (View, Config, owner) to rows, with no I/O, clock, client
// or logger. The facts come from pkg/kube's informers and pkg/ipam's decisions;
// the rows go to pkg/ovsdb, which commits what differs. An object that is gone,
// or that wants nothing, has no rows, and that is how its rows are deleted. A
// fact that is still missing is an error which wraps reconcile.ErrNotReady and
// names the fact; its arrival marks the owner dirty again.
//
//	network.go   the rows that exist once: join switch and cluster router
//	node.go      a node's switch, its router port and management port
//	gateway.go   a node's gateway router and external switch
//	guard.go     what pods must not send to nodes
//	pod.go       a pod's logical switch port
//	service.go   a service's load balancers; frontend.go and endpoint.go: of what
//	external.go  the addresses of a service that are not the cluster's
//	variables.go a node's own values in the load balancers of all nodes
//	values.go    what services give to these, by zone and node
//	hostport.go  a pod's ports on its node
//	policy.go    a network policy's port group and rules; acl.go: rules of all
//	podset.go    the address sets of pods that rules refer to
//	names.go     every name that OVN sees
//
// The layout is the one of the central mode of OVN-Kubernetes: node switch,
// cluster router, join switch, gateway router, external switch.
package ovn

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// View is the facts that builders read; a method returns nil for what is not there.
type View interface {
	Node(name string) *corev1.Node
	Pod(namespace, name string) *corev1.Pod
	// Allocated is the network of a pod as the allocator decided and recorded
	// it: an annotation that says something else is not a fact.
	Allocated(pod *corev1.Pod) *kube.PodNetwork
	Services
	PolicyView
}

// Config is what the whole zone shares.
type Config struct {
	// ClusterSubnets hold all pods, one or more for each family.
	ClusterSubnets []netip.Prefix
	// NodeBits are the lengths of nodes' subnets, for each of ClusterSubnets; where
	// there is none, Kubernetes' default.
	NodeBits []int
	// JoinSubnets number the join switch, at most one for each family.
	JoinSubnets []netip.Prefix
	// ServiceSubnets hold services' own addresses, beside the ranges that the API says.
	ServiceSubnets []netip.Prefix
	// MasqueradeSubnets hold the addresses that stand for a node or a router
	// where the true one cannot, at most one for each family.
	MasqueradeSubnets []netip.Prefix
}

// families says for each address family of the pods whether it is IPv4.
func (c Config) families() []bool {
	var families []bool
	for _, subnet := range c.ClusterSubnets {
		if four := subnet.Addr().Is4(); !slices.Contains(families, four) {
			families = append(families, four)
		}
	}
	return families
}

// nodeBits is the length of nodes' subnets in the ith of ClusterSubnets.
func (c Config) nodeBits(i int) int {
	switch {
	case i < len(c.NodeBits):
		return c.NodeBits[i]
	case c.ClusterSubnets[i].Addr().Is4():
		return 24
	}
	return 64
}

// Validate refuses a configuration without pod or join subnets.
func (c Config) Validate() error {
	if len(c.ClusterSubnets) == 0 {
		return fmt.Errorf("no cluster subnet is configured")
	}
	for _, subnet := range c.ClusterSubnets {
		if _, ok := sameFamily(c.JoinSubnets, subnet.Addr()); !ok {
			return fmt.Errorf("cluster subnet %s has no join subnet of its family", subnet)
		}
	}
	return nil
}

// Build is every row that owner wants: none when its object is gone. An owner
// of a kind that no builder knows wants nothing.
func Build(view View, cfg Config, owner kube.Owner) ([]ovsdb.Row, error) {
	switch owner.Kind {
	case kube.KindNetwork:
		if owner != kube.NetworkOwner() {
			return nil, nil
		}
		return buildNetwork(cfg), nil
	case kube.KindNode:
		return buildNode(view, cfg, owner.Name)
	case kube.KindPod:
		return buildPod(view, cfg, owner.Namespace, owner.Name)
	case kube.KindService:
		return buildService(view, cfg, owner.Namespace, owner.Name)
	case kube.KindNodeServices:
		return buildNodeServices(view, cfg, owner.Name)
	case kube.KindNetworkPolicy, kube.KindAdminNetworkPolicy, kube.KindBaselineAdminNetworkPolicy, kube.KindClusterNetworkPolicy:
		return buildPolicy(view, cfg, owner)
	case kube.KindPodSet:
		return buildPodSet(view, cfg, owner)
	}
	return nil, nil
}

func notReady(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{reconcile.ErrNotReady}, args...)...)
}
