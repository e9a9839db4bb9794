// Package ovnv1 has types of the API group k8s.ovn.org, version v1: UserDefinedNetwork and ClusterUserDefinedNetwork,
// with the fields and the validation of OVN-Kubernetes, whose manifests work unchanged.
//
// Place in the data flow:
//
//	API -> UserDefinedNetwork, ClusterUserDefinedNetwork -> pkg/network/render -> NetworkAttachmentDefinition
//
// The chart's CRDs are made from these types by hack/crds. A comment of a field is its description in kubectl explain and
// in docs/api.md; markers (+kubebuilder:...) are validation and columns. A rule that compares with the earlier object
// stands at the struct above the field, because the API server does not ask a field's own rule when the field comes or goes.
//
// +groupName=k8s.ovn.org
// +versionName=v1
package ovnv1

import "k8s.io/apimachinery/pkg/runtime/schema"

// Version is the group's version, as in apiVersion.
const Version = "k8s.ovn.org/v1"

// The kinds.
const (
	KindUserDefinedNetwork        = "UserDefinedNetwork"
	KindClusterUserDefinedNetwork = "ClusterUserDefinedNetwork"
)

// UserDefinedNetworks is the resource of UserDefinedNetwork.
func UserDefinedNetworks() schema.GroupVersionResource { return resource("userdefinednetworks") }

// ClusterUserDefinedNetworks is the resource of ClusterUserDefinedNetwork.
func ClusterUserDefinedNetworks() schema.GroupVersionResource {
	return resource("clusteruserdefinednetworks")
}

func resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "k8s.ovn.org", Version: "v1", Resource: name}
}
