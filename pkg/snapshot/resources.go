package snapshot

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a resource of the API that a snapshot may have.
type Resource string

// The resources.
const (
	Nodes            Resource = "nodes"
	Pods             Resource = "pods"
	Events           Resource = "events"
	Leases           Resource = "leases"
	Services         Resource = "services"
	Deployments      Resource = "deployments"
	DaemonSets       Resource = "daemonsets"
	StatefulSets     Resource = "statefulsets"
	NodeOffloads     Resource = "nodeoffloads"
	OffloadPolicies  Resource = "offloadpolicies"
	PhysicalNetworks Resource = "physicalnetworks"
	NetworkPolicies  Resource = "networkpolicies"
	Namespaces       Resource = "namespaces"

	AdminNetworkPolicies         Resource = "adminnetworkpolicies"
	BaselineAdminNetworkPolicies Resource = "baselineadminnetworkpolicies"
	ClusterNetworkPolicies       Resource = "clusternetworkpolicies"
	MultiNetworkPolicies         Resource = "multi-networkpolicies"
)

// All are the resources that an archive has.
func All() []Resource {
	return []Resource{
		Nodes, Pods, Services, Events, Leases, Deployments, DaemonSets, StatefulSets, NodeOffloads, OffloadPolicies, PhysicalNetworks, NetworkPolicies,
		Namespaces, AdminNetworkPolicies, BaselineAdminNetworkPolicies, ClusterNetworkPolicies, MultiNetworkPolicies,
	}
}

// scope says which objects of a resource are read.
type scope int

const (
	cluster   scope = iota // all
	installed              // those in the namespace of the network's own pods
	reported               // Events of the network's own processes
)

type selection struct {
	group, version string
	scope          scope
	// keep are the fields that stay, beside name, namespace, labels and creation: "a.b" with all below it, and below each
	// element of a list.
	keep []string
}

// annotations are those that stay, by the beginnings of their keys. "kubectl.kubernetes.io/last-applied-configuration" has
// values of the environment.
var annotations = []string{"k8s.ovn.org/", "ovn-offload.io/", "k8s.v1.cni.cncf.io/", "k8s.plugin.opnfv.org/"} //nolint:gochecknoglobals // constant

func (r Resource) selection() selection {
	if of, ok := regarded()[r]; ok {
		return of
	}
	workload := []string{"spec.replicas", "status"}
	switch r {
	case Nodes:
		return selection{version: "v1", keep: []string{
			"spec.unschedulable", "status.conditions", "status.addresses", "status.allocatable", "status.nodeInfo",
		}}
	case Pods:
		return selection{version: "v1", keep: []string{
			"metadata.deletionTimestamp", "metadata.ownerReferences", "spec.nodeName", "spec.hostNetwork", "spec.containers.name", "spec.containers.image",
			"spec.containers.resources", "spec.containers.ports", "status.phase", "status.reason", "status.conditions", "status.podIPs", "status.containerStatuses.name",
			"status.containerStatuses.ready", "status.containerStatuses.restartCount", "status.containerStatuses.state.waiting.reason",
			"status.containerStatuses.lastState.terminated.reason", "status.containerStatuses.lastState.terminated.exitCode",
		}}
	case Events:
		return selection{"events.k8s.io", "v1", reported, []string{
			"reason", "type", "note", "regarding", "eventTime", "series", "reportingController", "reportingInstance",
		}}
	case Services:
		return selection{version: "v1", keep: []string{"spec", "status"}}
	case NetworkPolicies:
		return selection{group: "networking.k8s.io", version: "v1", keep: []string{"spec"}}
	case Namespaces:
		return selection{version: "v1"}
	case AdminNetworkPolicies, BaselineAdminNetworkPolicies:
		return selection{"policy.networking.k8s.io", "v1alpha1", cluster, []string{"spec"}}
	case ClusterNetworkPolicies:
		return selection{"policy.networking.k8s.io", "v1alpha2", cluster, []string{"spec"}}
	case MultiNetworkPolicies:
		return selection{"k8s.cni.cncf.io", "v1beta1", cluster, []string{"spec"}}
	case Leases:
		return selection{"coordination.k8s.io", "v1", installed, []string{"spec"}}
	case Deployments, DaemonSets, StatefulSets:
		return selection{"apps", "v1", installed, workload}
	default:
		return selection{"ovn-offload.io", "v1alpha1", cluster, []string{"spec", "status"}}
	}
}

// Kind is the resource's name for the API server.
func (r Resource) Kind() schema.GroupVersionResource {
	s := r.selection()
	return schema.GroupVersionResource{Group: s.group, Version: s.version, Resource: string(r)}
}
