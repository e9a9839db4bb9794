package ovn

import (
	"maps"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// ReplicaSchema is the Northbound database as the engine needs to know it, with
// the owner of the groups of load balancers, which cannot name it themselves.
func ReplicaSchema() (ovsdb.Schema, error) {
	schema, err := nb.ReplicaSchema()
	owners := map[string]func(any) (string, string){nb.LoadBalancerGroupTable: groupOwner}
	maps.Copy(owners, schema.OwnerOf)
	schema.OwnerOf = owners
	return schema, err
}

func groupOwner(model any) (owner, id string) {
	group, ok := model.(*nb.LoadBalancerGroup)
	if !ok {
		return "", ""
	}
	network, ok := contract.NetworkOfGroup(group.Name)
	if !ok {
		return "", ""
	}
	return contract.NetworkOwner().On(network.Name).String(), group.Name
}
