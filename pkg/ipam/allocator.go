package ipam

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
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

// Allocator is the memory of all decisions. Its methods may be called at once
// from several goroutines.
type Allocator struct {
	cfg   Config
	plans map[string]Config // by network
	names []string          // of the networks, sorted

	mu    sync.Mutex
	ids   *ids
	pools map[string]*pods // by network
	// waiting has who found nothing left: of which node, or "" for a subnet or id.
	waiting map[contract.Owner]string
}

// New makes an Allocator for the default network and further ones, whose subnets may
// overlap with each other's; call Rebuild before anything else.
func New(cfg Config, further ...contract.Network) (*Allocator, error) {
	a := &Allocator{cfg: cfg, plans: map[string]Config{"": cfg}}
	for _, network := range further {
		a.plans[network.Name] = cfg.on(network)
	}
	for name, plan := range a.plans {
		if err := plan.Validate(); err != nil {
			return nil, fmt.Errorf("network %q: %w", name, err)
		}
	}
	a.names = slices.Sorted(maps.Keys(a.plans))
	a.clear()
	return a, nil
}

func (a *Allocator) networksOf(pod *corev1.Pod) []string {
	switch {
	case !contract.WantsNetwork(pod):
		return nil
	case a.cfg.NetworksOf != nil:
		return a.cfg.NetworksOf(pod)
	}
	return a.names[:1] // "" is the first of all
}

func (a *Allocator) clear() {
	last := a.cfg.maxID()
	a.pools, a.waiting = map[string]*pods{}, map[contract.Owner]string{}
	for name, plan := range a.plans {
		a.pools[name] = newPods(name, newNodes(plan, contract.Network{Name: name}.Key()))
		last = min(last, plan.maxID())
	}
	a.ids = newIDs(last)
}

// Rebuild forgets everything and starts from what is recorded: the annotations
// of nodes, the rows, which are in use, and the annotations of pods, each oldest
// first. Where two claim the same, the later one gets a new decision when its
// turn comes. An annotation that does not hold water is left to Node and Pod.
// The rows may be an older copy: that of a pod which is gone is not in use where
// the status of another pod says that this one runs with the address.
func (a *Allocator) Rebuild(nodes []*corev1.Node, pods []*corev1.Pod, rows []Held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clear()
	for _, node := range slices.SortedFunc(slices.Values(nodes), func(x, y *corev1.Node) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	}) {
		a.ids.adopt(node)
		for _, name := range a.names {
			a.pools[name].nodes.adopt(node)
		}
	}
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
		for _, name := range a.networksOf(pod) {
			if state := a.pools[name].nodes.states[pod.Spec.NodeName]; state != nil {
				a.pools[name].restore(pod, state)
			}
		}
	}
}

