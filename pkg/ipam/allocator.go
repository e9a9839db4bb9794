package ipam

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
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
	Owner kube.Owner
	// UID of the pod that the row was made for; "" when the row does not say.
	UID   types.UID
	Addrs []netip.Addr
}

// Allocator is the memory of all decisions. Its methods may be called at once
// from several goroutines.
type Allocator struct {
	cfg Config

	mu     sync.Mutex
	nodes  map[string]*nodeState
	ids    map[int]string
	blocks map[netip.Prefix]*block
	// pods has the newest holding of each pod name; older ones hang behind it.
	pods    map[kube.Owner]*holding
	byAddr  map[netip.Addr]*holding
	waiting map[kube.Owner]string
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
	a.nodes = map[string]*nodeState{}
	a.ids = map[int]string{}
	a.blocks = map[netip.Prefix]*block{}
	a.pods = map[kube.Owner]*holding{}
	a.byAddr = map[netip.Addr]*holding{}
	a.waiting = map[kube.Owner]string{}
}

// Rebuild forgets everything and starts from what is recorded: the annotations
// of nodes, the rows, which are in use, and the annotations of pods, each oldest
// first. Where two claim the same, the later one gets a new decision when its
// turn comes. An annotation that does not hold water is left to Node and Pod.
func (a *Allocator) Rebuild(nodes []*corev1.Node, pods []*corev1.Pod, rows []Held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clear()
	for _, node := range slices.SortedFunc(slices.Values(nodes), func(x, y *corev1.Node) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	}) {
		a.adoptNode(node)
	}
	for _, row := range slices.SortedFunc(slices.Values(rows), func(x, y Held) int {
		return cmp.Or(cmp.Compare(x.Owner.Namespace, y.Owner.Namespace), cmp.Compare(x.Owner.Name, y.Owner.Name))
	}) {
		a.adoptRow(row, pods)
	}
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(x, y *corev1.Pod) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	}) {
		state := a.nodes[pod.Spec.NodeName]
		if state == nil || !kube.WantsNetwork(pod) {
			continue
		}
		if h := a.find(owner(pod), pod.UID); h != nil {
			a.shareRecord(h, pod)
			a.touch(h)
		} else {
			a.adoptPod(pod, state)
		}
	}
}

// Owners are all nodes and pods that hold something or wait for it, also those
// whose objects and rows are gone: a full pass releases these.
func (a *Allocator) Owners() []kube.Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	owners := make([]kube.Owner, 0, len(a.nodes)+len(a.pods))
	for name := range a.nodes {
		owners = append(owners, kube.NodeOwner(name))
	}
	for o := range a.pods {
		owners = append(owners, o)
	}
	for o := range a.waiting {
		if o.Kind == kube.KindPod && a.pods[o] == nil {
			owners = append(owners, o)
		}
	}
	return owners
}

// Holders are the UIDs for which something is held in the name of a node or pod;
// "" is one that a row did not tell or that lost its place.
func (a *Allocator) Holders(owner kube.Owner) []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var uids []types.UID
	if state := a.nodes[owner.Name]; state != nil && owner.Kind == kube.KindNode {
		uids = append(uids, state.uid)
	}
	for h := a.pods[owner]; h != nil; h = h.older {
		uids = append(uids, h.uid)
	}
	return uids
}

// Release gives back what the holders uids of owner have. Call it when their rows
// are gone: ask for Holders, build and commit the owner's rows, then release those
// of the holders that these rows were not made for. It returns owners that waited
// for what came free.
func (a *Allocator) Release(owner kube.Owner, uids ...types.UID) (retry []kube.Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if owner.Kind == kube.KindNode {
		if state := a.nodes[owner.Name]; state != nil && slices.Contains(uids, state.uid) {
			return a.releaseNode(owner.Name)
		}
		return nil
	}
	return a.releasePod(owner, uids)
}

// adoptRow takes what a row uses and the plan allows. It does so also in a subnet
// that no node has claimed: pods says whose it was, so that a node which lost its
// annotation gets it back, and otherwise it stays taken until the row is deleted.
func (a *Allocator) adoptRow(row Held, pods []*corev1.Pod) {
	var addrs []netip.Addr
	for _, addr := range row.Addrs {
		prefix, ok := a.blockPrefix(addr)
		if !ok || !forPods(prefix, addr) || a.byAddr[addr] != nil {
			continue
		}
		if a.blocks[prefix] == nil {
			a.addBlock(prefix, nodeOf(row.Owner, pods))
		}
		addrs = append(addrs, addr)
	}
	if len(addrs) > 0 {
		a.hold(row.Owner, row.UID, addrs)
	}
}

func nodeOf(o kube.Owner, pods []*corev1.Pod) string {
	i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return owner(pod) == o })
	if i < 0 {
		return ""
	}
	return pods[i].Spec.NodeName
}

// blockPrefix is the node subnet that addr is part of, allocated or not.
func (a *Allocator) blockPrefix(addr netip.Addr) (netip.Prefix, bool) {
	for _, subnet := range a.cfg.Cluster {
		if subnet.Contains(addr) {
			return netip.PrefixFrom(addr, subnet.NodeBits).Masked(), true
		}
	}
	return netip.Prefix{}, false
}

func (a *Allocator) addBlock(prefix netip.Prefix, node string) *block {
	b := &block{prefix: prefix, node: node, routes: a.cfg.podRoutes(prefix)}
	a.blocks[prefix] = b
	return b
}

// dropBlock forgets a subnet that no node has and no pod holds anything in.
func (a *Allocator) dropBlock(b *block) {
	if b.held == 0 && !a.inUse(b) {
		delete(a.blocks, b.prefix)
	}
}

func (a *Allocator) inUse(b *block) bool {
	state := a.nodes[b.node]
	return state != nil && slices.Contains(state.blocks, b)
}

// popWaiting takes one of the owners that wait for something of node ("": for a
// subnet or id). One thing that came free helps one of them.
func (a *Allocator) popWaiting(node string) []kube.Owner {
	for owner, wants := range a.waiting {
		if wants == node {
			delete(a.waiting, owner)
			return []kube.Owner{owner}
		}
	}
	return nil
}
