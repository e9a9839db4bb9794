package gateway

import (
	"context"
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// observe reads the host; the Node object and the database come from replicas in memory. Of the probes it asks only
// before a takeover.
func (b *bridge) observe(ctx context.Context) (State, error) {
	var st State
	err := b.ObserveHost(&st.State)
	if err != nil {
		return st, fmt.Errorf("observing the host: %w", err)
	}
	if st.Saved, err = loadCheckpoint(b.cfg.Checkpoint); err != nil {
		return st, err
	}
	b.observeSwitch(&st)
	b.observePorts(&st)
	if err := b.ObserveNode(&st.State); err != nil {
		return st, err
	}
	if object := b.Deps.Node(); object != nil {
		st.NodeAddrs = node.InternalAddresses(object)
	}
	if b.deps.Eswitch != nil {
		if st.Eswitch, err = b.deps.Eswitch(); err != nil {
			return st, err
		}
	}
	st.follow()
	st.Boot, st.LinksChanged = b.cfg.Boot, b.linksChanged
	st.SwitchAbsent = b.deps.SwitchAbsent != nil && b.deps.SwitchAbsent()
	if st.Saved == nil || st.HasBooted() {
		st.Reachable = b.Reachable(ctx)
	}
	st.renew()
	return st, nil
}

func (b *bridge) observeSwitch(st *State) {
	for _, row := range b.Deps.DB.Table(vswitch.OpenvSwitchTable) {
		if ovs, ok := row.(*vswitch.OpenvSwitch); ok {
			st.Settings = ovs.ExternalIDs
			st.NoLengthCheck = ovs.OtherConfig["hw-offload"] == "true" || ovs.OtherConfig["userspace-tso-enable"] == "true"
		}
	}
	st.Uplinks = map[string]string{}
	for _, row := range b.Deps.DB.Table(vswitch.BridgeTable) {
		bridge, ok := row.(*vswitch.Bridge)
		if !ok {
			continue
		}
		st.Bridges = append(st.Bridges, bridge.Name)
		st.Uplinks[bridge.Name] = bridge.ExternalIDs[uplinkKey]
	}
	st.OFPorts = map[string]int{}
	for _, row := range b.Deps.DB.Table(vswitch.InterfaceTable) {
		iface, ok := row.(*vswitch.Interface)
		if ok && iface.Ofport != nil && *iface.Ofport > 0 && !ofPod(iface) {
			st.OFPorts[iface.Name] = *iface.Ofport
		}
	}
	b.ObserveRows(&st.State, gatewayOwner(b.cfg), node.ManagementOwner(b.cfg.Node))
}

func (b *bridge) observePorts(st *State) {
	st.Ports = map[string]string{}
	for bridge, members := range b.Deps.DB.Members(vswitch.BridgeTable, "ports") {
		for _, member := range members {
			if port, ok := member.(*vswitch.Port); ok {
				st.Ports[port.Name] = bridge
			}
		}
	}
}

func ofPod(iface *vswitch.Interface) bool {
	owner, err := contract.ParseOwner(iface.ExternalIDs[ovsdb.OwnerKey])
	return err == nil && owner.Kind == contract.KindPod
}
