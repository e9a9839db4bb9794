package dpu

import (
	"errors"
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// ClaimManagement is contract.ManagementPortKey of a host's Node with the VF that is to be its management port. Other
// networks' entries of the former value stay.
func ClaimManagement(v vf.Handle, former string) (string, error) {
	if v.Card == vf.CardOther {
		return "", notOfDPU(v)
	}
	return contract.SetNetwork(former, contract.DefaultNetwork, contract.ManagementFunction{
		Device: v.Device, PF: v.Function.PF, Number: v.Function.Number, PFMAC: contract.MAC(v.PFMAC),
	})
}

// Management gives the representor of the host's management port, nil when the
// host has none. Like a pod's, a claim that cannot be met is an error.
func (p *Ports) Management() (*vf.Representor, error) {
	representor, err := p.facts.management()
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

// ManagementLink gives a function that names the link of Management, "" for none. refused is called once for each reason.
func (p *Ports) ManagementLink(refused func(reason string)) func() (string, error) {
	last := ""
	return func() (string, error) {
		representor, err := p.Management()
		reason := ""
		if err != nil && !errors.Is(err, reconcile.ErrNotReady) {
			reason = err.Error()
		}
		if reason != "" && reason != last {
			refused(reason)
		}
		if last = reason; err != nil || representor == nil {
			return "", err
		}
		return representor.Name, nil
	}
}

// management finds the representor that the host claims, even if a pod has it.
func (f *facts) management() (*vf.Representor, error) {
	node := f.node()
	if node == nil || node.Annotations[contract.ManagementPortKey] == "" {
		return nil, nil
	}
	claimed, err := contract.ParseManagementFunction(node.Annotations[contract.ManagementPortKey], contract.DefaultNetwork)
	if err != nil || claimed == nil {
		return nil, err
	}
	number := contract.FunctionNumber(claimed.Number)
	found, err := f.representor(&contract.DPUConnection{PF: contract.FunctionNumber(claimed.PF), VF: &number, PFMAC: claimed.PFMAC, OfDPU: true}) // a setting names it
	if err != nil {
		return nil, fmt.Errorf("management port: %w", err)
	}
	return &found, nil
}
