package controller

import (
	"cmp"
	"context"
	"strconv"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network"
)

// allocateNetworks records the name and the id of a network on its NADs, and says with an Event what is wrong with a
// NAD.
func (c *Cluster) allocateNetworks(ctx context.Context, owners []contract.Owner) (map[contract.Owner]error, error) {
	failed := map[contract.Owner]error{}
	for _, owner := range owners {
		nad := c.view.NAD(owner.Namespace, owner.Name)
		if nad == nil {
			c.problems.Delete(owner)
			continue
		}
		key := owner.Namespace + "/" + owner.Name
		c.warnNAD(owner, cmp.Or(c.view.NADProblem(key), c.view.SharedNAD(key), network.Warning(c.view.Definitions, key)))
		network := c.view.NetworkOfNAD(key)
		if network == nil {
			continue
		}
		c.lacking.Delete(network.Name)
		want := map[string]string{contract.NetworkNameKey: network.Name}
		if id := c.view.NetworkID(network.Name); id != 0 {
			want[contract.NetworkIDKey] = strconv.Itoa(id)
		}
		failed[owner] = c.forgetGone(owner, c.networkWriter.Annotate(ctx, nad, want))
	}
	return failed, nil
}

// warnNAD reports a problem once.
func (c *Cluster) warnNAD(owner contract.Owner, problem error) {
	if problem == nil {
		c.problems.Delete(owner)
		return
	}
	text := noted(problem)
	if before, _ := c.problems.Swap(owner, text); before != text {
		c.report.Warn(owner, "InvalidConfig", problem.Error())
	}
}
