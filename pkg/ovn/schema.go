package ovn

import (
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// ReplicaSchema is the Northbound database as the engine needs to know it, with
// the owners of rows whose tables have no place to name them.
func ReplicaSchema() (ovsdb.Schema, error) {
	schema, err := nb.ReplicaSchema()
	owner := kube.NetworkOwner().String()
	schema.Named = map[string]map[string]string{
		nb.LoadBalancerGroupTable: {ClusterGroup: owner, ClusterSwitchGroup: owner, ClusterRouterGroup: owner},
	}
	return schema, err
}
