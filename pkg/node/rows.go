package node

import (
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// ManagementOwner owns the rows of a node's management port.
func ManagementOwner(node string) contract.Owner {
	return contract.Owner{Kind: "ManagementPort", Name: node}
}

// PortRows gives a Port with its one Interface.
func PortRows(bridge string, iface *vswitch.Interface) []ovsdb.Row {
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
