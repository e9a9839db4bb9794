package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// holding is what one pod, by UID, has.
type holding struct {
	owner kube.Owner
	uid   types.UID
	addrs []netip.Addr
	// recorded is the annotation value that says addrs; "" until it was asked for.
	recorded string
	// older is the holding of a pod of the same name whose rows may still be there.
	older *holding
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
	state := a.recordedNode(node)
	if state == nil {
		return Decision{}, fmt.Errorf("%w: node %s has no subnet", reconcile.ErrNotReady, pod.Spec.NodeName)
	}
	h, warning := a.current(pod, state), ""
	if h == nil {
		h, warning = a.adoptPod(pod, state)
	}
	if h == nil {
		addrs, err := a.allocate(state)
		if err != nil {
			a.waiting[owner(pod)] = pod.Spec.NodeName
			return Decision{Warning: warning}, err
		}
		h = a.hold(owner(pod), pod.UID, addrs)
	}
	delete(a.waiting, owner(pod))
	return a.decide(pod, h, warning)
}

// recordedNode is nil until the node's own annotation says what was decided. A
// node that Node has not seen yet may bring its annotation along.
func (a *Allocator) recordedNode(node *corev1.Node) *nodeState {
	if node == nil {
		return nil
	}
	state, _ := a.adoptNode(node)
	if state.recorded == "" || node.Annotations[kube.NodeSubnetsKey] != state.recorded {
		return nil
	}
	return state
}

// Allocated is the pod's network if it is decided and the pod's annotation says
// exactly that; nil otherwise.
func (a *Allocator) Allocated(pod *corev1.Pod) *kube.PodNetwork {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.find(owner(pod), pod.UID)
	if h == nil || h.recorded == "" || h.recorded != pod.Annotations[kube.PodNetworksKey] {
		return nil
	}
	return a.network(h)
}

// Validate says why a pod of a node with these subnets cannot have this network;
// nil when it can, as far as one pod is concerned. A pod older than the cluster's
// second address family has one address only.
func Validate(network *kube.PodNetwork, subnets []netip.Prefix) error {
	if len(network.Addresses) == 0 {
		return errors.New("no address")
	}
	for i, addr := range network.Addresses {
		switch subnet, ok := family(subnets, addr.Addr()); {
		case !ok || !subnet.Contains(addr.Addr()) || addr.Bits() != subnet.Bits():
			return fmt.Errorf("address %s is not in the node's subnets %v", addr, subnets)
		case !forPods(subnet, addr.Addr()):
			return fmt.Errorf("address %s is reserved", addr)
		case i > 0 && addr.Addr().Is4() == network.Addresses[0].Addr().Is4():
			return fmt.Errorf("address %s is the second of its family", addr)
		}
	}
	if want := kube.MACFromAddress(network.Addresses[0].Addr()); !slices.Equal(network.MAC, want) {
		return fmt.Errorf("MAC %s does not follow from the address, that is %s", network.MAC, want)
	}
	return nil
}

// current is what the pod holds and may go on using.
func (a *Allocator) current(pod *corev1.Pod, state *nodeState) *holding {
	h := a.find(owner(pod), pod.UID)
	if h == nil {
		return nil
	}
	if !a.fits(h, state) {
		// Its rows still use these addresses: they are released with the rows.
		h.uid = ""
		return nil
	}
	a.shareRecord(h, pod)
	return h
}

// adoptPod takes what a pod's annotation says if that is valid and free.
func (a *Allocator) adoptPod(pod *corev1.Pod, state *nodeState) (h *holding, warning string) {
	network, err := kube.ParsePodNetwork(pod.Annotations[kube.PodNetworksKey], kube.DefaultNetwork)
	if err == nil && network == nil {
		return nil, ""
	}
	if err == nil {
		err = Validate(network, state.subnets())
	}
	if err == nil {
		h, err = a.claim(owner(pod), pod.UID, network.Addresses)
	}
	if err != nil {
		return nil, fmt.Sprintf("annotation %s is replaced: %v", kube.PodNetworksKey, err)
	}
	a.shareRecord(h, pod)
	return h, ""
}

// claim holds addresses that are free, or that a row of the same pod has which
// did not tell its UID.
func (a *Allocator) claim(owner kube.Owner, uid types.UID, prefixes []netip.Prefix) (*holding, error) {
	addrs := make([]netip.Addr, len(prefixes))
	for i, prefix := range prefixes {
		addrs[i] = prefix.Addr()
	}
	if h := a.byAddr[addrs[0]]; h != nil && h.owner == owner && h.uid == "" && slices.Equal(h.addrs, addrs) {
		h.uid = uid
		return h, nil
	}
	for _, addr := range addrs {
		if h := a.byAddr[addr]; h != nil {
			return nil, fmt.Errorf("address %s is held by %s", addr, h.owner)
		}
	}
	return a.hold(owner, uid, addrs), nil
}

