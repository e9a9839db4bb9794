package agent

import (
	"path/filepath"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/setup"
)

// policies makes what sets NICs up as OffloadPolicies say.
func (v *podVFs) policies(changed func(), ovs setup.OVSControl, busy setup.Busy) (*setup.Policies, *setup.Runner, error) {
	var runner *setup.Runner
	policies, err := setup.NewPolicies(v.kinds, v.Logger, func() { runner.Mark() })
	if err != nil {
		return nil, nil, err
	}
	runner, err = setup.New(filepath.Join(filepath.Dir(v.Node.Checkpoint), "offload-policy.json"), v.Node.Boot, setup.Deps{
		Policies: policies.List, NodeObject: v.node,
		Inventory: v.inventory.Read, InUse: v.users, Hold: v.functions.Ledger.Hold,
		Busy: busy, NIC: setup.NewKernel(v.kernel, sysfs), OVS: ovs,
		Warn: func(message string) {
			v.report.Warn(contract.NodeOwner(v.Node.Node), "OffloadPolicyNotApplied", message)
		},
		Changed: func() { changed(); v.offer() }, Logger: v.Logger, Registerer: v.metrics,
	})
	if err != nil {
		return nil, nil, err
	}
	v.own.reserved = runner.Reserved
	v.devices.OnChange(func(vf.Inventory) { runner.Mark() })
	v.onNode(runner.Mark)
	return policies, runner, nil
}
