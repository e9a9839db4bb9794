package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// secondLook is the time until a resync that the mass-delete guard paused runs again.
const secondLook = time.Minute

// facts is the builders' view. An address in an annotation is a fact only if this process has allocated the address.
type facts struct {
	*kube.ClusterView
	of *Zone
}

func (f facts) Zone() contract.Zone { return f.of.cfg.Plan.Zone() }

func (f facts) NodeSubnets(node *corev1.Node, network string) []netip.Prefix {
	return f.of.subnets.Recorded(node, network)
}

func (f facts) PodWith(addr netip.Addr) *corev1.Pod {
	owner, ok := ipam.PodWith(f.of.addresses, addr)
	if !ok {
		return nil
	}
	return f.Pod(owner.Namespace, owner.Name)
}

func (f facts) ServiceValues() *lb.Values { return f.of.values }

func (f facts) Node(name string) *corev1.Node {
	node := f.ClusterView.Node(name)
	if node == nil {
		return nil
	}
	recorded, taken := f.of.cfg.Plan.SecondaryOnly || f.of.subnets.Recorded(node, "") != nil, f.of.chassisTaken(node) != ""
	if recorded && !taken {
		return node
	}
	without := node.DeepCopy()
	if !recorded {
		delete(without.Annotations, contract.NodeSubnetsKey)
		delete(without.Annotations, contract.NodeIDKey)
	}
	if taken {
		delete(without.Annotations, contract.NodeChassisIDKey)
	}
	return without
}

func (f facts) Allocated(pod *corev1.Pod, network string) *contract.PodNetwork {
	if value := f.of.addresses.Allocated(pod, network); value != nil {
		return value
	}
	return f.of.addresses.Adopt(pod, f.ClusterView.Node(pod.Spec.NodeName), network)
}

func (f facts) Attached(pod *corev1.Pod, network string) (values []*contract.PodNetwork) {
	for _, key := range contract.AttachmentKeys(pod) {
		value := f.Allocated(pod, key)
		if on := f.of.addresses.NetworkOf(pod, key); value != nil && on != nil && on.Name == network {
			values = append(values, value)
		}
	}
	return values
}

// mark sends owners of the zone to their loops. A standby marks none: the first batch of a new leader has all owners.
func (c *Zone) mark(owners ...contract.Owner) {
	c.values.Changed(owners...)
	if !c.leading.Load() {
		return
	}
	for _, owner := range owners {
		if owner.Kind == contract.KindNAD || !c.has(owner) {
			continue
		}
		switch owner.Kind {
		case contract.KindPod:
			c.pods.Mark(owner.On("")) // all networks of a pod are one decision
			c.rows.Mark(c.neighbors(owner)...)
		case contract.KindIPAMClaim, contract.KindNamespaceSubnet:
			c.pods.Mark(owner)
			continue
		}
		c.rows.Mark(owner)
	}
}

// has says whether the zone has the rows of an owner: not those of other zones' nodes and of pods there.
func (c *Zone) has(owner contract.Owner) bool {
	if c.zone.Local == nil {
		return true
	}
	switch owner.Kind {
	case contract.KindNode, contract.KindNodeServices:
		return c.zone.Local(owner.Name)
	case contract.KindPortMirror:
		return owner.Namespace == "" || c.zone.Local(owner.Namespace)
	case contract.KindPod:
		if pod := c.view.Pod(owner.Namespace, owner.Name); pod != nil {
			return c.zone.Local(pod.Spec.NodeName)
		}
		return c.hasRows(owner) || len(c.addresses.Holders(owner)) > 0 // of a pod that is deleted
	}
	return true
}

// hasRows says whether the zone's database has rows of an owner.
func (c *Zone) hasRows(owner contract.Owner) bool {
	db := c.opened.Load()
	return db != nil && len(db.Rows(owner.String())) > 0
}

// hasNode is hasRows for a node on all networks.
func (c *Zone) hasNode(owner contract.Owner) bool {
	return c.hasRows(owner) || slices.ContainsFunc(c.view.Networks(), func(n contract.Network) bool { return c.hasRows(owner.On(n.Name)) })
}

// networkOf is the network of an owner, nil when that is gone: then its rows go.
func (c *Zone) networkOf(owner contract.Owner) *contract.Network {
	if owner.Network == "" {
		if c.cfg.Plan.SecondaryOnly && !ovn.IsShared(owner) {
			return nil
		}
		return &c.network
	}
	if owner.Kind != contract.KindPod {
		return c.view.Network(owner.Network)
	}
	pod := c.view.Pod(owner.Namespace, owner.Name)
	if pod == nil {
		return nil
	}
	if has := c.addresses.NetworkOf(pod, owner.Network); has != nil {
		if !c.view.Joins(pod, owner.Network, has.Name) {
			return nil // the name is another owner's network now
		}
		return c.view.Network(has.Name)
	}
	return c.view.NetworkOfNAD(contract.NADOf(owner.Network))
}

// build gives the rows of an owner.
func (c *Zone) build(owner contract.Owner) ([]ovsdb.Row, error) {
	network := c.networkOf(owner)
	if network == nil {
		return nil, nil
	}
	return ovn.Build(facts{c.view, c}, *network, owner)
}

