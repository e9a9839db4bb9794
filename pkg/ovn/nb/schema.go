package nb

import (
	_ "embed"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

//go:generate go run ../../../hack/modelgen -root ../../..

// Definition is the part of OVN's Northbound schema (25.03) that we use, in the
// form in which ovsdb-server reads it.
//
//go:embed nb.ovsschema
var Definition []byte

// ReplicaSchema is the Northbound database as the engine needs to know it.
func ReplicaSchema() (ovsdb.Schema, error) {
	model, err := FullDatabaseModel()
	return ovsdb.Schema{
		Model: model,
		Probe: NBGlobalTable,
		Parents: map[string][]string{
			LogicalSwitchTable:     {"ports", "acls", "qos_rules", "load_balancer"},
			LogicalRouterTable:     {"ports", "static_routes", "policies", "nat", "load_balancer"},
			LogicalRouterPortTable: {"gateway_chassis"},
			PortGroupTable:         {"ports", "acls"},
			LoadBalancerGroupTable: {"load_balancer"},
			MeterTable:             {"bands"},
		},
		References: map[string][]string{
			LogicalSwitchTable: {"load_balancer_group"},
			LogicalRouterTable: {"load_balancer_group"},
		},
		Unmanaged: map[string][]string{
			// northd reports the state of a port and its dynamic address, and
			// copies a requested tag.
			LogicalSwitchPortTable: {"up", "dynamic_addresses", "tag"},
			BFDTable:               {"status"},
		},
		OwnerOf:  map[string]func(any) (string, string){StaticMACBindingTable: bindingOwner},
		Elements: map[string][]string{AddressSetTable: {"addresses"}},
		Used:     []string{AddressSetTable},
	}, err
}

// bindingOwner: the table has no external_ids, and all bindings of ours are those of a
// node's gateway router, whose ports to the wire and to the cluster the name of the
// node ends.
func bindingOwner(model any) (owner, id string) {
	binding, ok := model.(*StaticMACBinding)
	if !ok {
		return "", ""
	}
	side, node, _ := strings.Cut(binding.LogicalPort, "-GR_")
	if side != "rtoe" && side != "rtoj" {
		return "", ""
	}
	return "Node/" + node, binding.LogicalPort + " " + binding.IP
}
