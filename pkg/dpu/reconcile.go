package dpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// maxReason is the length of a status' reason in bytes.
const maxReason = 512

// reconcile makes a pod's ports what its details claim. How it went on all networks is
// one write: of two, the second might be made of an annotation without the first.
func (p *Ports) reconcile(ctx context.Context, owner contract.Owner) error {
	pod := p.deps.Pods.Pod(owner.Namespace, owner.Name)
	was, status := "", ""
	if pod != nil {
		was = pod.Annotations[contract.DPUStatusKey]
		status = was
	}
	var failed, waiting error
	for _, on := range p.owners(owner) {
		switch err := p.reconcilePort(ctx, claimant{on, pod, &status}); {
		case errors.Is(err, reconcile.ErrNotReady):
			waiting = errors.Join(waiting, err)
		default:
			failed = errors.Join(failed, err)
		}
	}
	if status != was {
		err := p.deps.Annotate(ctx, pod, map[string]string{contract.DPUStatusKey: status})
		if !apierrors.IsNotFound(err) { // else it needs none
			failed = errors.Join(failed, err)
		}
	}
	return cmp.Or(failed, waiting)
}

func (p *Ports) reconcilePort(ctx context.Context, c claimant) error {
	seen := p.facts.devices()
	details, refusal := c.details(p.cfg.Host)
	if details == nil && refusal == nil {
		return p.withdraw(ctx, c)
	}
	var want plug.Port
	if refusal == nil {
		var err error
		if want, err = p.wanted(c, details); errors.Is(err, reconcile.ErrNotReady) {
			return err
		} else if err != nil {
			refusal = err
		}
	}
	if refusal != nil {
		return p.refuse(ctx, c, details, seen, refusal)
	}
	return p.plug(ctx, c, want)
}

// claimant is a pod on one of its networks; the pod is nil when it is gone.
type claimant struct {
	owner contract.Owner
	pod   *corev1.Pod
	// status is contract.DPUStatusKey as it is to be written.
	status *string
}

// claimants are a pod on each network that it has details or a status of.
func claimants(pod *corev1.Pod) (list []claimant) {
	if pod == nil {
		return nil
	}
	networks := slices.Concat(contract.Networks(pod.Annotations[contract.DPUConnectionKey]), contract.Networks(pod.Annotations[contract.DPUStatusKey]))
	slices.Sort(networks)
	for _, network := range slices.Compact(networks) {
		list = append(list, claimant{contract.PodOwner(pod.Namespace, pod.Name).On(network), pod, nil})
	}
	return list
}

// details reads a live pod's; nil and no error when it has none. A pod of another
// node is not listened to, whatever is written on it.
func (c claimant) details(host string) (*contract.DPUConnection, error) {
	pod := c.pod
	switch {
	case pod == nil, pod.Spec.NodeName != host, pod.Spec.HostNetwork:
		return nil, nil
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return nil, nil
	}
	details, err := contract.ParseDPUConnection(pod.Annotations[contract.DPUConnectionKey], c.owner.NetworkKey())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", contract.DPUConnectionKey, err)
	}
	if details != nil && !details.OfDPU && c.isReady() { // its host may be of a version that did not say this, and it runs
		details.OfDPU = true
	}
	return details, nil
}

// wanted is the port that a pod should have.
func (p *Ports) wanted(c claimant, details *contract.DPUConnection) (plug.Port, error) {
	representor, err := p.facts.representor(details)
	if err != nil {
		return plug.Port{}, err
	}
	plugged, _ := p.deps.Plugger.Plugged() // without it nothing can be plugged either
	if holder := p.facts.holder(c, representor.Name, plugged); holder != "" {
		return plug.Port{}, fmt.Errorf("function %s is that of %s", representor.Function, holder)
	}
	network, err := contract.ParsePodNetwork(c.pod.Annotations[contract.PodNetworksKey], c.owner.NetworkKey())
	if err != nil || network == nil {
		return plug.Port{}, fmt.Errorf("%w: pod %s/%s has no usable %s", reconcile.ErrNotReady, c.owner.Namespace, c.owner.Name, contract.PodNetworksKey)
	}
	return plug.Port{
		Plugged: plug.Plugged{
			Pod: c.owner, UID: string(c.pod.UID), Sandbox: details.Sandbox, IfName: details.Interface,
			Attachment: cmp.Or(details.Attachment, details.Interface), Network: details.Network, Link: representor.Name, Representor: true,
		},
		VF: &vf.Handle{Representor: representor.Name, VFIO: details.Netdev == ""}, Netdev: details.Netdev,
		MAC: []byte(network.MAC), Addresses: network.Addresses, NetworkName: network.Network, MTU: cmp.Or(network.MTU, p.deps.MTU()),
	}, nil
}

