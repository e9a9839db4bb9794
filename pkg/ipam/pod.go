package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam/quota"
)

// pods has the addresses of all pods on one network.
type pods struct {
	network contract.Network
	cfg     Config
	// known has all subnets in which a node or a pod had something.
	known map[netip.Prefix]*block
	// shared are the subnets of a network whose nodes have no parts; macs are the MACs there.
	shared blocks
	macs   map[[6]byte]int
	// machines counts the MACs of the pods of virtual machines. Those of one may have the same MAC.
	machines map[machineMAC]int
	// routers are the MACs of routers and nodes outside of nodes' parts. No pod gets one, whatever pods there are.
	routers map[[6]byte]bool
	byAddr  map[netip.Addr]*holding
	// newest has the newest holding of each attachment's owner, on all networks; older ones hang behind it.
	newest map[contract.Owner]*holding
	// leaving are the holdings of pods that are being deleted.
	leaving map[*holding]departure
	// held counts the holdings. counts has those of pods on all secondary networks; nil for a network that is none.
	held   int
	counts *quota.Counts
}

// holding is what one pod, by UID, has on a network.
type holding struct {
	pool  *pods
	owner contract.Owner
	uid   types.UID
	addrs []netip.Addr
	// at are the blocks of addrs; nil for an address outside the plan, which a running pod has.
	at  blocks
	mac [6]byte
	leading
	sharing
	// further is the value of the annotation on a network that is not the default one; nil until it is decided.
	further *contract.PodNetwork
	// recorded is the network's value in the annotation that says addrs; "" until it was asked for.
	recorded string
	// durable says that a row or the pod's annotation had addrs: a restart finds them.
	durable bool
	// older is the holding of a pod of the same name whose rows may still be there.
	older *holding
}

// leading is of holdings on the default network.
type leading struct {
	// elsewhere are the families whose default route leads through another interface.
	elsewhere []contract.Family
	// locked says that the pod has another primary network.
	locked bool
	// through are the blocks of the node's subnets, whose routers the pod has.
	through blocks
	// namespaces are the NamespaceSubnets to which the pod has routes, because another route may lead elsewhere.
	namespaces []netip.Prefix
}

// sharing is of holdings that have the addresses of an IPAMClaim, or of another pod of their virtual machine.
type sharing struct {
	// claim is the holding, the IPAMClaim's or the other pod's, that has the addresses; users are the pods' holdings of a claim.
	claim *holding
	users []*holding
	// machine is the virtual machine that is the pod's, "": none.
	machine string
}

func newPods(network contract.Network, cfg Config, newest map[contract.Owner]*holding, counts *quota.Counts) *pods {
	p := &pods{known: map[netip.Prefix]*block{}, macs: map[[6]byte]int{}, machines: map[machineMAC]int{}, newest: newest, byAddr: map[netip.Addr]*holding{}, leaving: map[*holding]departure{}}
	if network.Role == contract.RoleSecondary {
		p.counts = counts
	}
	p.follow(network, cfg)
	return p
}

// count adds a holding, or takes one away.
func (p *pods) count(owner contract.Owner, n int) {
	p.held += n
	if p.counts != nil && owner.Kind == contract.KindPod {
		p.counts.Add(owner.Namespace, n)
	}
}

// follow takes in what the network is now. What pods have stays.
func (p *pods) follow(network contract.Network, cfg Config) {
	p.network, p.cfg, p.shared = network, cfg, nil
	if !p.isShared() {
		for prefix, b := range p.known {
			if part, ok := cfg.part(prefix.Addr()); ok && part == prefix {
				b.routes = cfg.podRoutes(prefix)
			}
		}
		return
	}
	for _, subnet := range network.Subnets {
		b := p.at(subnet.Prefix)
		b.exclude(network.Excluded, network.Reserved)
		p.shared = append(p.shared, b)
	}
}

func (p *pods) isDefault() bool { return p.network.Name == "" }

// isShared says that all nodes have the same subnets.
func (p *pods) isShared() bool {
	return p.network.Topology == contract.Layer2 || p.network.Topology == contract.Localnet
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
	if b == nil && p.isShared() {
		b = &block{prefix: prefix, first: 1, macs: p.macs}
	} else if b == nil {
		b = &block{prefix: prefix, first: contract.FirstPodOffset, routes: p.cfg.podRoutes(prefix), macs: map[[6]byte]int{}}
	}
	p.known[prefix] = b
	return b
}

// block is the subnet that has addr, nil for an address outside the plan.
func (p *pods) block(addr netip.Addr) *block {
	if p.isShared() {
		return p.shared.of(addr)
	}
	if prefix, ok := p.cfg.part(addr); ok {
		return p.at(prefix)
	}
	if p.isDefault() {
		return p.ofNamespaces(addr).of(addr)
	}
	return nil
}

// Validate says why a pod of a node with these subnets cannot have this value on the default network;
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
		case !(&block{prefix: subnet, first: contract.FirstPodOffset}).allows(addr.Addr()):
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

