package cni

import (
	"context"
	"errors"
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Detach removes what a sandbox has, and nothing of another sandbox of the same
// pod. It does the same again without error. An error means that something may
// be left, which Sweep removes.
func Detach(ctx context.Context, d Deps, r *Request) error {
	p, ok, err := plugged(d.Switch, r.Pod)
	if ok && p.Sandbox == r.Sandbox && p.IfName != r.IfName {
		return nil // the sandbox has its network on another interface
	}
	if ok && p.Sandbox == r.Sandbox {
		err = d.Switch.Unplug(ctx, p)
	}
	if err != nil || d.Functions == nil {
		return errors.Join(err, removeLink(d.Host, r.hostLink(), r.Sandbox))
	}
	for _, claim := range d.Functions.Mover.Of(r.Sandbox, r.IfName) {
		err = errors.Join(err, releaseDevice(ctx, d, claim))
	}
	return errors.Join(err, removeLink(d.Host, r.hostLink(), r.Sandbox))
}

// Check says in what an attachment differs from what ADD made.
func Check(d Deps, r *Request) error {
	a, ok, err := plugged(d.Switch, r.Pod)
	if err != nil {
		return fail(CodeCheck, "check: %v", err)
	}
	if !ok || a.Sandbox != r.Sandbox || a.IfName != r.IfName {
		return fail(CodeCheck, "check: OVS has no port of sandbox %s for pod %s", r.Sandbox, r.Pod)
	}
	if err := d.Switch.Check(a); err != nil {
		return fail(CodeCheck, "check: port %s: %v", a.Link, err)
	}
	if host, err := d.Host.Link(a.Link); a.Link != "" && (err != nil || !host.Up) {
		return fail(CodeCheck, "check: the host's link %s is absent or down", a.Link)
	}
	network, err := d.recorded(r, a)
	if err != nil {
		return fail(CodeCheck, "check: %v", err)
	}
	if a.Representor && !d.hasNetdev(r) {
		return nil
	}
	return d.checkInside(r, network)
}

// recorded is the network that the pod of an attachment is to have.
func (d *Deps) recorded(r *Request, a Plugged) (*contract.PodNetwork, error) {
	pod := d.Pods.get(r.Pod)
	if pod == nil || !isPod(pod, r.UID) || string(pod.UID) != a.UID {
		return nil, fmt.Errorf("port %s is of UID %s, which is not the pod's", a.Link, a.UID)
	}
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
	if err != nil || network == nil {
		return nil, fmt.Errorf("pod %s has no usable %s", r.Pod, contract.PodNetworksKey)
	}
	return network, nil
}

func (d *Deps) checkInside(r *Request, network *contract.PodNetwork) error {
	ns, err := d.OpenNS(r.Netns)
	if err != nil {
		return fail(CodeCheck, "check: %v", err)
	}
	defer func() { _ = ns.Close() }()
	if err := checkLink(ns, r.IfName, network); err != nil {
		return fail(CodeCheck, "check: in %s: %v", r.Netns, err)
	}
	return nil
}

// hasNetdev is false for a device that VFIO has: there is nothing to look at.
func (d *Deps) hasNetdev(r *Request) bool {
	if d.Functions == nil {
		return true
	}
	for _, claim := range d.Functions.Mover.Of(r.Sandbox, r.IfName) {
		if claim.Original != nil && claim.Original.Name == "" {
			return false
		}
	}
	return true
}
