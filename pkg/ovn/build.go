// Package ovn says what the Northbound database should hold: for each owner (a
// Kubernetes object) a builder turns facts into the rows of that object.
//
// Builders are pure: (View, Network, owner) to rows, with no I/O, clock, client
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
//	namespace.go the subnets of namespaces on the default network
//	further.go   the rows of networks beside the default one
//	mirror.go    copies of pods' packets
//	primary.go   the links of primary networks to gateway routers
//	acl.go       the rules of all pods; acl/: those of policies
//	chains/      the routers of chains of pods
//	lb/          the load balancers of services and host ports
//	names.go     every name that OVN sees
//
// The layout is the one of the central mode of OVN-Kubernetes: node switch,
// cluster router, join switch, gateway router, external switch.
package ovn

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/chains"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Steering is what leads and copies the packets of pods.
type Steering interface {
	chains.Facts
	Mirrors
}

// Objects are nodes, pods and chains of pods.
type Objects interface {
	Steering
	Node(name string) *corev1.Node
	Pod(namespace, name string) *corev1.Pod
	// Locked says that the default network only leads to a pod's node.
	Locked(pod *corev1.Pod) bool
	// PodWith is the one that has an address of a namespace's subnet.
	PodWith(addr netip.Addr) *corev1.Pod
}

// View is the facts that builders read; a method returns nil for what is not there.
type View interface {
	Objects
	// Zone is what all networks of the zone share.
	Zone() contract.Zone
	// NodeSubnets are the recorded subnets of a node on a further network.
	NodeSubnets(node *corev1.Node, network string) []netip.Prefix
	lb.View
	acl.View
}

// Build is every row that owner wants: none when its object is gone. An owner
// of a kind that no builder knows wants nothing.
func Build(view View, network contract.Network, owner contract.Owner) ([]ovsdb.Row, error) {
	rank := Rank(owner)
	if rank == len(table) {
		return nil, nil
	}
	return table[rank].build(view, newScope(network, view.Zone()), owner)
}

func notReady(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{reconcile.ErrNotReady}, args...)...)
}
