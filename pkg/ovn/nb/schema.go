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
	}, err
}

// gatewayPortPrefix begins the names of the gateway routers' ports to the wire,
// which the name of the node ends.
const gatewayPortPrefix = "rtoe-GR_"

// bindingOwner: the table has no external_ids, and all bindings of ours are those
// of a node's gateway router.
func bindingOwner(model any) (owner, id string) {
	binding, ok := model.(*StaticMACBinding)
	if !ok {
		return "", ""
	}
	node, ours := strings.CutPrefix(binding.LogicalPort, gatewayPortPrefix)
	if !ours {
		return "", ""
	}
	return "Node/" + node, binding.LogicalPort + " " + binding.IP
}
