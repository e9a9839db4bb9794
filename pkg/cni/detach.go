package cni

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/cni/podlink"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// Detach removes all interfaces of an attachment, and nothing of another sandbox of
// the same pod. It does the same again without error. An error means that something
// may be left, which Sweep removes.
func Detach(ctx context.Context, d Deps, r *Request) error {
	ports, err := d.Plugger.Plugged(r.Pod)
	links := slices.DeleteFunc(ports, func(p plug.Plugged) bool { return p.Sandbox != r.Sandbox || p.Attachment != r.IfName })
	for _, p := range links {
		err = errors.Join(err, d.Plugger.Unplug(ctx, p))
	}
	if len(links) == 0 { // or the database has lost their ports
		left, linksErr := d.linksOf(r)
		links, err = left, errors.Join(err, linksErr)
	}
	if err == nil && d.Functions != nil {
		for _, claim := range d.Functions.Mover.ClaimsOf(r.Sandbox, r.IfName) {
			err = errors.Join(err, releaseDevice(ctx, d, claim))
		}
	}
	for _, link := range links {
		if !link.Representor {
			err = errors.Join(err, removeLink(d.Host, link))
		}
	}
	return err
}

// Check says in what an attachment differs from what ADD made.
func Check(d Deps, r *Request) error {
	interfaces, err := d.attached(r)
	if err != nil {
		return fail(CodeCheck, "check: %v", err)
	}
	for _, i := range interfaces {
		if err := d.check(r, i); err != nil {
			return fail(CodeCheck, "check: %v", err)
		}
	}
	return nil
}

func (d *Deps) check(r *Request, i Interface) error {
	p, ok, err := plug.Find(d.Plugger, r.Pod.On(i.Network))
	if err != nil {
		return err
	}
	if !ok || p.Sandbox != r.Sandbox || p.IfName != i.Name {
		return fmt.Errorf("plug.OVS has no port of sandbox %s for pod %s", r.Sandbox, r.Pod)
	}
	if err := d.Plugger.Check(p); err != nil {
		return fmt.Errorf("port %s: %w", p.Link, err)
	}
	if host, err := d.Host.Link(p.Link); p.Link != "" && (err != nil || !host.Up) {
		return fmt.Errorf("the host's link %s is absent or down", p.Link)
	}
	pod, network, err := d.recorded(p, r.UID)
	if err != nil || p.Representor && !d.hasNetdev(p) {
		return err
	}
	ns, err := d.OpenNS(r.Netns)
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	if err := podlink.Of(pod, i.Network, i.Name, network).Check(ns); err != nil {
		return fmt.Errorf("in %s: %w", r.Netns, err)
	}
	return nil
}

// recorded is the pod of a port, and what it is to have on the port's network. The UID is the runtime's.
func (d *Deps) recorded(p plug.Plugged, uid string) (*corev1.Pod, *contract.PodNetwork, error) {
	pod := d.Pods.get(p.Pod)
	if pod == nil || !isPod(pod, uid) || string(pod.UID) != p.UID {
		return nil, nil, fmt.Errorf("port %s is of UID %s, which is not the pod's", p.Link, p.UID)
	}
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], p.Pod.NetworkKey())
	if err != nil || network == nil {
		return nil, nil, fmt.Errorf("pod %s has no usable %s", p.Pod, contract.PodNetworksKey)
	}
	return pod, network, nil
}

// hasNetdev is false for a device that VFIO has: there is nothing to look at.
func (d *Deps) hasNetdev(p plug.Plugged) bool {
	claim, ok := d.claimOf(p)
	return !ok || claim.Original == nil || claim.Original.Name != ""
}

// netnsOf is the path of the namespace of a port's netdev, "" where there is none. A device's claim says it.
func (d *Deps) netnsOf(p plug.Plugged) string {
	if claim, ok := d.claimOf(p); ok && d.hasNetdev(p) {
		return claim.NetNS
	}
	return p.Netns
}

// claimOf is that of the device of a port.
func (d *Deps) claimOf(p plug.Plugged) (claim ledger.Claim, ok bool) {
	if d.Functions == nil {
		return claim, false
	}
	claims := d.Functions.Ledger.Where(func(c ledger.Claim) bool { return c.Sandbox == p.Sandbox && c.Interface == p.IfName })
	if len(claims) == 0 {
		return claim, false
	}
	return claims[0], true
}
