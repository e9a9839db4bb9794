package ipam

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// ErrExhausted is wrapped when no subnet, id or address is left. What comes free
// later is announced by Release.
var ErrExhausted = errors.New("exhausted")

// Decision is what an object's annotations must say.
type Decision struct {
	// Annotations to write; empty when the object says the same already.
	Annotations map[string]string
	// Warning says what was wrong with the annotation that was there; mostly "".
	Warning string
}

// Held is a pod's row in the Northbound database: the addresses are in use.
type Held struct {
	Owner contract.Owner
	// UID of the pod that the row was made for; "" when the row does not say.
	UID   types.UID
	Addrs []netip.Addr
}

// Addresses has the addresses of pods, on nodes whose subnets Subnets has. Its methods may be called at
// once from several goroutines.
type Addresses struct {
	plans   plans
	subnets *Subnets

	mu    sync.Mutex
	pools map[string]*pods // by network
	// waiting has the node of each pod for which no address was left.
	waiting map[contract.Owner]string
}

// NewAddresses is for the networks that subnets has; call Rebuild before anything else.
func NewAddresses(subnets *Subnets) *Addresses {
	a := &Addresses{plans: subnets.plans, subnets: subnets}
	a.clear()
	return a
}

func (a *Addresses) clear() {
	a.pools, a.waiting = map[string]*pods{}, map[contract.Owner]string{}
	for name, plan := range a.plans.byName {
		a.pools[name] = newPods(name, plan)
	}
}

// Rebuild forgets everything and starts from what is recorded: the rows, which are in use, and the
// annotations of pods, oldest first. Where two claim the same, the later one gets a new decision from
// Pod. An annotation that is not valid is left to Pod as well.
// The rows may be an older copy: that of a pod which is gone is not in use where
// the status of another pod says that this one runs with the address.
func (a *Addresses) Rebuild(pods []*corev1.Pod, rows []Held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clear()
	alive := newLiving(pods)
	for _, row := range slices.SortedFunc(slices.Values(rows), func(x, y Held) int {
		return cmp.Or(cmp.Compare(x.Owner.Namespace, y.Owner.Namespace), cmp.Compare(x.Owner.Name, y.Owner.Name))
	}) {
		if pool := a.pools[row.Owner.Network]; pool != nil {
			pool.adoptRow(row, alive)
		}
	}
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(x, y *corev1.Pod) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	}) {
		for _, name := range a.plans.networksOf(pod) {
			if subnets := a.subnets.decided(pod.Spec.NodeName, name); len(subnets) > 0 {
				a.pools[name].restore(pod, a.pools[name].blocksOf(pod.Spec.NodeName, subnets))
			}
		}
	}
}

// Pod decides the addresses of a pod on all its networks, for one patch; a pod without any gets the zero
// Decision. A valid annotation on free addresses is kept, any other is replaced.
// Errors: ErrExhausted, or reconcile.ErrNotReady until the node's subnets are recorded.
func (a *Addresses) Pod(pod *corev1.Pod, node *corev1.Node) (Decision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	is := pod.Annotations[contract.PodNetworksKey]
	d, decided := Decision{}, is
	for _, name := range a.plans.networksOf(pod) {
		pool := a.pools[name]
		blocks := a.blocks(node, name)
		if blocks == nil {
			return d, fmt.Errorf("%w: node %s has no subnet", reconcile.ErrNotReady, pod.Spec.NodeName)
		}
		owner := pool.owner(pod)
		h, warning := pool.recorded(pod, blocks)
		if h == nil {
			addrs, err := pool.allocate(blocks)
			if err != nil {
				a.waiting[owner] = pod.Spec.NodeName
				return Decision{Warning: cmp.Or(d.Warning, warning)}, err
			}
			h = pool.hold(owner, pod.UID, addrs)
		}
		delete(a.waiting, owner)
		decided, warning = pool.decide(decided, h, warning)
		d.Warning = cmp.Or(d.Warning, warning)
	}
	if decided != is {
		d.Annotations = map[string]string{contract.PodNetworksKey: decided}
	}
	return d, nil
}

// blocks are the recorded subnets of a node on a network, nil until they are recorded.
func (a *Addresses) blocks(node *corev1.Node, network string) blocks {
	subnets := a.subnets.Recorded(node, network)
	if subnets == nil {
		return nil
	}
	return a.pools[network].blocksOf(node.Name, subnets)
}

// Adopt is Allocated for a pod for which nothing was decided yet and which has a valid annotation:
// a former leader's, or OVN-Kubernetes'. Pod will write nothing then, so that no event would say that the pod is ready.
func (a *Addresses) Adopt(pod *corev1.Pod, node *corev1.Node, network string) *contract.PodNetwork {
	if !slices.Contains(a.plans.networksOf(pod), network) {
		return nil
	}
	a.mu.Lock()
	if blocks := a.blocks(node, network); blocks != nil {
		a.pools[network].recorded(pod, blocks)
	}
	a.mu.Unlock()
	return a.Allocated(pod, network)
}

// Allocated is the pod's value on a network once it is decided and recorded; nil before. From
// then on the holding of the pod's UID decides, whatever its annotation says.
func (a *Addresses) Allocated(pod *corev1.Pod, network string) *contract.PodNetwork {
	a.mu.Lock()
	defer a.mu.Unlock()
	pool := a.pools[network]
	h := pool.find(pool.owner(pod), pod.UID)
	if h == nil {
		return nil
	}
	if !h.durable && h.recorded != "" && contract.HasNetwork(pod.Annotations[contract.PodNetworksKey], pool.key, h.recorded) {
		h.durable = true
	}
	if !h.durable {
		return nil
	}
	return pool.value(h)
}

// Owners are all pods that hold something or wait for it, also those
// whose objects and rows are gone: a full pass releases these.
func (a *Addresses) Owners() []contract.Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	var owners []contract.Owner
	for _, pool := range a.pools {
		owners = slices.AppendSeq(owners, maps.Keys(pool.newest))
	}
	for o := range a.waiting {
		if a.pools[o.Network].newest[o] == nil {
			owners = append(owners, o)
		}
	}
	return owners
}

// Holders are the UIDs for which something is held in the name of a pod;
// "" is one whose row has no UID, or that lost its place.
func (a *Addresses) Holders(owner contract.Owner) []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var uids []types.UID
	if pool := a.pools[owner.Network]; pool != nil {
		for h := pool.newest[owner]; h != nil; h = h.older {
			uids = append(uids, h.uid)
		}
	}
	return uids
}

// HeldByAnother reports whether another pod holds an address of a row.
func (a *Addresses) HeldByAnother(row Held) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	pool := a.pools[row.Owner.Network]
	return pool != nil && slices.ContainsFunc(row.Addrs, func(addr netip.Addr) bool {
		h := pool.byAddr[addr]
		return h != nil && h.owner != row.Owner
	})
}

// Release gives back what the holders uids of a pod's name have. Call it when their rows
// are gone: ask for Holders, build and commit the owner's rows, then release those
// of the holders that these rows were not made for. It returns owners that waited
// for these addresses: one for each address, the others have their back-off.
func (a *Addresses) Release(owner contract.Owner, uids ...types.UID) (retry []contract.Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pool := a.pools[owner.Network]
	if pool == nil || owner.Kind != contract.KindPod {
		return nil
	}
	delete(a.waiting, owner)
	for _, node := range pool.release(owner, uids) {
		for waiter, wants := range a.waiting {
			if wants == node && waiter.Network == owner.Network {
				delete(a.waiting, waiter)
				retry = append(retry, waiter)
				break
			}
		}
	}
	return retry
}