// isReady says that the pod's status is Ready for the sandbox that it has now.
func (c claimant) isReady() bool {
	details, _ := contract.ParseDPUConnection(c.pod.Annotations[contract.DPUConnectionKey], c.owner.NetworkKey())
	status, _ := contract.ParseDPUStatus(c.pod.Annotations[contract.DPUStatusKey], c.owner.NetworkKey())
	return details != nil && status != nil && status.Status == contract.DPUReady && status.Sandbox == details.Sandbox
}

// plug gives the pod its port.
func (p *Ports) plug(ctx context.Context, c claimant, want plug.Port) error {
	if err := p.bridge.place(ctx, want); err != nil {
		if now := p.deps.Pods.Pod(c.owner.Namespace, c.owner.Name); now != nil && (claimant{owner: c.owner, pod: now}).isReady() { // it runs, and OVS will be back
			return err
		}
		return errors.Join(err, p.tell(ctx, c, want.Sandbox, err))
	}
	done, err := p.bridge.flows(ctx, want)
	if !done {
		return nil
	}
	return errors.Join(err, p.tell(ctx, c, want.Sandbox, err))
}

// refuse answers a claim that cannot be met with the devices that were seen. What
// the pod had is taken away; an event of the inventory or of another pod brings it
// back.
func (p *Ports) refuse(ctx context.Context, c claimant, details *contract.DPUConnection, seen *vf.Inventory, cause error) error {
	if p.keeps(c.owner) || p.facts.devices() != seen {
		return fmt.Errorf("%w: %w", reconcile.ErrNotReady, cause)
	}
	p.mu.Lock()
	warned := p.refused[c.owner]
	p.refused[c.owner] = warned
	p.mu.Unlock()
	if err := p.bridge.unplugPod(ctx, c.owner); err != nil {
		return err
	}
	sandbox := ""
	if details != nil {
		sandbox = details.Sandbox
	}
	if c.isReady() && !warned { // it runs, and is without its network
		p.deps.Warn(c.owner.On(""), "FunctionLost", "DPU of "+p.cfg.Host+": "+cause.Error())
		p.mu.Lock()
		p.refused[c.owner] = true
		p.mu.Unlock()
	}
	if err := p.tell(ctx, c, sandbox, cause); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", reconcile.ErrNotReady, cause)
}

// withdraw removes what a pod has that claims nothing, its status last: its end
// tells the host that the function can be used again.
func (p *Ports) withdraw(ctx context.Context, c claimant) error {
	if err := p.bridge.unplugPod(ctx, c.owner); err != nil {
		return err
	}
	p.bridge.forget(c.owner)
	p.mu.Lock()
	delete(p.refused, c.owner)
	p.mu.Unlock()
	p.freed()
	if c.pod == nil {
		return nil
	}
	return p.setStatus(c, nil)
}

// freed lets those try again who may have been refused for what is free now.
func (p *Ports) freed() {
	p.mu.Lock()
	var waiting []contract.Owner
	for owner := range p.refused {
		waiting = append(waiting, owner.On(""))
	}
	p.mu.Unlock()
	p.loop.Mark(waiting...)
}

// tell is the outcome of a claim. What fails because the agent stops is none.
func (p *Ports) tell(ctx context.Context, c claimant, sandbox string, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if cause != nil {
		return p.setStatus(c, &contract.DPUStatus{Status: contract.DPUError, Sandbox: sandbox, Reason: short(cause)})
	}
	p.mu.Lock()
	delete(p.refused, c.owner)
	p.mu.Unlock()
	return p.setStatus(c, &contract.DPUStatus{Status: contract.DPUReady, Sandbox: sandbox})
}

// short keeps a reason to what an annotation should hold.
func short(err error) string {
	text := err.Error()
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason-3], "") + "..."
	}
	return text
}

// setStatus has the status written, nil removing it.
func (p *Ports) setStatus(c claimant, status *contract.DPUStatus) error {
	var value any
	if status != nil {
		value = status
	}
	text, err := contract.SetNetwork(*c.status, c.owner.NetworkKey(), value)
	if err != nil {
		return err
	}
	if text != *c.status {
		p.metrics.status(status)
	}
	*c.status = text
	return nil
}
