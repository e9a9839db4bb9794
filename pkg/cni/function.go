package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/cni/podlink"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/attach"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// Functions are the VFs of the node that pods can have.
type Functions struct {
	// Resources are those whose devices become a pod's network. Of several that
	// a pod asks for, the first here is it.
	Resources []string
	// Given asks the kubelet which devices a pod has, by resource.
	Given func(ctx context.Context, pod types.NamespacedName, uid types.UID) (map[string][]string, error)
	// Spare lists the devices for pods that ask for none; nil: those get veths.
	Spare func() []string
	// Reserved are the devices that no configuration may name; nil: none.
	Reserved func() map[string]bool
	// VF looks into the inventory.
	VF     func(device string) (vf.Handle, error)
	Ledger *ledger.Ledger
	Mover  *attach.Mover
}

// claimDevice finds out whether the pod is to have a device, and takes it for
// this sandbox. A pod that asks for one never gets a veth instead.
func (a *iface) claimDevice(ctx context.Context) error {
	ids, resource, err := a.given(ctx)
	if err != nil || ids == nil {
		return err
	}
	if a.Functions == nil {
		return fail(CodeDevice, "device: pod %s has %v, and this node hands out no devices", a.req.Pod, ids)
	}
	inode, err := a.Functions.Mover.Inode(a.req.Netns)
	if err != nil {
		return fail(cnitypes.ErrInvalidNetNS, "device: %v", err)
	}
	claim, err := a.take(ctx, ids, ledger.Claim{
		Resource: resource, Pod: types.NamespacedName{Namespace: a.req.Pod.Namespace, Name: a.req.Pod.Name},
		UID: types.UID(a.uid), Sandbox: a.req.Sandbox, Interface: a.name, Network: a.req.Conf.Name,
		Attachment: a.req.IfName, PodNetwork: a.pod.Network,
		NetNS: a.req.Netns, Inode: inode, MTU: a.mtu,
	})
	if err != nil {
		return a.failed(CodeDevice, "device", err)
	}
	if claim.Phase != ledger.Attached { // else an earlier ADD has attached it
		a.undo = append(a.undo, func(ctx context.Context) error { return releaseDevice(ctx, a.Deps, claim) })
	}
	v, err := a.Functions.VF(claim.Device)
	if err == nil && v.Driver == "" {
		err = fmt.Errorf("VF %s has no driver", v.Device)
	}
	var original ledger.Original
	if err == nil {
		original, err = a.Functions.Mover.Prepare(v, a.req.Sandbox)
	}
	if err != nil {
		return a.failed(CodeDevice, "device", err)
	}
	a.vf, a.netdev = &v, original.Name
	return nil
}

// given gives the devices of which the interface gets one, nil for a veth.
// A device that the configuration names, as Multus does, is the only one.
func (a *iface) given(ctx context.Context) (ids []string, resource string, err error) {
	id := a.device
	if _, err := vf.ParsePCIAddress(id); id != "" && err != nil {
		return nil, "", fail(cnitypes.ErrInvalidNetworkConfig, "device: deviceID: %v", err)
	}
	switch {
	case id != "" && a.Functions == nil:
		return []string{id}, "", nil // which is refused
	case id != "":
		return []string{id}, "", a.checkNamed(ctx, id)
	case a.Functions == nil:
		return nil, "", nil
	}
	return a.requested(ctx)
}

