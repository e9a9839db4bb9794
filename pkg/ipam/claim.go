package ipam

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// keyOf is the key of what an IPAMClaim holds on a network. A claim that says another network now has nothing of the former
// one's there.
func (p *pods) keyOf(claim Claim) contract.Owner { return claim.Owner.On(p.network.Name) }

// adoptClaim holds what the status of an IPAMClaim says, where pods may have it. A pod of the claim waits for what is left.
func (p *pods) adoptClaim(claim Claim) {
	key := p.keyOf(claim)
	if len(claim.Addresses) == 0 || len(p.shared) == 0 || p.find(key, claim.UID) != nil || p.requested(claim.Addresses, p.shared) != nil {
		return
	}
	mac := contract.MACFromAddress(claim.Addresses[0])
	if p.isOthers(claimant(claim), p.shared, [6]byte(mac)) {
		mac = p.macWithoutAddress(key, claimant(claim))
	}
	p.hold(key, claim.UID, claim.Addresses, mac)
}

// FollowClaim takes in what an IPAMClaim is now, nil when it was deleted: it holds on its network what its status says, and
// nothing on others. Running pods keep what they have. The result is as that of Release.
func FollowClaim(a *Addresses, owner contract.Owner, claim *Claim) (retry []contract.Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.pools {
		var gone []types.UID
		for h := a.newest[owner.On(name)]; h != nil; h = h.older {
			if claim == nil || name != claim.Network || h.uid != claim.UID {
				gone = append(gone, h.uid)
			}
		}
		if len(gone) > 0 {
			retry = append(retry, release(a, owner.On(name), gone...)...)
		}
	}
	if claim == nil || a.pools[claim.Network] == nil {
		return retry
	}
	if pool := a.pools[claim.Network]; pool.network.Persistent {
		pool.adoptClaim(*claim)
	}
	return retry
}

// recorded asks for the addresses that the request's IPAMClaim has, if it has some.
func (r Request) recorded() Request {
	if r.IPAMClaim == nil || len(r.IPAMClaim.Addresses) == 0 {
		return r
	}
	r.Addresses = nil
	for _, addr := range r.IPAMClaim.Addresses {
		r.Addresses = append(r.Addresses, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return r
}

// ofClaim is what an IPAMClaim holds, from now on if it had nothing.
func (p *pods) ofClaim(r Request, blocks blocks) (*holding, error) {
	key, stands := p.keyOf(*r.IPAMClaim), claimant(*r.IPAMClaim)
	h := p.find(key, r.IPAMClaim.UID)
	switch {
	case h == nil:
		return p.takeFor(key, stands, r, blocks)
	case h.pool != p:
		return nil, fmt.Errorf("%w: the IPAMClaim has addresses of network %s", ErrRequest, h.pool.network.Name)
	case r.MAC == nil || len(h.users) > 0 || h.mac == [6]byte(r.MAC):
		return h, nil
	case p.isOthers(stands, blocks, [6]byte(r.MAC)):
		return nil, p.macTaken(blocks, r.MAC)
	}
	setMAC(h, [6]byte(r.MAC)) // the claim does not say it
	return h, nil
}

// setMAC gives a claim that no pod uses another MAC.
func setMAC(h *holding, mac [6]byte) {
	forget(h.macs(), h.mac)
	h.mac = mac
	h.macs()[mac]++
}

// use gives a pod what an IPAMClaim holds. Both pods of a virtual machine that moves have the same.
func (p *pods) use(claim *holding, owner contract.Owner, pod *corev1.Pod) *holding {
	h := &holding{
		pool: p, owner: owner, uid: pod.UID, addrs: claim.addrs, at: claim.at, mac: claim.mac, sharing: sharing{claim: claim}, older: p.newest[owner],
	}
	claim.users = append(claim.users, h)
	p.newest[owner] = h
	p.count(owner, 1)
	return h
}

// restoreClaimed takes what the pod's annotation and its claim say, nil unless they say the same.
func (p *pods) restoreClaimed(owner contract.Owner, pod subject, claim Claim) *holding {
	network, err := pod.said.PodNetwork(owner.NetworkKey())
	of := p.find(p.keyOf(claim), claim.UID)
	if err != nil || network == nil || of == nil || len(network.MAC) != len(of.mac) || !slices.Equal(addressesOf(network), of.addrs) {
		return nil
	}
	if len(pod.Status.PodIPs) == 0 && p.routers[[6]byte(network.MAC)] {
		return nil
	}
	if of.mac != [6]byte(network.MAC) && len(of.users) == 0 {
		setMAC(of, [6]byte(network.MAC))
	}
	h := p.use(of, owner, pod.Pod)
	h.further, h.durable = network, true
	return h
}

// claimant stands for the pods of a claim.
func claimant(claim Claim) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: claim.UID}}
}

// claim notes what the status of a request's IPAMClaim must say.
func (d *Decision) claim(r Request, h *holding) {
	if r.IPAMClaim == nil || h.claim == nil || !r.IPAMClaim.Refused && slices.Equal(r.IPAMClaim.Addresses, h.claim.addrs) {
		return
	}
	if d.Claims == nil {
		d.Claims = map[contract.Owner][]netip.Prefix{}
	}
	d.Claims[r.IPAMClaim.Owner] = h.value().Addresses
}

// refuse notes why a request's IPAMClaim has got no addresses.
func (d *Decision) refuse(r Request, err error) {
	if r.IPAMClaim == nil || err == nil {
		return
	}
	if d.Refused == nil {
		d.Refused = map[contract.Owner]error{}
	}
	d.Refused[r.IPAMClaim.Owner] = err
}
