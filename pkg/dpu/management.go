package dpu

import (
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// ClaimManagement is contract.ManagementPortKey of a host's Node with the VF that is to be its management port. Other
// networks' entries of the former value stay.
func ClaimManagement(v vf.Handle, former string) (string, error) {
	return contract.SetNetwork(former, contract.DefaultNetwork, contract.ManagementFunction{
		Device: v.Device, PF: v.Function.PF, Number: v.Function.Number, PFMAC: contract.MAC(v.PFMAC),
	})
}

// Management gives the representor of the host's management port, nil when the
// host has none. Like a pod's, a claim that cannot be met is an error.
func (p *Ports) Management() (*vf.Representor, error) {
	representor, err := p.known.management()
	if err != nil || representor == nil {
		return nil, err
	}
	plugged, err := p.deps.Plugger.Plugged()
	if err != nil {
		return nil, err
	}
	for _, port := range plugged {
		if port.Link == representor.Name {
			return nil, fmt.Errorf("management port: function %s is that of pod %s/%s", representor.Function, port.Pod.Namespace, port.Pod.Name)
		}
	}
	return representor, nil
}

// management finds what the host claims, whoever may have it.
func (k *known) management() (*vf.Representor, error) {
	node := k.node()
	if node == nil || node.Annotations[contract.ManagementPortKey] == "" {
		return nil, nil
	}
	f, err := contract.ParseManagementFunction(node.Annotations[contract.ManagementPortKey], contract.DefaultNetwork)
	if err != nil || f == nil {
		return nil, err
	}
	number := contract.FunctionNumber(f.Number)
	found, err := k.representor(&contract.DPUConnection{PF: contract.FunctionNumber(f.PF), VF: &number, PFMAC: f.PFMAC})
	if err != nil {
		return nil, fmt.Errorf("management port: %w", err)
	}
	return &found, nil
}