// allocatePods records addresses.
func (c *Zone) allocatePods(ctx context.Context, owners []contract.Owner) (map[contract.Owner]error, error) {
	failed := map[contract.Owner]error{}
	for _, owner := range owners {
		switch owner.Kind {
		case contract.KindIPAMClaim:
			c.followClaim(owner)
			continue
		case contract.KindNamespaceSubnet:
			failed[owner] = c.forgetGone(owner, c.followSubnet(ctx, owner))
			continue
		}
		pod := c.view.Pod(owner.Namespace, owner.Name)
		if pod == nil {
			c.warnMissing(owner, nil)
			c.warnBeyond(owner, nil)
			gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}}
			decision, _ := c.addresses.Pod(gone, nil) // who wants nothing gets no error
			c.markAll(decision.Retry...)
			if len(c.addresses.Holders(owner)) > 0 { // its annotation could not be written before it went
				c.rows.Mark(owner)
			}
			continue
		}
		if c.view.AwaitsNamespace(pod) {
			failed[owner] = fmt.Errorf("%w: namespace %s of the pod is not known", reconcile.ErrNotReady, pod.Namespace)
			continue
		}
		decision, err := c.addresses.Pod(pod, c.view.Node(pod.Spec.NodeName))
		c.markReplaced(owner, pod)
		c.warn(owner, decision)
		c.markAll(decision.Retry...)
		c.warnNoSubnet(owner, pod.Spec.NodeName, err)
		c.warnBeyond(owner, err)
		missing := c.view.MissingNetworks(pod)
		c.warnMissing(owner, missing)
		refused := c.refuseClaims(ctx, pod, decision, cause(missing, err))
		if missing != nil && err == nil {
			missing = fmt.Errorf("%w: %w", reconcile.ErrNotReady, missing)
		}
		err = errors.Join(err, missing, refused, c.record(ctx, pod, decision))
		failed[owner] = c.forgetGone(owner, err)
	}
	return failed, nil
}

// markReplaced marks the attachments of a pod on which an earlier pod of its name holds something. That may be decided from
// the earlier pod after its rows are deleted.
func (c *Zone) markReplaced(owner contract.Owner, pod *corev1.Pod) {
	for _, attachment := range append(kube.AttachmentOwners(pod), owner) {
		if c.replaces(attachment, c.addresses.Holders(attachment)) != "" {
			c.rows.Mark(attachment)
		}
	}
}

// rowsChanged marks the owners whose rows another client has changed, and the owners whose missing rows now exist.
func (c *Zone) rowsChanged(names []string) {
	for _, name := range names {
		if owner, err := contract.ParseOwner(name); err == nil {
			c.rows.Mark(owner)
		}
	}
}

// everything is all owners of the API, of the allocator and of the database. The mass-delete guard leaves out the stale
// owners, which only the database has, when they are too many.
func (c *Zone) everything() []contract.Owner {
	c.values.Reset()
	known := map[contract.Owner]bool{}
	for _, kind := range ovn.Kinds() {
		for _, owner := range kind.Owners(c.view) {
			if c.has(owner) {
				known[owner] = true
			}
		}
	}
	for _, pod := range c.view.Pods() {
		for _, owner := range c.neighbors(contract.PodOwner(pod.Namespace, pod.Name)) {
			known[owner] = true
		}
	}
	present := c.db.Owners()
	stale := map[contract.Owner]bool{}
	for _, name := range present {
		if owner, err := contract.ParseOwner(name); err == nil && !known[owner] {
			stale[owner] = true
		}
	}
	if reconcile.Mass(len(stale), len(present)) {
		c.addressConflicts(known, stale)
	}
	if c.guard.Allow(c.db.Generation(), len(stale), len(present)) {
		maps.Copy(known, stale)
		clear(stale)
	} else {
		c.log.Error("mass-delete guard: this resync deletes no stale rows, the next one does", "ops", len(stale), "of", len(present), "after", secondLook)
		time.AfterFunc(secondLook, c.rows.MarkAll)
	}
	for _, owner := range c.addresses.Owners() {
		known[owner] = known[owner] || !stale[owner] && c.has(owner)
	}
	maps.DeleteFunc(known, func(_ contract.Owner, wanted bool) bool { return !wanted })
	return slices.SortedFunc(maps.Keys(known), func(a, b contract.Owner) int { return cmp.Compare(ovn.Rank(a), ovn.Rank(b)) })
}

// addressConflicts moves stale pods whose address another pod has from stale to known. After a restore from a backup
// these pods are certainly gone, and their rows conflict with those of the other pods.
func (c *Zone) addressConflicts(known, stale map[contract.Owner]bool) {
	rows, err := held(c.db)
	if err != nil {
		return // a reconnect marks all owners
	}
	for _, row := range rows {
		if stale[row.Owner] && c.addresses.HeldByAnother(row) {
			delete(stale, row.Owner)
			known[row.Owner] = true
		}
	}
}

// held reads the addresses in the rows of pods. It fails if the replica is not complete.
func held(db *ovsdb.DB) ([]ipam.Held, error) {
	var out []ipam.Held
	generation := db.Generation()
	for _, model := range db.Table(nb.LogicalSwitchPortTable) {
		port := model.(*nb.LogicalSwitchPort)
		owner, err := contract.ParseOwner(port.ExternalIDs[ovsdb.OwnerKey])
		if err != nil || owner.Kind != contract.KindPod {
			continue
		}
		row := ipam.Held{Owner: owner, Network: port.ExternalIDs[contract.NetworkLabel], UID: types.UID(port.Options["iface-id-ver"])}
		for _, entry := range port.Addresses {
			for _, word := range strings.Fields(entry) {
				if addr, err := netip.ParseAddr(word); err == nil {
					row.Addrs = append(row.Addrs, addr)
				} else {
					_ = row.MAC.UnmarshalText([]byte(word)) // the only other word
				}
			}
		}
		out = append(out, row)
	}
	if generation == 0 || generation != db.Generation() {
		return nil, fmt.Errorf("reading the addresses in use: %w", ovsdb.ErrDisconnected)
	}
	return out, nil
}
