package node

import (
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// The rows of the node have several owners: those of the management port have to
// wait for ovn-controller's bridge and may vanish with it, those of the second
// external bridge come and go with its setting.

func gatewayOwner(cfg Config) contract.Owner {
	if cfg.second {
		return contract.Owner{Kind: "SecondGateway", Name: cfg.Node}
	}
	return contract.NodeOwner(cfg.Node)
}

func managementOwner(cfg Config) contract.Owner {
	return contract.Owner{Kind: "ManagementPort", Name: cfg.Node}
}

// gatewayRows gives the bridge, with the NIC as its port when that is due, and the
// representor of the VF that has the addresses or is to have them. OVS
// keeps MAC and MTU of its own interfaces: it makes them with these at each start.
func gatewayRows(cfg Config, c Checkpoint, uplink bool) commit {
	standalone, mtu := vswitch.BridgeFailModeStandalone, c.MTU
	rows := []ovsdb.Row{{
		ID: c.Bridge,
		Model: &vswitch.Bridge{
			Name: c.Bridge, DatapathType: cfg.Datapath, FailMode: &standalone,
			OtherConfig: map[string]string{"hwaddr": c.MAC.String()},
		},
		Parents: []ovsdb.Parent{{Table: vswitch.OpenvSwitchTable, Column: "bridges"}},
	}}
	rows = append(rows, port(c.Bridge, &vswitch.Interface{Name: c.Bridge, Type: "internal", MTURequest: &mtu})...)
	if uplink {
		rows = append(rows, port(c.Bridge, &vswitch.Interface{Name: c.Interface})...)
	}
	if c.VF != nil {
		rows = append(rows, port(c.Bridge, &vswitch.Interface{Name: c.VF.Representor})...)
	}
	return commit{gatewayOwner(cfg), rows}
}

func managementRows(cfg Config, s State, mtu int) commit {
	iface := &vswitch.Interface{
		Name: portName(s.Function), ExternalIDs: map[string]string{"iface-id": cfg.Network.ManagementPort(cfg.Node)},
	}
	if s.Function == nil {
		mac := managementMAC(s.Subnets).String()
		iface.Type, iface.MAC, iface.MTURequest = "internal", &mac, &mtu
	}
	return commit{managementOwner(cfg), port(contract.IntegrationBridge, iface)}
}

// port gives a Port with its one Interface.
func port(bridge string, iface *vswitch.Interface) []ovsdb.Row {
	return []ovsdb.Row{
		{
			ID:      iface.Name,
			Model:   &vswitch.Port{Name: iface.Name},
			Parents: []ovsdb.Parent{{Table: vswitch.BridgeTable, Name: bridge, Column: "ports"}},
		},
		{
			ID:      iface.Name,
			Model:   iface,
			Parents: []ovsdb.Parent{{Table: vswitch.PortTable, Name: iface.Name, Column: "interfaces"}},
		},
	}
}
