package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// chassisWithin is the timeout of the connection to one endpoint of the Southbound database.
const chassisWithin = 5 * time.Second

// awaitChassis keeps a node's rows until the node's former chassis is removed from the Southbound database. Only these
// rows name the former chassis. The chassis loop removes the chassis, so a database that does not answer delays no other
// owner.
func (c *Zone) awaitChassis(owner contract.Owner) error {
	for _, chassis := range c.staleChassis(owner) {
		if _, removed := c.removed.LoadAndDelete(chassis); !removed {
			c.chassis.Mark(owner)
			return fmt.Errorf("%w: chassis %s is still in the Southbound database", reconcile.ErrNotReady, chassis)
		}
	}
	return nil
}

// staleChassis are the chassis in a node's rows that no node has now.
func (c *Zone) staleChassis(owner contract.Owner) []string {
	if owner.Kind != contract.KindNode || len(c.zone.Southbound) == 0 {
		return nil
	}
	return slices.DeleteFunc(chassisOf(c.db.Rows(owner.String())), func(chassis string) bool {
		return slices.ContainsFunc(c.view.Nodes(), func(n *corev1.Node) bool { return n.Annotations[contract.NodeChassisIDKey] == chassis })
	})
}

// dropChassis removes the stale chassis of deleted nodes, and of nodes with a new system-id, from the Southbound
// database. An ovn-controller removes its chassis only at an orderly exit. Every other node keeps a tunnel to a stale
// chassis.
func (c *Zone) dropChassis(ctx context.Context, owners []contract.Owner) (map[contract.Owner]error, error) {
	failed := map[contract.Owner]error{}
	for _, owner := range owners {
		for _, chassis := range c.staleChassis(owner) {
			cfg := ovsdb.Defaults(c.zone.Southbound, ovsdb.Schema{})
			cfg.TLS, cfg.ConnectTimeout = c.zone.SouthboundTLS, chassisWithin
			if err := ovsdb.Remove(ctx, cfg, "OVN_Southbound", chassis, "Chassis", "Chassis_Private"); err != nil {
				failed[owner] = fmt.Errorf("chassis of %s: %w", owner, err)
				break
			}
			c.log.Info("chassis removed", "owner", owner, "chassis", chassis)
			c.removed.Store(chassis, nil)
		}
		if failed[owner] == nil {
			c.rows.Mark(owner)
		}
	}
	return failed, nil
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

// chassisTaken is the other node that has the chassis which a node claims, or "". The chassis belongs to the node whose
// rows name it, else to the older node. So a node that claims another node's chassis changes no rows of that node.
func (c *Zone) chassisTaken(node *corev1.Node) string {
	id := node.Annotations[contract.NodeChassisIDKey]
	claims := c.view.NodesOfChassis(id)
	if id == "" || len(claims) < 2 {
		return ""
	}
	has := func(n *corev1.Node) int {
		if c.db != nil && slices.Contains(chassisOf(c.db.Rows(contract.NodeOwner(n.Name).String())), id) {
			return 0
		}
		return 1
	}
	first := slices.MinFunc(claims, func(a, b *corev1.Node) int {
		return cmp.Or(cmp.Compare(has(a), has(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if first.Name == node.Name {
		return ""
	}
	return first.Name
}

func (c *Zone) warnChassisTaken(owner contract.Owner) {
	node := c.view.Node(owner.Name)
	if owner.Kind != contract.KindNode || node == nil {
		return
	}
	if other := c.chassisTaken(node); other != "" {
		c.report.Warn(owner, "ChassisTaken", fmt.Sprintf("chassis id %s is that of node %s: this host needs a system-id of its own",
			node.Annotations[contract.NodeChassisIDKey], other))
	}
}
