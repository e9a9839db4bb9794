package vswitch

import (
	_ "embed"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// Definition is the part of OVS' Open_vSwitch schema (3.5) that we use, in the
// form in which ovsdb-server reads it.
//
//go:embed vswitch.ovsschema
var Definition []byte

// ReplicaSchema is the local Open_vSwitch database as the engine needs to know
// it: ovs-vswitchd writes what it observes, and ovn-controller keys of its own
// (ovn-installed, ct-zone-*).
func ReplicaSchema() (ovsdb.Schema, error) {
	model, err := FullDatabaseModel()
	return ovsdb.Schema{
		Model: model,
		Probe: OpenvSwitchTable,
		Parents: map[string][]string{
			OpenvSwitchTable: {"bridges"},
			BridgeTable:      {"ports"},
			PortTable:        {"interfaces"},
		},
		Unmanaged: map[string][]string{
			InterfaceTable: {"mac_in_use", "mtu", "ofport", "admin_state", "link_state", "error"},
		},
		Shared: map[string][]string{
			BridgeTable:    {"external_ids", "other_config"},
			InterfaceTable: {"external_ids"},
		},
	}, err
}

// Transient gives the other_config of a Port that OVS forgets when the host boots.
//
// Format: ovs-ctl with --delete-transient-ports, and ovn-daemon.
func Transient() map[string]string { return map[string]string{"transient": "true"} }
