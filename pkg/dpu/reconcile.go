package dpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// maxReason is the length of a status' reason in bytes.
const maxReason = 512

// reconcile makes one pod's port what its details claim, and says how it went.
func (p *Ports) reconcile(ctx context.Context, owner contract.Owner) error {
	seen := p.known.devices()
	pod := p.deps.Pods.Pod(owner.Namespace, owner.Name)
	details, refusal := claim(pod, p.cfg.Host)
	if details == nil && refusal == nil {
		return p.withdraw(ctx, owner, pod)
	}
	var want cni.Port
	if refusal == nil {
		var err error
		if want, err = p.wanted(pod, details); errors.Is(err, reconcile.ErrNotReady) {
			return err
		} else if err != nil {
			refusal = err
		}
	}
	if refusal != nil {
		return p.refuse(ctx, pod, details, seen, refusal)
	}
	return p.plug(ctx, pod, want)
}

// claim reads a live pod's details; nil and no error when it has none. A pod of
// another node is not listened to, whatever is written on it.
func claim(pod *corev1.Pod, host string) (*contract.DPUConnection, error) {
	switch {
	case pod == nil, pod.Spec.NodeName != host, pod.Spec.HostNetwork:
		return nil, nil
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return nil, nil
	}
	details, err := contract.ParseDPUConnection(pod.Annotations[contract.DPUConnectionKey], contract.DefaultNetwork)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", contract.DPUConnectionKey, err)
	}
	return details, nil
}

// wanted is the port that a pod should have.
func (p *Ports) wanted(pod *corev1.Pod, details *contract.DPUConnection) (cni.Port, error) {
	representor, err := p.known.representor(details)
	if err != nil {
		return cni.Port{}, err
	}
	plugged, _ := p.deps.Switch.Plugged() // without it nothing can be plugged either
	if holder := p.known.holder(pod, representor.Name, plugged); holder != "" {
		return cni.Port{}, fmt.Errorf("function %s is that of %s", representor.Function, holder)
	}
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
	if err != nil || network == nil {
		return cni.Port{}, fmt.Errorf("%w: pod %s/%s has no usable %s", reconcile.ErrNotReady, pod.Namespace, pod.Name, contract.PodNetworksKey)
	}
	return cni.Port{
		Plugged: cni.Plugged{
			Pod: contract.PodOwner(pod.Namespace, pod.Name), UID: string(pod.UID), Sandbox: details.Sandbox,
			IfName: details.Interface, Attachment: details.Interface, Network: details.Network, Link: representor.Name, Representor: true,
		},
		Device: &cni.Device{ID: representor.Name, Netdev: details.Netdev, VFIO: details.Netdev == ""},
		MAC:    []byte(network.MAC), Addresses: network.Addresses, MTU: p.deps.MTU(),
	}, nil
}

// told says that the pod's status is Ready for the sandbox that it has now.
func told(pod *corev1.Pod) bool {
	details, _ := contract.ParseDPUConnection(pod.Annotations[contract.DPUConnectionKey], contract.DefaultNetwork)
	status, _ := contract.ParseDPUStatus(pod.Annotations[contract.DPUStatusKey], contract.DefaultNetwork)
	return details != nil && status != nil && status.Status == contract.DPUReady && status.Sandbox == details.Sandbox
}

// plug gives the pod its port.
func (p *Ports) plug(ctx context.Context, pod *corev1.Pod, want cni.Port) error {
	if err := p.bridge.place(ctx, want); err != nil {
		if now := p.deps.Pods.Pod(pod.Namespace, pod.Name); now != nil && told(now) { // it runs, and OVS will be back
			return err
		}
		return errors.Join(err, p.tell(ctx, pod, want.Sandbox, err))
	}
	done, err := p.bridge.flows(ctx, want)
	if !done {
		return nil
	}
	return errors.Join(err, p.tell(ctx, pod, want.Sandbox, err))
}

// refuse answers a claim that cannot be met with the devices that were seen. What
// the pod had is taken away; an event of the inventory or of another pod brings it
// back.
func (p *Ports) refuse(ctx context.Context, pod *corev1.Pod, details *contract.DPUConnection, seen *vf.Inventory, cause error) error {
	owner := contract.PodOwner(pod.Namespace, pod.Name)
	if p.keeps(owner) || p.known.devices() != seen {
		return fmt.Errorf("%w: %w", reconcile.ErrNotReady, cause)
	}
	p.mu.Lock()
	warned := p.refused[owner]
	p.refused[owner] = warned
	p.mu.Unlock()
	if err := p.bridge.unplugPod(ctx, owner); err != nil {
		return err
	}
	sandbox := ""
	if details != nil {
		sandbox = details.Sandbox
	}
	if told(pod) && !warned { // it runs, and is without its network
		p.deps.Warn(owner, "FunctionLost", "DPU of "+p.cfg.Host+": "+cause.Error())
		p.mu.Lock()
		p.refused[owner] = true
		p.mu.Unlock()
	}
	if err := p.tell(ctx, pod, sandbox, cause); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", reconcile.ErrNotReady, cause)
}

// withdraw removes what a pod has that claims nothing, its status last: its end
// tells the host that the function can be used again.
func (p *Ports) withdraw(ctx context.Context, owner contract.Owner, pod *corev1.Pod) error {
	if err := p.bridge.unplugPod(ctx, owner); err != nil {
		return err
	}
	p.bridge.forget(owner)
	p.mu.Lock()
	delete(p.refused, owner)
	p.mu.Unlock()
	p.freed()
	if pod == nil {
		return nil
	}
	return p.annotate(ctx, pod, nil)
}

// freed lets those try again who may have been refused for what is free now.
func (p *Ports) freed() {
	p.mu.Lock()
	waiting := slices.Collect(maps.Keys(p.refused))
	p.mu.Unlock()
	p.loop.Mark(waiting...)
}

// tell writes the outcome of a claim. What fails because the agent stops is none.
func (p *Ports) tell(ctx context.Context, pod *corev1.Pod, sandbox string, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if cause != nil {
		return p.annotate(ctx, pod, &contract.DPUStatus{Status: contract.DPUError, Sandbox: sandbox, Reason: short(cause)})
	}
	p.mu.Lock()
	delete(p.refused, contract.PodOwner(pod.Namespace, pod.Name))
	p.mu.Unlock()
	return p.annotate(ctx, pod, &contract.DPUStatus{Status: contract.DPUReady, Sandbox: sandbox})
}

// short keeps a reason to what an annotation should hold.
func short(err error) string {
	text := err.Error()
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason-3], "") + "..."
	}
	return text
}

// annotate writes the status, nil removing it. A pod that is gone needs none.
func (p *Ports) annotate(ctx context.Context, pod *corev1.Pod, status *contract.DPUStatus) error {
	var value any
	if status != nil {
		value = status
	}
	text, err := contract.SetNetwork(pod.Annotations[contract.DPUStatusKey], contract.DefaultNetwork, value)
	if err != nil {
		return err
	}
	if text != pod.Annotations[contract.DPUStatusKey] {
		p.metrics.status(status)
	}
	err = p.deps.Annotate(ctx, pod, map[string]string{contract.DPUStatusKey: text})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
