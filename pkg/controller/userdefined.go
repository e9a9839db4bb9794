package controller

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network"
	"github.com/ovn-offload/ovn-offload/pkg/network/nads"
)

// newNADs makes the loop of the objects that stand for networks.
func newNADs(p *process) (*nads.NADs, error) {
	return nads.New(nads.Deps{
		Client: p.cfg.Dynamic, Pods: p.podsWith, Allows: p.mayUse, Verdict: p.verdict, Default: !p.cfg.Native && !p.cfg.Plan.SecondaryOnly,
		Event: p.report.Record, Logger: p.log, Registerer: p.cfg.Registerer,
	})
}

// verdict says what the view has found of a NAD.
func (p *process) verdict(nad *unstructured.Unstructured) nads.Verdict {
	key := nad.GetNamespace() + "/" + nad.GetName()
	return nads.Verdict{
		IsKnown: network.Knows(p.view.Definitions, key, nad.GetUID()), Refused: p.view.NADProblem(key),
		Unreachable: network.Unreachable(p.view.Definitions, key),
	}
}

// podsWith are the pods to which the network of a NAD was given. That a pod asks for a network keeps nothing.
func (p *process) podsWith(nad string) (owners []contract.Owner) {
	for _, pod := range p.view.PodsOf(nad) {
		given := pod.Annotations[contract.PodNetworksKey]
		if contract.Completed(pod) {
			continue
		}
		if slices.ContainsFunc(contract.NetworkKeys(given), func(key string) bool { return contract.NADOf(key) == nad }) {
			owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
		}
	}
	return owners
}

// mayUse says that a namespace may use the network of a NAD.
func (p *process) mayUse(nad, namespace string) bool { return p.view.Allows(nad, namespace) }
