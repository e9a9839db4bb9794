package ipam

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
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
	cfg Config

	mu    sync.Mutex
	nodes *nodes
	pods  *pods
	// waiting has who found nothing left: of which node, or "" for a subnet or id.
	waiting map[contract.Owner]string
}

// New makes an empty Allocator; call Rebuild before anything else.
func New(cfg Config) (*Allocator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &Allocator{cfg: cfg}
	a.clear()
	return a, nil
}

func (a *Allocator) clear() {
	a.nodes = newNodes(a.cfg)
	a.pods = newPods(a.nodes)
	a.waiting = map[contract.Owner]string{}
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
		a.nodes.adopt(node)
	}
	alive := newLiving(pods)
	for _, row := range slices.SortedFunc(slices.Values(rows), func(x, y Held) int {
		return cmp.Or(cmp.Compare(x.Owner.Namespace, y.Owner.Namespace), cmp.Compare(x.Owner.Name, y.Owner.Name))
	}) {
		a.pods.adoptRow(row, alive)
	}
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(x, y *corev1.Pod) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	}) {
		if state := a.nodes.states[pod.Spec.NodeName]; state != nil && kube.WantsNetwork(pod) {
			a.pods.restore(pod, state)
		}
	}
}

// Node decides a node's subnet, one for each family, and its id. A valid
// annotation that nobody else has claimed is kept. Errors: ErrExhausted, or a
// node whose own address lies in a network of the plan.
func (a *Allocator) Node(node *corev1.Node) (Decision, error) {
	if err := a.cfg.checkNode(node); err != nil {
		return Decision{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state, warning := a.nodes.adopt(node)
	state.uid = node.UID
	if err := a.nodes.complete(node.Name, state); err != nil {
		a.waiting[contract.NodeOwner(node.Name)] = ""
		return Decision{Warning: warning}, err
	}
	delete(a.waiting, contract.NodeOwner(node.Name))
	d := Decision{Annotations: map[string]string{}, Warning: warning}
	for key, want := range map[string]string{contract.NodeSubnetsKey: state.recorded, contract.NodeIDKey: strconv.Itoa(state.id)} {
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

// Recorded reports whether the node's annotations say what was decided for it.
func (a *Allocator) Recorded(node *corev1.Node) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.nodes.recorded(node)
	return state != nil && node.Annotations[contract.NodeIDKey] == strconv.Itoa(state.id)
}

// Pod decides the addresses of a pod that wants a network; others get the zero
// Decision. A valid annotation on free addresses is kept, any other is replaced.
// Errors: ErrExhausted, or reconcile.ErrNotReady until the node's subnet is recorded.
func (a *Allocator) Pod(pod *corev1.Pod, node *corev1.Node) (Decision, error) {
	if !kube.WantsNetwork(pod) {
		return Decision{}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.nodes.recorded(node)
	if state == nil {
		return Decision{}, fmt.Errorf("%w: node %s has no subnet", reconcile.ErrNotReady, pod.Spec.NodeName)
	}
	h, warning := a.pods.recorded(pod, state)
	if h == nil {
		addrs, err := a.pods.allocate(state)
		if err != nil {
			a.waiting[owner(pod)] = pod.Spec.NodeName
			return Decision{Warning: warning}, err
		}
		h = a.pods.hold(owner(pod), pod.UID, addrs)
	}
	delete(a.waiting, owner(pod))
	return a.pods.decide(pod, h, warning), nil
}

// Adopt is Allocated for a pod that had no turn yet and brings a valid annotation
// along: a former leader's, or OVN-Kubernetes'. When it has its turn nothing is written, so that no event would tell
// who asked before.
func (a *Allocator) Adopt(pod *corev1.Pod, node *corev1.Node) *contract.PodNetwork {
	if !kube.WantsNetwork(pod) {
		return nil
	}
	a.mu.Lock()
	if state := a.nodes.recorded(node); state != nil {
		a.pods.recorded(pod, state)
	}
	a.mu.Unlock()
	return a.Allocated(pod)
}

// Allocated is the pod's network once it is decided and recorded; nil before. From
// then on the holding of the pod's UID decides, whatever its annotation says.
func (a *Allocator) Allocated(pod *corev1.Pod) *contract.PodNetwork {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.pods.find(owner(pod), pod.UID)
	if h == nil {
		return nil
	}
	if h.recorded != "" && h.recorded == pod.Annotations[contract.PodNetworksKey] {
		h.durable = true
	}
	if !h.durable {
		return nil
	}
	return a.pods.network(h)
}

// Owners are all nodes and pods that hold something or wait for it, also those
// whose objects and rows are gone: a full pass releases these.
func (a *Allocator) Owners() []contract.Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	owners := make([]contract.Owner, 0, len(a.nodes.states)+len(a.pods.newest))
	for name := range a.nodes.states {
		owners = append(owners, contract.NodeOwner(name))
	}
	for o := range a.pods.newest {
		owners = append(owners, o)
	}
	for o := range a.waiting {
		if o.Kind == contract.KindPod && a.pods.newest[o] == nil {
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
	if state := a.nodes.states[owner.Name]; state != nil && owner.Kind == contract.KindNode {
		uids = append(uids, state.uid)
	}
	for h := a.pods.newest[owner]; h != nil; h = h.older {
		uids = append(uids, h.uid)
	}
	return uids
}

// Given says that a pod has an address of another pod's row.
func (a *Allocator) Given(row Held) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(row.Addrs, func(addr netip.Addr) bool {
		h := a.pods.byAddr[addr]
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
	switch state := a.nodes.states[owner.Name]; {
	case owner.Kind != contract.KindNode:
		delete(a.waiting, owner)
		freed = a.pods.release(owner, uids)
	case state != nil && slices.Contains(uids, state.uid):
		delete(a.waiting, owner)
		a.nodes.release(owner.Name)
		freed = []string{""}
	}
	for _, what := range freed {
		for waiter, wants := range a.waiting {
			if wants == what {
				delete(a.waiting, waiter)
				retry = append(retry, waiter)
				break
			}
		}
	}
	return retry
}

func owner(pod *corev1.Pod) contract.Owner { return contract.PodOwner(pod.Namespace, pod.Name) }
