package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// chassisWithin bounds what an endpoint that does not answer costs: the rows of
// others wait meanwhile.
const chassisWithin = 5 * time.Second

// dropChassis removes what a node that is gone, or that has another system-id
// now, has left in the Southbound database: its ovn-controller does so only when
// it ends in an orderly way, and until then every other node keeps a tunnel to
// it. It comes before the commit of rows, because the rows that are replaced
// are the only memory of which chassis the node was.
func (c *Controller) dropChassis(ctx context.Context, owner kube.Owner, rows []ovsdb.Row) error {
	if owner.Kind != kube.KindNode || len(c.cfg.Southbound) == 0 {
		return nil
	}
	wanted := chassisOf(rows)
	for _, chassis := range chassisOf(c.db.Rows(owner.String())) {
		lives := func(n *corev1.Node) bool { return n.Annotations[kube.NodeChassisIDKey] == chassis }
		if slices.Contains(wanted, chassis) || slices.ContainsFunc(c.view.Nodes(), lives) {
			continue
		}
		cfg := ovsdb.Defaults(c.cfg.Southbound, ovsdb.Schema{})
		cfg.TLS, cfg.ConnectTimeout = c.cfg.SouthboundTLS, chassisWithin
		if err := ovsdb.Remove(ctx, cfg, "OVN_Southbound", chassis, "Chassis", "Chassis_Private"); err != nil {
			return fmt.Errorf("chassis of %s: %w", owner, err)
		}
		c.log.Info("chassis removed", "owner", owner, "chassis", chassis)
	}
	return nil
}

// chassisOf gives the chassis that rows of a node name.
func chassisOf(rows []ovsdb.Row) []string {
	var names []string
	for _, row := range rows {
		if model, ok := row.Model.(*nb.GatewayChassis); ok {
			names = append(names, model.ChassisName)
		}
	}
	return names
}
