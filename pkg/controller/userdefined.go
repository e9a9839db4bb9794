package controller

import (
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network/nads"
)

// newNADs makes the loop of the objects that stand for networks.
func newNADs(p *process) (*nads.NADs, error) {
	return nads.New(nads.Deps{
		Client: p.cfg.Dynamic, Pods: p.podsWith, Allows: p.mayUse, Problem: p.view.NADProblem, Default: !p.cfg.Native && !p.cfg.Plan.SecondaryOnly,
		Event: p.report.Record, Logger: p.log, Registerer: p.cfg.Registerer,
	})
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