// Node decides a node's subnets on each network, one for each family, and its id. A valid
// annotation that nobody else has claimed is kept. Errors: ErrExhausted, or a
// node whose own address lies in a network of the plan.
func (a *Allocator) Node(node *corev1.Node) (Decision, error) {
	if err := a.cfg.checkNode(node); err != nil {
		return Decision{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	d := Decision{Annotations: map[string]string{}}
	numbered, warning := a.ids.adopt(node)
	numbered.uid = node.UID
	d.Warning = warning
	subnets := node.Annotations[contract.NodeSubnetsKey]
	for _, name := range a.names {
		pool := a.pools[name].nodes
		state, warning := pool.adopt(node)
		d.Warning = cmp.Or(d.Warning, warning)
		if err := pool.complete(node.Name, state); err != nil {
			a.waiting[contract.NodeOwner(node.Name)] = ""
			return Decision{Warning: d.Warning}, err
		}
		if !contract.HasNetwork(subnets, pool.key, state.recorded) {
			subnets, _ = contract.SetNetwork(subnets, pool.key, json.RawMessage(state.recorded)) // it is JSON
		}
	}
	if err := a.ids.complete(node.Name); err != nil {
		a.waiting[contract.NodeOwner(node.Name)] = ""
		return Decision{Warning: d.Warning}, err
	}
	delete(a.waiting, contract.NodeOwner(node.Name))
	for key, want := range map[string]string{contract.NodeSubnetsKey: subnets, contract.NodeIDKey: strconv.Itoa(numbered.id)} {
		is := node.Annotations[key]
		if is == want {
			continue
		}
		d.Annotations[key] = want
		if is != "" && d.Warning == "" {
			d.Warning = fmt.Sprintf("annotation %s said %s, which is not what was allocated", key, is)
		}
	}
	return d, nil
}

// Recorded reports whether the node's annotations say what was decided for it on the default network.
func (a *Allocator) Recorded(node *corev1.Node) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	numbered := a.ids.nodes[node.Name]
	return a.pools[""].nodes.recorded(node) != nil && numbered != nil && node.Annotations[contract.NodeIDKey] == strconv.Itoa(numbered.id)
}

// Pod decides the addresses of a pod on all its networks, for one patch; a pod without any gets the zero
// Decision. A valid annotation on free addresses is kept, any other is replaced.
// Errors: ErrExhausted, or reconcile.ErrNotReady until the node's subnets are recorded.
func (a *Allocator) Pod(pod *corev1.Pod, node *corev1.Node) (Decision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	is := pod.Annotations[contract.PodNetworksKey]
	d, decided := Decision{}, is
	for _, name := range a.networksOf(pod) {
		pool := a.pools[name]
		state := pool.nodes.recorded(node)
		if state == nil {
			return d, fmt.Errorf("%w: node %s has no subnet", reconcile.ErrNotReady, pod.Spec.NodeName)
		}
		owner := pool.owner(pod)
		h, warning := pool.recorded(pod, state)
		if h == nil {
			addrs, err := pool.allocate(state)
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

// Adopt is Allocated for a pod that had no turn yet and brings a valid annotation
// along: a former leader's, or OVN-Kubernetes'. When it has its turn nothing is written, so that no event would tell
// who asked before.
func (a *Allocator) Adopt(pod *corev1.Pod, node *corev1.Node, network string) *contract.PodNetwork {
	if !slices.Contains(a.networksOf(pod), network) {
		return nil
	}
	a.mu.Lock()
	if state := a.pools[network].nodes.recorded(node); state != nil {
		a.pools[network].recorded(pod, state)
	}
	a.mu.Unlock()
	return a.Allocated(pod, network)
}

// Allocated is the pod's value on a network once it is decided and recorded; nil before. From
// then on the holding of the pod's UID decides, whatever its annotation says.
func (a *Allocator) Allocated(pod *corev1.Pod, network string) *contract.PodNetwork {
	a.mu.Lock()
	defer a.mu.Unlock()
	pool := a.pools[network]
	h := pool.find(pool.owner(pod), pod.UID)
	if h == nil {
		return nil
	}
	if !h.durable && h.recorded != "" && contract.HasNetwork(pod.Annotations[contract.PodNetworksKey], pool.nodes.key, h.recorded) {
		h.durable = true
	}
	if !h.durable {
		return nil
	}
	return pool.value(h)
}

// Owners are all nodes and pods that hold something or wait for it, also those
// whose objects and rows are gone: a full pass releases these.
func (a *Allocator) Owners() []contract.Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	var owners []contract.Owner
	for name := range a.ids.nodes {
		owners = append(owners, contract.NodeOwner(name))
	}
	for _, pool := range a.pools {
		owners = slices.AppendSeq(owners, maps.Keys(pool.newest))
	}
	for o := range a.waiting {
		if o.Kind == contract.KindPod && a.pools[o.Network].newest[o] == nil {
			owners = append(owners, o)
		}
	}
	return owners
}

// Holders are the UIDs for which something is held in the name of a node or pod;
// "" is one that a row did not tell or that lost its place.
func (a *Allocator) Holders(owner contract.Owner) []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var uids []types.UID
	if node := a.ids.nodes[owner.Name]; node != nil && owner.Kind == contract.KindNode {
		uids = append(uids, node.uid)
	}
	if pool := a.pools[owner.Network]; pool != nil {
		for h := pool.newest[owner]; h != nil; h = h.older {
			uids = append(uids, h.uid)
		}
	}
	return uids
}

// NodeOf is the node in whose subnet a pod holds addresses, "" where it holds none.
func (a *Allocator) NodeOf(pod contract.Owner) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pool := a.pools[pod.Network]; pool != nil && pool.newest[pod] != nil {
		return pool.nodes.block(pool.newest[pod].addrs[0]).node
	}
	return ""
}

// Given says that a pod has an address of another pod's row.
func (a *Allocator) Given(row Held) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	pool := a.pools[row.Owner.Network]
	return pool != nil && slices.ContainsFunc(row.Addrs, func(addr netip.Addr) bool {
		h := pool.byAddr[addr]
		return h != nil && h.owner != row.Owner
	})
}

// Release gives back what the holders uids of owner have. Call it when their rows
// are gone: ask for Holders, build and commit the owner's rows, then release those
// of the holders that these rows were not made for. It returns owners that waited
// for what came free: one for each thing, the others have their back-off.
func (a *Allocator) Release(owner contract.Owner, uids ...types.UID) (retry []contract.Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var freed []string
	switch node, pool := a.ids.nodes[owner.Name], a.pools[owner.Network]; {
	case owner.Kind != contract.KindNode && pool != nil:
		delete(a.waiting, owner)
		freed = pool.release(owner, uids)
	case owner.Kind == contract.KindNode && node != nil && slices.Contains(uids, node.uid):
		delete(a.waiting, owner)
		a.ids.release(owner.Name)
		for _, pool := range a.pools {
			pool.nodes.release(owner.Name)
		}
		freed = []string{""}
	}
	for _, what := range freed {
		for waiter, wants := range a.waiting {
			if wants == what && waiter.Network == owner.Network {
				delete(a.waiting, waiter)
				retry = append(retry, waiter)
				break
			}
		}
	}
	return retry
}
