package snapshot

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract/served"
)

// The resources of which only objects are read that an Event is about.
const (
	UserDefinedNetworks          Resource = "userdefinednetworks"
	ClusterUserDefinedNetworks   Resource = "clusteruserdefinednetworks"
	NetworkAttachmentDefinitions Resource = "network-attachment-definitions"
	NamespaceSubnets             Resource = "namespacesubnets"
	PortMirrors                  Resource = "portmirrors"
)

// regarded is what is kept of them.
func regarded() map[Resource]selection {
	conditions := []string{"status.conditions"}
	all := map[Resource]selection{
		UserDefinedNetworks: {"k8s.ovn.org", "v1", cluster, conditions}, ClusterUserDefinedNetworks: {"k8s.ovn.org", "v1", cluster, conditions},
		NetworkAttachmentDefinitions: {"k8s.cni.cncf.io", "v1", cluster, nil},
		NamespaceSubnets:             {"ovn-offload.io", "v1alpha1", cluster, conditions}, PortMirrors: {"ovn-offload.io", "v1alpha1", cluster, conditions},
	}
	for _, kind := range served.RefusedKinds() {
		all[Resource(kind.Resource)] = selection{group: kind.Group, version: kind.Version}
	}
	return all
}

// OfKind is the resource of a kind that Events are about; "": it is not known.
func OfKind(kind string) Resource {
	for _, refused := range served.RefusedKinds() {
		if refused.Kind == kind {
			return Resource(refused.Resource)
		}
	}
	return map[string]Resource{
		"Node": Nodes, "Pod": Pods, "Service": Services, "Namespace": Namespaces, "NetworkPolicy": NetworkPolicies, "MultiNetworkPolicy": MultiNetworkPolicies,
		"AdminNetworkPolicy": AdminNetworkPolicies, "BaselineAdminNetworkPolicy": BaselineAdminNetworkPolicies, "ClusterNetworkPolicy": ClusterNetworkPolicies,
		"NodeOffload": NodeOffloads, "OffloadPolicy": OffloadPolicies, "PhysicalNetwork": PhysicalNetworks, "UserDefinedNetwork": UserDefinedNetworks,
		"ClusterUserDefinedNetwork": ClusterUserDefinedNetworks, "NetworkAttachmentDefinition": NetworkAttachmentDefinitions,
		"NamespaceSubnet": NamespaceSubnets, "PortMirror": PortMirrors,
	}[kind]
}

// Find gives an object by its name; nil: there is none.
func Find(all []*Object, namespace, name string) *Object {
	if i := slices.IndexFunc(all, func(o *Object) bool { return o.name == namespace+"/"+name }); i >= 0 {
		return all[i]
	}
	return nil
}

// Known are the resources of which all objects were read, or all that were looked for by their names: another one is none of the cluster.
type Known map[Resource]bool

// Add notes the resources that a snapshot was read for. What it may not read is not missing in it any more.
func (k Known) Add(read *Snapshot, of map[Resource][]Selected) {
	for r := range of {
		k[r] = read.Missing[r] == ""
		delete(read.Missing, r)
	}
}

// UID is that of the object; "": an archive of a former version does not have it.
func (o *Object) UID() string {
	uid, _, _ := unstructured.NestedString(o.Fields(), "metadata", "uid")
	return uid
}

// Conditions are those of the object's status.
func (o *Object) Conditions() (out []metav1.Condition) {
	list, _, _ := unstructured.NestedSlice(o.Fields(), "status", "conditions")
	for _, item := range list {
		var condition metav1.Condition
		fields, ok := item.(map[string]any)
		if ok && runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &condition) == nil {
			out = append(out, condition)
		}
	}
	return out
}