// fits is false for addresses of a row that are not, or no longer, the node's.
func (a *Allocator) fits(h *holding, state *nodeState) bool {
	return !slices.ContainsFunc(h.addrs, func(addr netip.Addr) bool { return !slices.Contains(state.blocks, a.blockOf(addr)) })
}

// shareRecord keeps the annotation's own string as the record where they are
// equal: at 100,000 pods a copy of each is 50 MB.
func (a *Allocator) shareRecord(h *holding, pod *corev1.Pod) {
	if value := pod.Annotations[kube.PodNetworksKey]; value != "" && (h.recorded == value || a.format(h) == value) {
		h.recorded = value
	}
}

func (a *Allocator) decide(pod *corev1.Pod, h *holding, warning string) (Decision, error) {
	if h.recorded == "" {
		h.recorded = a.format(h)
	}
	value := pod.Annotations[kube.PodNetworksKey]
	if value == h.recorded {
		return Decision{}, nil
	}
	if warning == "" && value != "" {
		said, err := kube.ParsePodNetwork(value, kube.DefaultNetwork)
		if err != nil || said == nil || !slices.Equal(said.Addresses, a.prefixes(h)) {
			warning = fmt.Sprintf("annotation %s is replaced: it is not what was allocated", kube.PodNetworksKey)
		}
	}
	return Decision{Annotations: map[string]string{kube.PodNetworksKey: h.recorded}, Warning: warning}, nil
}

// allocate picks one free address of each of the node's subnets.
func (a *Allocator) allocate(state *nodeState) ([]netip.Addr, error) {
	addrs := make([]netip.Addr, len(state.blocks))
	for i, b := range state.blocks {
		addr, ok := b.next(func(addr netip.Addr) bool { return a.byAddr[addr] != nil })
		if !ok {
			return nil, fmt.Errorf("no address left in the node's subnet %s: %w", b.prefix, ErrExhausted)
		}
		addrs[i] = addr
	}
	return addrs, nil
}

// hold gives free addresses of known blocks to a pod.
func (a *Allocator) hold(owner kube.Owner, uid types.UID, addrs []netip.Addr) *holding {
	h := &holding{owner: owner, uid: uid, addrs: addrs, older: a.pods[owner]}
	a.pods[owner] = h
	for _, addr := range addrs {
		a.byAddr[addr] = h
		a.blockOf(addr).held++
	}
	a.touch(h)
	return h
}

// touch makes h's addresses the last that were handed out.
func (a *Allocator) touch(h *holding) {
	for _, addr := range h.addrs {
		b := a.blockOf(addr)
		if offset, small := offsetOf(b.prefix, addr); small && offset <= b.last() {
			b.cursor = offset
		}
	}
}

func (a *Allocator) releasePod(owner kube.Owner, uids []types.UID) (retry []kube.Owner) {
	delete(a.waiting, owner)
	var kept *holding
	for h := a.pods[owner]; h != nil; {
		older := h.older
		if slices.Contains(uids, h.uid) {
			retry = append(retry, a.free(h)...)
		} else {
			h.older, kept = kept, h
		}
		h = older
	}
	delete(a.pods, owner)
	for h := kept; h != nil; {
		next := h.older
		h.older = a.pods[owner]
		a.pods[owner] = h
		h = next
	}
	return retry
}

func (a *Allocator) free(h *holding) (retry []kube.Owner) {
	for _, addr := range h.addrs {
		b := a.blockOf(addr)
		delete(a.byAddr, addr)
		b.held--
		if a.dropBlock(b); a.inUse(b) {
			retry = append(retry, a.popWaiting(b.node)...)
		}
	}
	return retry
}

func (a *Allocator) find(owner kube.Owner, uid types.UID) *holding {
	for h := a.pods[owner]; h != nil; h = h.older {
		if h.uid == uid {
			return h
		}
	}
	return nil
}

func (a *Allocator) blockOf(addr netip.Addr) *block {
	prefix, _ := a.blockPrefix(addr)
	return a.blocks[prefix]
}

func owner(pod *corev1.Pod) kube.Owner { return kube.PodOwner(pod.Namespace, pod.Name) }
