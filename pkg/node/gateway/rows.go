package gateway

import (
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
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

// gatewayRows gives the bridge, with the NIC as its port when that is due, and the
// representor of the VF that has the addresses or is to have them. OVS
// keeps MAC and MTU of its own interfaces: it makes them with these at each start.
func gatewayRows(cfg Config, c Checkpoint, uplink bool) node.Commit {
	standalone, mtu := vswitch.BridgeFailModeStandalone, c.MTU
	rows := []ovsdb.Row{{
		ID: c.Bridge,
		Model: &vswitch.Bridge{
			Name: c.Bridge, DatapathType: cfg.Datapath, FailMode: &standalone,
			OtherConfig: map[string]string{"hwaddr": c.MAC.String()},
		},
		Parents: []ovsdb.Parent{{Table: vswitch.OpenvSwitchTable, Column: "bridges"}},
	}}
	rows = append(rows, node.PortRows(c.Bridge, &vswitch.Interface{Name: c.Bridge, Type: "internal", MTURequest: &mtu})...)
	if uplink {
		rows = append(rows, node.PortRows(c.Bridge, &vswitch.Interface{Name: c.Interface})...)
	}
	if c.VF != nil {
		rows = append(rows, node.PortRows(c.Bridge, &vswitch.Interface{Name: c.VF.Representor})...)
	}
	return node.Commit{Owner: gatewayOwner(cfg), Rows: rows}
}