// requested gives devices of what the pod asks for.
func (a *iface) requested(ctx context.Context) (ids []string, resource string, err error) {
	pod, resources := a.Pods.get(a.req.Pod), a.resources()
	switch resource, initial := requested(pod, resources); {
	case resource == "" && len(resources) > 0 && a.pod.Network != "":
		return nil, "", fail(CodeDevice, "device: network %s needs a device of %s, and pod %s asks for none: add %s to the limits of one of its containers",
			a.pod.Network, resources[0], a.req.Pod, resources[0])
	case initial != "":
		return nil, resource, fail(CodeDevice, "device: pod %s asks for %s in its init container %s only, and the kubelet does not tell "+
			"which device that gets: make the pod again with this limit in one of its containers, too, which gets the same device",
			a.req.Pod, resource, initial)
	}
	for _, resource := range resources {
		if asked, initial := requested(pod, []string{resource}); asked == "" || initial != "" {
			continue
		}
		if ids, err := a.ofResource(ctx, pod, resource); err != nil || len(ids) > 0 {
			return ids, resource, err
		}
	}
	ids, err = a.spare()
	return ids, "", err
}

// resources are those of which the first that the pod asks for is the interface's.
func (a *iface) resources() []string {
	switch {
	case a.pod.Network == "":
		return a.Functions.Resources
	case a.network.Resource != "":
		return []string{a.network.Resource}
	}
	return nil
}

// ofResource gives the pod's devices of a resource, nil where the interface has no part in them.
func (a *iface) ofResource(ctx context.Context, pod *corev1.Pod, resource string) ([]string, error) {
	devices, err := a.fromKubelet(ctx)
	ids := devices[resource]
	switch others := withResource(pod, resource); {
	case err != nil:
		return nil, err
	case a.pod.Network == "" && len(ids) > 0 && len(ids) <= others:
		return nil, nil // all of them are for further networks
	case len(ids) == 0:
		return nil, fail(CodeDevice, "device: pod %s asks for %s, and the kubelet has given it none", a.req.Pod, resource)
	}
	return ids, nil
}

// withResource counts the pod's further networks that need a device of the resource.
func withResource(pod *corev1.Pod, resource string) (count int) {
	for _, key := range podlink.Further(pod) {
		n, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], key)
		if err == nil && n != nil && n.Resource == resource {
			count++
		}
	}
	return count
}

func (a *attachment) fromKubelet(ctx context.Context) (map[string][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.DeviceTimeout)
	defer cancel()
	pod := types.NamespacedName{Namespace: a.req.Pod.Namespace, Name: a.req.Pod.Name}
	devices, err := a.Functions.Given(ctx, pod, types.UID(a.uid))
	if err != nil {
		return nil, a.waited(ctx, CodeDevice, "device", err)
	}
	return devices, nil
}

// checkNamed believes a configuration only what the kubelet confirms: a tenant may
// write network configurations. A device that this sandbox has already was checked.
func (a *attachment) checkNamed(ctx context.Context, id string) error {
	if held, ok := a.Functions.Ledger.Holder(id); ok && string(held.UID) == a.uid && held.Sandbox == a.req.Sandbox {
		return nil
	}
	if a.Functions.Reserved != nil && a.Functions.Reserved()[id] {
		return fail(CodeDevice, "device: VF %s of the network configuration is reserved", id)
	}
	devices, err := a.fromKubelet(ctx)
	if err != nil {
		return err
	}
	for _, ids := range devices {
		if slices.Contains(ids, id) {
			return nil
		}
	}
	return fail(CodeDevice, "device: the network configuration names VF %s, and the kubelet has not given it to pod %s", id, a.req.Pod)
}

// spare is for pods that ask for no device.
func (a *attachment) spare() ([]string, error) {
	if a.Functions.Spare == nil {
		return nil, nil
	}
	ids := a.Functions.Spare()
	if len(ids) == 0 {
		return nil, fail(CodeDevice, "device: pod %s asks for no device, and this node has none that is reserved for such pods", a.req.Pod)
	}
	return ids, nil
}

// requested gives the first of the resources that a container is limited to some of.
// What the kubelet gives to init containers it does not tell, unless they run on
// as sidecars; so where no other asks for any, initial is the one that does.
func requested(pod *corev1.Pod, resources []string) (resource, initial string) {
	if pod == nil {
		return "", ""
	}
	if resource, _ := limited(contract.RunningContainers(pod), resources); resource != "" {
		return resource, ""
	}
	return limited(pod.Spec.InitContainers, resources)
}