// current is what the pod holds and may go on using. On a further network that is all that it has: nothing of an entry of
// the annotation changes but its routes.
func (p *pods) current(owner contract.Owner, pod subject, blocks blocks) *holding {
	h := p.find(owner, pod.UID)
	if h == nil {
		return nil
	}
	if p.isDefault() && slices.ContainsFunc(h.at, func(b *block) bool { return b.subnet == "" && !slices.Contains(blocks, b) }) {
		// Its rows still use these addresses: they are released with the rows.
		h.uid = ""
		return nil
	}
	if p.isDefault() {
		h.through = blocks
	}
	h.shareRecord(pod.said)
	return h
}

// adopt takes what a pod's annotation says if that is valid and free.
func (p *pods) adopt(owner contract.Owner, pod subject, r Request, blocks blocks) (h *holding, warning string) {
	network, err := pod.said.PodNetwork(owner.NetworkKey())
	if err == nil && network == nil {
		return nil, ""
	}
	if err == nil && p.isDefault() {
		err = Validate(network, blocks.subnets())
		if err != nil && len(network.Addresses) > 0 && contract.IsRouted(network.Addresses[0]) {
			err = p.validOfNamespace(network, pod.Pod, r.Subnet)
		}
	} else if err == nil {
		err = p.validFurther(network, pod.Pod, blocks)
	}
	if err == nil {
		h, err = p.claim(owner, pod.Pod, blocks, network)
	}
	if err != nil {
		return nil, fmt.Sprintf("annotation %s is replaced: %v", contract.PodNetworksKey, err)
	}
	if !p.isDefault() {
		h.further = network
	}
	h.lead(pod.Pod, r, blocks)
	h.durable = true
	h.shareRecord(pod.said)
	return h, ""
}

// adoptRow takes what a row uses and the plan allows. It does so also in a subnet
// that no node has. A further network's row is taken as it is.
func (p *pods) adoptRow(row Held, alive living) {
	pod := alive.pods[row.Owner.On("")]
	gone := pod == nil || !contract.WantsNetwork(pod) || row.UID != "" && row.UID != pod.UID
	var addrs []netip.Addr
	for _, addr := range row.Addrs {
		b := p.block(addr)
		if p.byAddr[addr] != nil || p.isDefault() && (b == nil || !b.allows(addr) || gone && alive.runs[addr]) {
			continue
		}
		addrs = append(addrs, addr)
	}
	if p.isDefault() {
		row.MAC = nil // follows from the address
	}
	if len(addrs) > 0 {
		h := p.hold(row.Owner, row.UID, addrs, row.MAC)
		if !gone {
			p.runs(h, pod)
		}
		h.durable = true
		h.touch()
	}
}

// restore takes what is recorded of a pod, but decides nothing. In a rebuild, rows came first, and the newest pod comes
// last.
func (p *pods) restore(pod subject, r Request, blocks blocks) {
	owner := attachmentOwner(pod.Pod, r)
	h := p.find(owner, pod.UID)
	if h == nil && r.IPAMClaim != nil {
		h = p.restoreClaimed(owner, pod, *r.IPAMClaim)
	} else if h == nil {
		h, _ = p.adopt(owner, pod, r, blocks)
	} else if !p.isDefault() {
		network, err := pod.said.PodNetwork(owner.NetworkKey())
		if err == nil && network != nil && slices.Equal(addressesOf(network), h.addrs) {
			h.further = network
		}
	}
	if h != nil {
		h.lead(pod.Pod, r, blocks)
		h.shareRecord(pod.said)
		h.touch()
		p.depart(h, pod.Pod)
	}
}

func addressesOf(network *contract.PodNetwork) []netip.Addr {
	addrs := make([]netip.Addr, len(network.Addresses))
	for i, prefix := range network.Addresses {
		addrs[i] = prefix.Addr()
	}
	return addrs
}

// claim holds addresses that are free, or that a row of the same pod has which
// did not tell its UID.
func (p *pods) claim(owner contract.Owner, pod *corev1.Pod, blocks blocks, network *contract.PodNetwork) (*holding, error) {
	addrs := addressesOf(network)
	if len(addrs) > 0 {
		if h := p.byAddr[addrs[0]]; h != nil && h.owner == owner && h.uid == "" && slices.Equal(h.addrs, addrs) {
			h.uid = pod.UID
			return h, nil
		}
	}
	if sibling := p.sibling(pod, addrs, network.MAC); sibling != nil {
		return p.use(sibling, owner, pod), nil
	}
	if err := p.free(addrs); err != nil {
		return nil, err
	}
	mac := [6]byte(network.MAC)
	isKept := len(pod.Status.PodIPs) > 0 && p.routers[mac] && p.macs[mac] == 0 // its port is off
	if p.isOthers(pod, blocks, mac) && !isKept {
		return nil, fmt.Errorf("MAC %s is in use on the node", network.MAC)
	}
	return p.holdFor(owner, pod, addrs, network.MAC), nil
}

