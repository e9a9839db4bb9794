package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// pods has the addresses of all pods on one network, in the blocks of nodes.
type pods struct {
	network string
	cfg     Config
	// key is the network's in annotations.
	key string
	// known has all subnets in which a node or a pod had something.
	known map[netip.Prefix]*block
	// newest has the newest holding of each pod name; older ones hang behind it.
	newest map[contract.Owner]*holding
	byAddr map[netip.Addr]*holding
}

// holding is what one pod, by UID, has.
type holding struct {
	owner contract.Owner
	uid   types.UID
	addrs []netip.Addr
	// recorded is the network's value in the annotation that says addrs; "" until it was asked for.
	recorded string
	// durable says that a row or the pod's annotation had addrs: a restart finds them.
	durable bool
	// older is the holding of a pod of the same name whose rows may still be there.
	older *holding
}

func newPods(network string, cfg Config) *pods {
	return &pods{
		network: network, cfg: cfg, key: contract.Network{Name: network}.Key(), known: map[netip.Prefix]*block{},
		newest: map[contract.Owner]*holding{}, byAddr: map[netip.Addr]*holding{},
	}
}

// blocksOf are the blocks of the subnets that a node has.
func (p *pods) blocksOf(node string, subnets []netip.Prefix) blocks {
	out := make(blocks, len(subnets))
	for i, prefix := range subnets {
		out[i] = p.at(prefix)
		out[i].node = node
	}
	return out
}

func (p *pods) at(prefix netip.Prefix) *block {
	b := p.known[prefix]
	if b == nil {
		b = &block{prefix: prefix, routes: p.cfg.podRoutes(prefix), macs: map[[6]byte]int{}}
		p.known[prefix] = b
	}
	return b
}

// block is the subnet that the address of a holding is in.
func (p *pods) block(addr netip.Addr) *block {
	prefix, _ := p.cfg.part(addr)
	return p.known[prefix]
}

// Validate says why a pod of a node with these subnets cannot have this network;
// nil when it can, as far as one pod is concerned. A pod older than the cluster's
// second address family has one address only. The order of families is the plan's,
// because the MAC follows from the first address.
func Validate(network *contract.PodNetwork, subnets []netip.Prefix) error {
	if len(network.Addresses) == 0 {
		return errors.New("no address")
	}
	for i, addr := range network.Addresses {
		switch subnet, ok := contract.FamilyOf(addr.Addr()).Pick(subnets); {
		case !ok || !subnet.Contains(addr.Addr()) || addr.Bits() != subnet.Bits():
			return fmt.Errorf("address %s is not in the node's subnets %v", addr, subnets)
		case !forPods(subnet, addr.Addr()):
			return fmt.Errorf("address %s is reserved", addr)
		case i > 0 && sameFamily(addr, network.Addresses[0]) || i >= len(subnets):
			return fmt.Errorf("address %s is the second of its family", addr)
		case !sameFamily(addr, subnets[i]):
			return fmt.Errorf("the address families are not in the order of the node's subnets %v", subnets)
		}
	}
	if want := contract.MACFromAddress(network.Addresses[0].Addr()); !slices.Equal(network.MAC, want) {
		return fmt.Errorf("MAC %s does not follow from the address, that is %s", network.MAC, want)
	}
	return nil
}

func sameFamily(a, b netip.Prefix) bool { return contract.FamilyOf(a.Addr()).Has(b.Addr()) }

// current is what the pod holds and may go on using.
func (p *pods) current(pod *corev1.Pod, blocks blocks) *holding {
	h := p.find(p.owner(pod), pod.UID)
	if h == nil {
		return nil
	}
	elsewhere := func(addr netip.Addr) bool { return !slices.Contains(blocks, p.block(addr)) }
	if slices.ContainsFunc(h.addrs, elsewhere) {
		// Its rows still use these addresses: they are released with the rows.
		h.uid = ""
		return nil
	}
	p.shareRecord(h, pod)
	return h
}

// recorded is what the pod holds, or what its annotation says if that may be held.
func (p *pods) recorded(pod *corev1.Pod, blocks blocks) (h *holding, warning string) {
	if h = p.current(pod, blocks); h != nil {
		return h, ""
	}
	return p.adopt(pod, blocks)
}

// adopt takes what a pod's annotation says if that is valid and free.
func (p *pods) adopt(pod *corev1.Pod, blocks blocks) (h *holding, warning string) {
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], p.key)
	if err == nil && network == nil {
		return nil, ""
	}
	if err == nil {
		err = Validate(network, blocks.subnets())
	}
	if err == nil {
		h, err = p.claim(pod, blocks, network.Addresses)
	}
	if err != nil {
		return nil, fmt.Sprintf("annotation %s is replaced: %v", contract.PodNetworksKey, err)
	}
	h.durable = true
	p.shareRecord(h, pod)
	return h, ""
}

// living are the pods that are there, and the addresses with which those on the
// network say they run.
type living struct {
	pods map[contract.Owner]*corev1.Pod
	runs map[netip.Addr]bool
}

func newLiving(pods []*corev1.Pod) living {
	l := living{pods: map[contract.Owner]*corev1.Pod{}, runs: map[netip.Addr]bool{}}
	for _, pod := range pods {
		l.pods[contract.PodOwner(pod.Namespace, pod.Name)] = pod
		for _, ip := range pod.Status.PodIPs {
			if addr, err := netip.ParseAddr(ip.IP); err == nil && contract.WantsNetwork(pod) {
				l.runs[addr] = true
			}
		}
	}
	return l
}

