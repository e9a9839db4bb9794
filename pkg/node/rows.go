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

// PortRows gives a Port with its one Interface. A device of the host is a transient port, which OVS forgets when the
// host boots (ovn-daemon, or ovs-ctl): without the agent OVS would take the device, and the host could not use it.
func PortRows(bridge string, iface *vswitch.Interface) []ovsdb.Row {
	port := &vswitch.Port{Name: iface.Name}
	if iface.Type == "" {
		port.OtherConfig = vswitch.Transient()
	}
	return []ovsdb.Row{
		{
			ID:      iface.Name,
			Model:   port,
			Parents: []ovsdb.Parent{{Table: vswitch.BridgeTable, Name: bridge, Column: "ports"}},
		},
		{
			ID:      iface.Name,
			Model:   iface,
			Parents: []ovsdb.Parent{{Table: vswitch.PortTable, Name: iface.Name, Column: "interfaces"}},
		},
	}
}
