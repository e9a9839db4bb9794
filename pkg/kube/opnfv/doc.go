// Package opnfv has types of the API group k8s.plugin.opnfv.org, version v1alpha1: Network, ProviderNetwork and
// NetworkChaining, with the fields of OVN4NFV (Nodus), whose manifests work unchanged.
//
// Place in the data flow:
//
//	API -> Network, ProviderNetwork -> pkg/network/render -> NetworkAttachmentDefinition
//	API -> NetworkChaining          -> pkg/network/chain  -> pkg/ovn/chains
//
// The chart's CRDs are made from these types by hack/crds. A field without an effect here says so in its description.
//
// +groupName=k8s.plugin.opnfv.org
// +versionName=v1alpha1
package opnfv

import "k8s.io/apimachinery/pkg/runtime/schema"

// The kinds.
const (
	KindNetwork         = "Network"
	KindProviderNetwork = "ProviderNetwork"
	KindNetworkChaining = "NetworkChaining"
)

// The states of an object.
const (
	StateCreated = "Created"
	StateFailed  = "CreateInternalError"
)

// Networks is the resource of Network.
func Networks() schema.GroupVersionResource { return resource("networks") }

// ProviderNetworks is the resource of ProviderNetwork.
func ProviderNetworks() schema.GroupVersionResource { return resource("providernetworks") }

// NetworkChainings is the resource of NetworkChaining.
func NetworkChainings() schema.GroupVersionResource { return resource("networkchainings") }

func resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "k8s.plugin.opnfv.org", Version: "v1alpha1", Resource: name}
}