// adoptRow takes what a row uses and the plan allows. It does so also in a subnet
// that no node has.
func (p *pods) adoptRow(row Held, alive living) {
	pod := alive.pods[row.Owner.On("")]
	gone := pod == nil || !contract.WantsNetwork(pod) || row.UID != "" && row.UID != pod.UID
	var addrs []netip.Addr
	for _, addr := range row.Addrs {
		prefix, ok := p.cfg.part(addr)
		if !ok || !forPods(prefix, addr) || p.byAddr[addr] != nil || gone && p.network == "" && alive.runs[addr] {
			continue
		}
		p.at(prefix)
		addrs = append(addrs, addr)
	}
	if len(addrs) > 0 {
		h := p.hold(row.Owner, row.UID, addrs)
		h.durable = true
		p.touch(h)
	}
}

// restore is adopt in a rebuild: rows came first, and the newest pod comes last.
func (p *pods) restore(pod *corev1.Pod, blocks blocks) {
	h := p.find(p.owner(pod), pod.UID)
	if h == nil {
		h, _ = p.adopt(pod, blocks)
	}
	if h != nil {
		p.shareRecord(h, pod)
		p.touch(h)
	}
}

// claim holds addresses that are free, or that a row of the same pod has which
// did not tell its UID.
func (p *pods) claim(pod *corev1.Pod, blocks blocks, prefixes []netip.Prefix) (*holding, error) {
	addrs := make([]netip.Addr, len(prefixes))
	for i, prefix := range prefixes {
		addrs[i] = prefix.Addr()
	}
	if h := p.byAddr[addrs[0]]; h != nil && h.owner == p.owner(pod) && h.uid == "" && slices.Equal(h.addrs, addrs) {
		h.uid = pod.UID
		return h, nil
	}
	for _, addr := range addrs {
		if h := p.byAddr[addr]; h != nil {
			return nil, fmt.Errorf("address %s is held by %s", addr, h.owner)
		}
	}
	if blocks.hasMAC(addrs[0]) {
		return nil, fmt.Errorf("MAC %s is in use on the node", contract.MACFromAddress(addrs[0]))
	}
	return p.hold(p.owner(pod), pod.UID, addrs), nil
}

// shareRecord keeps the annotation's own text as the record where they are
// equal: at 100,000 pods a copy of each is 50 MB.
func (p *pods) shareRecord(h *holding, pod *corev1.Pod) {
	text := h.recorded
	if text == "" {
		text = p.format(h)
	}
	if value := pod.Annotations[contract.PodNetworksKey]; contract.HasNetwork(value, p.key, text) {
		h.recorded = contract.ShareNetwork(value, p.key, text)
	}
}

// decide puts what the pod holds into its annotation.
func (p *pods) decide(annotation string, h *holding, warning string) (decided, warned string) {
	if h.recorded == "" {
		h.recorded = p.format(h)
	}
	if contract.HasNetwork(annotation, p.key, h.recorded) {
		return annotation, ""
	}
	if said, err := contract.ParsePodNetwork(annotation, p.key); warning == "" && (err != nil || said != nil && !slices.Equal(said.Addresses, p.prefixes(h))) {
		warning = fmt.Sprintf("annotation %s is replaced: it is not what was allocated", contract.PodNetworksKey)
	}
	decided, _ = contract.SetNetwork(annotation, p.key, json.RawMessage(h.recorded)) // it is JSON
	h.recorded = contract.ShareNetwork(decided, p.key, h.recorded)
	return decided, warning
}

// allocate picks one free address of each of the node's subnets.
func (p *pods) allocate(blocks blocks) ([]netip.Addr, error) {
	addrs := make([]netip.Addr, len(blocks))
	for i, b := range blocks {
		addr, ok := b.next(func(addr netip.Addr) bool { return p.byAddr[addr] != nil || i == 0 && blocks.hasMAC(addr) })
		if !ok {
			return nil, fmt.Errorf("no address left in the node's subnet %s: %w", b.prefix, ErrExhausted)
		}
		addrs[i] = addr
	}
	return addrs, nil
}

// hold gives free addresses of known blocks to a pod.
func (p *pods) hold(owner contract.Owner, uid types.UID, addrs []netip.Addr) *holding {
	h := &holding{owner: owner, uid: uid, addrs: addrs, older: p.newest[owner]}
	p.newest[owner] = h
	for _, addr := range addrs {
		p.byAddr[addr] = h
		p.block(addr).held++
	}
	p.block(addrs[0]).macs[macOf(addrs[0])]++
	return h
}

// touch makes h's addresses the last that were handed out.
func (p *pods) touch(h *holding) {
	for _, addr := range h.addrs {
		b := p.block(addr)
		if offset, small := offsetOf(b.prefix, addr); small && offset <= b.last() {
			b.cursor = offset
		}
	}
}

// release frees the addresses of some of a name's holders. It returns the node
// of each address.
func (p *pods) release(owner contract.Owner, uids []types.UID) (freed []string) {
	var kept []*holding
	for h := p.newest[owner]; h != nil; h = h.older {
		if !slices.Contains(uids, h.uid) {
			kept = append(kept, h)
			continue
		}
		p.block(h.addrs[0]).forgetMAC(h.addrs[0])
		for _, addr := range h.addrs {
			b := p.block(addr)
			delete(p.byAddr, addr)
			b.held--
			freed = append(freed, b.node)
		}
	}
	delete(p.newest, owner)
	for _, h := range slices.Backward(kept) {
		h.older = p.newest[owner]
		p.newest[owner] = h
	}
	return freed
}

func (p *pods) owner(pod *corev1.Pod) contract.Owner {
	return contract.PodOwner(pod.Namespace, pod.Name).On(p.network)
}

func (p *pods) find(owner contract.Owner, uid types.UID) *holding {
	for h := p.newest[owner]; h != nil; h = h.older {
		if h.uid == uid {
			return h
		}
	}
	return nil
}
