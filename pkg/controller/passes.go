package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// pass is one commit: its owners, their rows and errors.
type pass struct {
	failed map[contract.Owner]error // of every owner, nil where rows were built
	past   map[contract.Owner][]types.UID
	byName map[string]contract.Owner
	wants  []ovsdb.Want
}

// prepare builds the rows of owners. After longBuild, if ports of pods wait, the remaining owners are put off.
func (c *Zone) prepare(owners []contract.Owner) *pass {
	p := &pass{failed: map[contract.Owner]error{}, past: map[contract.Owner][]types.UID{}, byName: map[string]contract.Owner{}}
	began := time.Now()
	for i, owner := range c.inOrder(owners) {
		if i > 0 && time.Since(began) > longBuild && !c.isUrgent(owner) && c.rows.UrgentWaiting() {
			p.failed[owner] = fmt.Errorf("%w: ports of pods wait", reconcile.ErrPutOff)
			continue
		}
		c.add(p, owner)
	}
	c.followSizes(p)
	return p
}

// add builds the rows of one owner.
func (c *Zone) add(p *pass, owner contract.Owner) {
	// Holders are read before the rows are built. So a commit of rows without a former pod does not release a pod
	// that comes meanwhile.
	holders := c.addresses.Holders(owner)
	rows, err := c.build(owner)
	if waits := c.awaitChassis(owner); err == nil && waits != nil {
		p.failed[owner] = waits
		return
	}
	c.warnChassisTaken(owner)
	holder := madeFor(rows)
	if p.failed[owner] = err; err != nil && len(rows) == 0 && !errors.Is(err, ovn.ErrRefused) {
		if holder = c.replaces(owner, holders); holder == "" {
			return
		}
	}
	p.byName[owner.String()] = owner
	p.past[owner] = slices.DeleteFunc(holders, func(uid types.UID) bool { return uid != "" && uid == holder })
	p.wants = append(p.wants, ovsdb.Want{Owner: owner.String(), Rows: rows})
}

// replaces is the UID of a pod without a port while an earlier pod of its name, which is gone, holds something; "" otherwise.
// The earlier pod's rows do not wait for those of the pod, which may ask for the same address.
func (c *Zone) replaces(owner contract.Owner, holders []types.UID) types.UID {
	pod := c.view.Pod(owner.Namespace, owner.Name)
	if pod == nil || !c.portComesOrGoes(owner) || !slices.ContainsFunc(holders, func(uid types.UID) bool { return uid != pod.UID }) {
		return ""
	}
	return pod.UID
}

// reconcileRows builds and commits the rows of a batch of owners.
func (c *Zone) reconcileRows(ctx context.Context, owners []contract.Owner) (map[contract.Owner]error, error) {
	p := c.prepare(owners)
	failed, byName := p.failed, p.byName
	result, err := c.commitClaimed(ctx, p.wants)
	if errors.Is(err, ovsdb.ErrDisconnected) {
		// A reconnect marks all owners.
		for _, owner := range byName {
			failed[owner] = fmt.Errorf("%w: %w", reconcile.ErrNotReady, err)
		}
		return failed, nil
	}
	if err != nil {
		return nil, err
	}
	for name, err := range result.Failed {
		if errors.Is(err, ovsdb.ErrNoParent) {
			err = fmt.Errorf("%w: %w", reconcile.ErrNotReady, err)
		}
		failed[byName[name]] = err
	}
	c.committed(result, byName, p.past)
	for _, owner := range byName {
		c.decided(owner, failed[owner])
	}
	return failed, nil
}

// committed follows up a commit. It marks the owners that depend on inserted or deleted rows, and it releases the
// addresses of deleted rows.
func (c *Zone) committed(result ovsdb.Result, byName map[string]contract.Owner, past map[contract.Owner][]types.UID) {
	changed := slices.Clone(result.Held)
	for _, change := range result.Changes {
		if change.Op != "update" {
			changed = append(changed, change.Owner)
		}
	}
	slices.Sort(changed)
	for _, name := range slices.Compact(changed) {
		c.rows.Mark(ovn.Dependents(c.view, byName[name])...)
	}
	for name, owner := range byName {
		c.warnAuthor(owner)
		switch {
		case result.Failed[name] != nil:
		case owner.Kind == contract.KindNode && c.view.Node(owner.Name) == nil:
			c.nodeGone(owner)
		case owner.Kind == contract.KindNetwork && owner.Network != "":
			c.addresses.Forget(func(name string) bool { return c.view.Network(name) != nil })
		default:
			c.markAll(c.addresses.Release(owner, past[owner]...)...)
		}
	}
}

// madeFor is the UID of the pod for which rows were built, "" for rows of other kinds.
func madeFor(rows []ovsdb.Row) types.UID {
	for _, row := range rows {
		if port, ok := row.Model.(*nb.LogicalSwitchPort); ok {
			return types.UID(port.Options["iface-id-ver"])
		}
	}
	return ""
}
