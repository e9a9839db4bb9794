package ovn

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/chains"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Lister has the objects of all kinds, in no order. Builders have no such view: their rows do not grow with the cluster.
type Lister interface {
	Nodes() []*corev1.Node
	Pods() []*corev1.Pod
	Services() []*corev1.Service
	NetworkLister
	PolicyLister
}

// NetworkLister has the further networks, and the owners of pods' attachments to them.
type NetworkLister interface {
	Networks() []contract.Network
	Attachments() []contract.Owner
	// ChainOwners are all NetworkChainings.
	ChainOwners() []contract.Owner
	// PortMirrorOwners are all PortMirrors.
	PortMirrorOwners() []contract.Owner
}

// PolicyLister has what policies are made of.
type PolicyLister interface {
	PolicyOwners() []contract.Owner
	PodSetOwners() []contract.Owner
	// MultiOwners stand for the MultiNetworkPolicies, which PolicyOwners has on each of their networks.
	MultiOwners() []contract.Owner
	// UsersOf are the policies whose rules refer to a set of pods.
	UsersOf(set contract.Owner) []contract.Owner
}

// Kind is one kind of owner.
type Kind struct {
	Name string
	// Owners are all of the kind, on all networks.
	Owners func(all Lister) []contract.Owner
	// Dependents are the owners that are built again when rows of owner are inserted or deleted; nil: none.
	Dependents func(all Lister, owner contract.Owner) []contract.Owner

	build builder
}

type builder func(view View, net scope, owner contract.Owner) ([]ovsdb.Row, error)

// table has the kinds in the order of their ranks: each before those whose rows belong into its rows or use them.
//
//nolint:gochecknoglobals // a constant, which Go cannot express
var table = []Kind{
	{Name: contract.KindNetwork, build: buildNetwork, Owners: networkOwners},
	{Name: contract.KindNode, build: buildNode, Owners: nodesOfNetworks},
	{Name: contract.KindPodSet, build: ofPolicies(acl.BuildPodSet), Owners: Lister.PodSetOwners, Dependents: Lister.UsersOf},
	policyKind(contract.KindNetworkPolicy),
	{Name: contract.KindMultiNetworkPolicy, build: ofPolicies(acl.BuildPolicy), Owners: multiOwners},
	policyKind(contract.KindAdminNetworkPolicy),
	policyKind(contract.KindBaselineAdminNetworkPolicy),
	policyKind(contract.KindClusterNetworkPolicy),
	{Name: contract.KindPortMirror, build: buildMirror, Owners: Lister.PortMirrorOwners},
	{Name: contract.KindPod, build: buildPod, Owners: podOwners},
	{Name: contract.KindNeighbor, build: buildNeighbor, Owners: func(Lister) []contract.Owner { return nil }}, // the allocator has them
	{Name: contract.KindNetworkChaining, build: buildChain, Owners: Lister.ChainOwners},
	{Name: contract.KindService, build: ofServices(lb.BuildService), Owners: serviceOwners},
	{Name: contract.KindNodeServices, build: ofServices(lb.BuildNode), Owners: nodeOwners(contract.NodeServicesOwner)},
}

// IsShared says that further networks need the rows of an owner without a network. They need no others of the default
// network.
func IsShared(owner contract.Owner) bool {
	return owner.Kind == contract.KindNetwork || owner.Kind == contract.KindNetworkChaining || owner.Kind == contract.KindPortMirror
}

// Kinds are all kinds of owners in the order of their ranks.
func Kinds() []Kind { return slices.Clone(table) }

// OwnersOf are all owners of a kind.
func OwnersOf(kind string, all Lister) []contract.Owner {
	if rank := Rank(contract.Owner{Kind: kind}); rank < len(table) {
		return table[rank].Owners(all)
	}
	return nil
}

// Rank orders owners so that most find what they need in place. Unknown kinds come last.
func Rank(owner contract.Owner) int {
	if at := slices.IndexFunc(table, func(k Kind) bool { return k.Name == owner.Kind }); at >= 0 {
		return at
	}
	return len(table)
}

// Dependents are the owners to build again when rows of owner come or go.
func Dependents(all Lister, owner contract.Owner) []contract.Owner {
	if rank := Rank(owner); rank < len(table) && table[rank].Dependents != nil {
		return table[rank].Dependents(all, owner)
	}
	return nil
}

// ofServices leaves out what builders of services do not read; they take the zone from the view.
func ofServices(build func(lb.View, contract.Network, contract.Owner) ([]ovsdb.Row, error)) builder {
	return func(view View, net scope, owner contract.Owner) ([]ovsdb.Row, error) {
		return build(view, net.Network, owner)
	}
}

// ofPolicies leaves out what builders of policies do not read: the zone.
func ofPolicies(build func(acl.View, contract.Network, contract.Owner) ([]ovsdb.Row, error)) builder {
	return func(view View, net scope, owner contract.Owner) ([]ovsdb.Row, error) {
		return build(view, net.Network, owner)
	}
}

// buildChain gives no rows for a chain that cannot be: it may not have those either that it has.
func buildChain(view View, _ scope, owner contract.Owner) ([]ovsdb.Row, error) {
	rows, err := chains.Build(view, owner)
	if err != nil {
		err = refusal{err}
	}
	return rows, err
}

// refusal is an error of an object that must be changed.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == ErrRefused || target == reconcile.ErrInvalid }

func policyKind(name string) Kind {
	return Kind{Name: name, build: ofPolicies(acl.BuildPolicy), Owners: func(all Lister) []contract.Owner { return policyOwners(all, name) }}
}

func policyOwners(all Lister, kind string) []contract.Owner {
	return slices.DeleteFunc(all.PolicyOwners(), func(owner contract.Owner) bool { return owner.Kind != kind })
}

func multiOwners(all Lister) []contract.Owner {
	return append(all.MultiOwners(), policyOwners(all, contract.KindMultiNetworkPolicy)...)
}

func networkOwners(all Lister) []contract.Owner {
	owners := []contract.Owner{contract.NetworkOwner()}
	for _, network := range all.Networks() {
		owners = append(owners, contract.NetworkOwner().On(network.Name))
	}
	return owners
}

// nodesOfNetworks are the nodes on the networks of which they have parts.
func nodesOfNetworks(all Lister) []contract.Owner {
	owners := nodeOwners(contract.NodeOwner)(all)
	nodes := len(owners)
	for _, network := range all.Networks() {
		for _, node := range owners[:nodes] {
			if network.HasNodeParts() {
				owners = append(owners, node.On(network.Name))
			}
		}
	}
	return owners
}

func nodeOwners(owner func(node string) contract.Owner) func(Lister) []contract.Owner {
	return func(all Lister) (owners []contract.Owner) {
		for _, node := range all.Nodes() {
			owners = append(owners, owner(node.Name))
		}
		return owners
	}
}

func podOwners(all Lister) (owners []contract.Owner) {
	for _, pod := range all.Pods() {
		owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
	}
	return append(owners, all.Attachments()...)
}

func serviceOwners(all Lister) (owners []contract.Owner) {
	for _, service := range all.Services() {
		owners = append(owners, contract.ServiceOwner(service.Namespace, service.Name))
	}
	return owners
}
