package cni

import (
	"context"
	"errors"
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// Detach removes what a sandbox has, and nothing of another sandbox of the same
// pod. It does the same again without error. An error means that something may
// be left, which Sweep removes.
func Detach(ctx context.Context, d Deps, r *Request) error {
	if a, ok := find(d.DB, r.Pod); ok && a.sandbox == r.Sandbox && a.ifName != r.IfName {
		return nil // the sandbox has its network on another interface
	}
	return errors.Join(removeRows(ctx, d.DB, r), removeLink(d.Host, r.hostLink(), r.Sandbox))
}

// removeRows deletes the pod's rows if they are of this sandbox and interface.
func removeRows(ctx context.Context, db DB, r *Request) error {
	a, ok := find(db, r.Pod)
	if !ok || a.sandbox != r.Sandbox || a.ifName != r.IfName {
		return nil
	}
	return removeAttached(ctx, db, a.owner)
}

func removeAttached(ctx context.Context, db DB, owner kube.Owner) error {
	if err := commit(ctx, db, ovsdb.Want{Owner: owner.String()}); err != nil {
		return fmt.Errorf("removing the port of %s: %w", owner, err)
	}
	return nil
}

// Check says in what an attachment differs from what ADD made.
func Check(d Deps, r *Request) error {
	a, ok := find(d.DB, r.Pod)
	if !ok || a.sandbox != r.Sandbox || a.ifName != r.IfName {
		return fail(CodeCheck, "check: OVS has no port of sandbox %s for pod %s", r.Sandbox, r.Pod)
	}
	if a.trouble != "" {
		return fail(CodeCheck, "check: port %s: ovs-vswitchd: %s", a.link, a.trouble)
	}
	if !a.flows {
		return fail(CodeCheck, "check: port %s: ovn-controller has not set %s", a.link, installedKey)
	}
	if host, err := d.Host.Link(a.link); err != nil || !host.Up {
		return fail(CodeCheck, "check: the host's link %s is absent or down", a.link)
	}
	pod := d.Pods.get(r.Pod)
	if pod == nil || !isPod(pod, r.UID) || string(pod.UID) != a.uid {
		return fail(CodeCheck, "check: port %s is of UID %s, which is not the pod's", a.link, a.uid)
	}
	network, err := kube.ParsePodNetwork(pod.Annotations[kube.PodNetworksKey], kube.DefaultNetwork)
	if err != nil || network == nil {
		return fail(CodeCheck, "check: pod %s has no usable %s", r.Pod, kube.PodNetworksKey)
	}
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