func limited(containers []corev1.Container, resources []string) (resource, container string) {
	for _, resource := range resources {
		for _, c := range containers {
			if q := c.Resources.Limits[corev1.ResourceName(resource)]; !q.IsZero() {
				return resource, c.Name
			}
		}
	}
	return "", ""
}

// take claims one of the devices. The kubelet gives a device to the next pod
// before the DEL of the last one has run; so a holder that is not a pod of this
// node any more, or is this pod's former sandbox, makes way first. The latter does
// so even when another device is free: the network is the first of several.
func (a *iface) take(ctx context.Context, ids []string, c ledger.Claim) (ledger.Claim, error) {
	for _, former := range a.Functions.Ledger.Where(func(h ledger.Claim) bool { return h.UID == c.UID && h.Sandbox != c.Sandbox }) {
		_ = releaseDevice(ctx, a.Deps, former) // another will do, or Take says who is in the way
	}
	for range len(ids) + 1 {
		claim, err := a.Functions.Ledger.Take(ids, c)
		var busy *ledger.BusyError
		if !errors.As(err, &busy) {
			return claim, err
		}
		i := slices.IndexFunc(busy.Holders, func(h ledger.Claim) bool { return a.isStale(h) })
		if i < 0 {
			return claim, err
		}
		if err := releaseDevice(ctx, a.Deps, busy.Holders[i]); err != nil {
			return claim, err
		}
	}
	return c, fmt.Errorf("devices %v are claimed as fast as they are released", ids)
}

// isStale reports whether a claim's sandbox has lost its point.
func (a *attachment) isStale(held ledger.Claim) bool {
	if string(held.UID) == a.uid {
		return held.Sandbox != a.req.Sandbox
	}
	pod := a.Pods.get(owner(held))
	return pod == nil || pod.UID != held.UID ||
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// owner is the claim's pod on the interface's network.
func owner(c ledger.Claim) contract.Owner {
	return contract.PodOwner(c.Pod.Namespace, c.Pod.Name).On(c.PodNetwork)
}

// moveDevice takes the device into the pod, where its representor is a port by
// now. VFIO's are a guest's to configure.
func (a *iface) moveDevice(ctx context.Context, ns PodLinks) error {
	target := attach.Target{Name: a.name, MAC: net.HardwareAddr(a.network.MAC), MTU: a.mtu}
	if err := a.Functions.Mover.Attach(ctx, *a.vf, a.req.Sandbox, target); err != nil {
		return a.failed(CodeAttach, "attach", err)
	}
	if !a.vf.VFIO {
		if err := a.configure(ns); err != nil {
			return err
		}
	}
	if err := a.Functions.Mover.Commit(a.vf.Device, a.req.Sandbox); err != nil {
		return a.failed(CodeAttach, "attach", err)
	}
	return nil
}

// releaseDevice removes a claim's representor from the switch, detaches the device and ends the claim, in this order. So
// a representor that is a port always has a claim.
func releaseDevice(ctx context.Context, d Deps, c ledger.Claim) error {
	p, ok, err := plug.Find(d.Plugger, owner(c))
	if err == nil && ok && p.Sandbox == c.Sandbox && p.IfName == c.Interface {
		err = d.Plugger.Unplug(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("releasing %s: %w", c.Device, err)
	}
	v, err := d.Functions.VF(c.Device)
	if err != nil {
		if present, _, presentErr := d.Functions.Mover.Present(c.Device); present || presentErr != nil {
			return fmt.Errorf("releasing %s: %w", c.Device, errors.Join(err, presentErr)) // its state cannot be read now
		}
		v = vf.Handle{Device: c.Device}
	}
	return d.Functions.Mover.Detach(ctx, v, c.Sandbox)
}
