package kube

import (
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Annotated are the informers of the objects whose annotations users write, by kind.
func Annotated(v *ClusterView) map[string]cache.SharedIndexInformer {
	all := map[string]cache.SharedIndexInformer{
		contract.KindPod: v.pods, contract.KindNode: v.nodes, contract.KindService: v.services, "Namespace": v.namespaces,
		contract.KindNetworkPolicy: v.policies,
	}
	if v.multis.SharedIndexInformer != nil {
		all[contract.KindMultiNetworkPolicy] = v.multis
	}
	return all
}
