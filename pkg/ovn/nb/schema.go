package nb

import (
	_ "embed"
	"slices"
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
			LogicalSwitchTable:     {"load_balancer_group"},
			LogicalSwitchPortTable: {"mirror_rules", "dhcpv4_options", "dhcpv6_options"},
			LogicalRouterTable:     {"load_balancer_group"},
			NATTable:               {"gateway_port"},
		},
		Unmanaged: map[string][]string{
			// northd reports the state of a port and its dynamic address, and
			// copies a requested tag.
			LogicalSwitchPortTable: {"up", "dynamic_addresses", "tag"},
			BFDTable:               {"status"},
		},
		OwnerOf:  map[string]func(any) (string, string){StaticMACBindingTable: bindingOwner},
		Elements: map[string][]string{AddressSetTable: {"addresses"}},
		Used:     []string{AddressSetTable, MirrorTable, DHCPOptionsTable},
	}, err
}

// bindingOwner: the table has no external_ids. All bindings of ours are on ports of a node's gateway router, whose names
// end with the node's, on the ports of primary networks' routers to that router, rtot-<network>/<node>, and on the ports of the
// cluster router to the nodes' switches, rtos-<node>.
func bindingOwner(model any) (owner, id string) {
	binding, ok := model.(*StaticMACBinding)
	if !ok {
		return "", ""
	}
	id = binding.LogicalPort + " " + binding.IP
	side, node, _ := strings.Cut(binding.LogicalPort, "-GR_")
	if slices.Contains([]string{"rtoe", "rtoj", "rtot"}, side) {
		return "Node/" + node, id
	}
	side, port, _ := strings.Cut(binding.LogicalPort, "-")
	if network, node, ok := strings.Cut(port, "/"); ok && side == "rtot" {
		return "Node/" + node + "@" + network, id
	}
	if side == "rtos" {
		return "Neighbor/" + port + "/" + binding.IP, id
	}
	return "", ""
}
