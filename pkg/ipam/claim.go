package ipam

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// adoptClaim holds what the status of an IPAMClaim says.
func (p *pods) adoptClaim(claim Claim) {
	if len(claim.Addresses) > 0 && p.free(claim.Addresses) == nil && p.find(claim.Owner, claim.UID) == nil {
		p.hold(claim.Owner, claim.UID, claim.Addresses, nil)
	}
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
func (p *pods) restoreClaimed(owner contract.Owner, pod *corev1.Pod, claim Claim) *holding {
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], owner.NetworkKey())
	of := p.find(claim.Owner, claim.UID)
	if err != nil || network == nil || of == nil || len(network.MAC) != len(of.mac) || !slices.Equal(addressesOf(network), of.addrs) {
		return nil
	}
	if len(pod.Status.PodIPs) == 0 && p.routers[[6]byte(network.MAC)] {
		return nil
	}
	if of.mac != [6]byte(network.MAC) && len(of.users) == 0 { // the claim does not say it
		forget(of.macs(), of.mac)
		of.mac = [6]byte(network.MAC)
		of.macs()[of.mac]++
	}
	h := p.use(of, owner, pod)
	h.further, h.durable = network, true
	return h
}

// claimant stands for the pods of a claim.
func claimant(claim Claim) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: claim.UID}}
}

// claim notes what the status of a request's IPAMClaim must say.
func (d *Decision) claim(r Request, h *holding) {
	if r.IPAMClaim == nil || h.claim == nil || slices.Equal(r.IPAMClaim.Addresses, h.claim.addrs) {
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