// free says which pod has one of addrs.
func (p *pods) free(addrs []netip.Addr) error {
	for _, addr := range addrs {
		if h := p.byAddr[addr]; h != nil {
			return fmt.Errorf("address %s is held by %s", addr, h.owner)
		}
	}
	return nil
}

// hasMAC says that a MAC is another one's on the switch that has the blocks.
func (p *pods) hasMAC(blocks blocks, mac [6]byte) bool {
	return blocks.hasMAC(mac) || p.macs[mac] > 0 || p.routers[mac]
}

// record puts what the pod holds into its annotation.
func (h *holding) record(annotation *contract.Values, warning string) (warned string) {
	key := h.owner.NetworkKey()
	if h.recorded == "" {
		h.recorded = h.format()
	}
	if annotation.Has(key, h.recorded) {
		return ""
	}
	if said, err := annotation.PodNetwork(key); warning == "" && (err != nil || said != nil && !slices.Equal(said.Addresses, h.value().Addresses)) {
		warning = fmt.Sprintf("annotation %s is replaced: it is not what was allocated", contract.PodNetworksKey)
	}
	annotation.Set(key, h.recorded)
	return warning
}

// shareRecord keeps the annotation's own text as the record where they are
// equal: at 100,000 pods a copy of each is 50 MB.
func (h *holding) shareRecord(annotation *contract.Values) {
	if h.value() == nil {
		return
	}
	text := h.recorded
	if text == "" {
		text = h.format()
	}
	if key := h.owner.NetworkKey(); annotation.Has(key, text) {
		h.recorded = annotation.Share(key, text)
	}
}

// allocate picks one free address of each family of the blocks, for a pod on the switch of other blocks or of these.
func (p *pods) allocate(blocks, on blocks) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for i, family := range blocks.families() {
		taken := func(addr netip.Addr) bool {
			return p.byAddr[addr] != nil || i == 0 && (p.hasMAC(blocks, macOf(addr)) || on.hasMAC(macOf(addr)))
		}
		addr, ok := family.next(taken)
		if !ok {
			where := "the node's subnet"
			if family[0].subnet != "" {
				where = "NamespaceSubnet " + family[0].subnet
			} else if p.isShared() {
				where = "subnets"
			}
			return nil, fmt.Errorf("no address left in %s %v: %w%s", where, family.subnets(), ErrExhausted, p.departing(family))
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// hold gives free addresses to a pod. Without a MAC, that of the first address is the pod's.
func (p *pods) hold(owner contract.Owner, uid types.UID, addrs []netip.Addr, mac contract.MAC) *holding {
	h := &holding{pool: p, owner: owner, uid: uid, addrs: addrs, at: make(blocks, len(addrs)), older: p.newest[owner]}
	if len(mac) == len(h.mac) {
		h.mac = [6]byte(mac)
	} else if len(addrs) > 0 {
		h.mac = macOf(addrs[0])
	}
	p.newest[owner] = h
	p.count(owner, 1)
	for i, addr := range addrs {
		p.byAddr[addr] = h
		if b := p.block(addr); b != nil {
			h.at[i] = b
			b.held++
		}
	}
	h.macs()[h.mac]++
	return h
}

// macs are those of the switch that the holding's first address is on.
func (h *holding) macs() map[[6]byte]int {
	if len(h.at) > 0 && h.at[0] != nil {
		return h.at[0].macs
	}
	return h.pool.macs
}

// touch makes h's addresses the last that were handed out.
func (h *holding) touch() {
	for i, addr := range h.addrs {
		if b := h.at[i]; b != nil {
			if offset, small := offsetOf(b.prefix, addr); small && offset <= b.last() {
				b.cursor = offset
			}
		}
	}
}

// release frees what a holding has. It returns the blocks in which something became free. What a pod has of an IPAMClaim
// stays the claim's, and what a claim has becomes the pod's that uses it; so it is with two pods of a virtual machine.
func (h *holding) release() (freed blocks) {
	h.pool.count(h.owner, -1)
	delete(h.pool.leaving, h)
	if h.claim != nil {
		h.claim.users = slices.DeleteFunc(h.claim.users, func(other *holding) bool { return other == h })
		return nil
	}
	if len(h.users) > 0 {
		heir := h.users[0]
		heir.claim, heir.users, heir.machine = nil, h.users[1:], h.machine
		for _, other := range heir.users {
			other.claim = heir
		}
		for _, addr := range h.addrs {
			h.pool.byAddr[addr] = heir
		}
		return nil
	}
	forget(h.macs(), h.mac)
	forget(h.pool.machines, machineMAC{h.machine, h.mac})
	for i, addr := range h.addrs {
		delete(h.pool.byAddr, addr)
		if b := h.at[i]; b != nil {
			b.held--
			freed = append(freed, b)
		}
	}
	return freed
}

func (p *pods) find(owner contract.Owner, uid types.UID) *holding { return find(p.newest[owner], uid) }

func find(newest *holding, uid types.UID) *holding {
	for h := newest; h != nil; h = h.older {
		if h.uid == uid {
			return h
		}
	}
	return nil
}
