package dpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// CodeRefused is the CNI error code of what the DPU refuses, with its reason.
const CodeRefused uint = 120

// releaseTimeout is how long an unplug waits for the DPU, which is alive.
const releaseTimeout = 10 * time.Second

// Host is the Switch of a machine whose pods have their ports on a DPU. What it
// knows is in the pods' annotations, so it may be killed at any time.
type Host struct {
	Node string
	View Pods
	// Waiting is the same pods, with waiting on top.
	Waiting *cni.Pods
	// Annotate sets annotations of a pod; "" removes one.
	Annotate func(ctx context.Context, pod *corev1.Pod, annotations map[string]string) error
	// Ready says why the DPU attaches no pods.
	Ready func() error
}

var _ plug.Plugger = (*Host)(nil)

// Plug writes the pod's details, unless they say the same already, and returns
// when the informer has them: an Unplug that follows at once must see them.
func (h *Host) Plug(ctx context.Context, p plug.Port) (link string, err error) {
	if p.VF == nil {
		return "", errors.New("this host's pods have their ports on a DPU: a pod needs a VF of its NIC")
	}
	if p.VF.Card == vf.CardOther {
		return "", notOfDPU(*p.VF)
	}
	pod := h.View.Pod(p.Pod.Namespace, p.Pod.Name)
	if pod == nil || string(pod.UID) != p.UID {
		return "", fmt.Errorf("pod %s was deleted or replaced", p.Pod)
	}
	if err := h.write(ctx, pod, p.Pod, details(p)); err != nil {
		return "", err
	}
	return "", h.Waiting.Wait(ctx, p.Pod, func(pod *corev1.Pod) (bool, error) {
		switch {
		case pod == nil || string(pod.UID) != p.UID:
			return true, fmt.Errorf("pod %s was deleted or replaced", p.Pod)
		case sandboxOf(pod, p.Pod) != p.Sandbox:
			return false, errors.New("the API server does not show its details yet")
		}
		return true, nil
	})
}

// notOfDPU is the error of a VF that does not lead to the DPU.
func notOfDPU(v vf.Handle) error {
	return fmt.Errorf("VF %s is of another NIC than the DPU of this host, which has the network of its pods", v.Device)
}

// details names the VF by the numbers that the NIC's eswitch has.
func details(p plug.Port) *contract.DPUConnection {
	number := contract.FunctionNumber(p.VF.Function.Number)
	c := &contract.DPUConnection{
		PF: contract.FunctionNumber(p.VF.Function.PF), VF: &number, PFMAC: contract.MAC(p.VF.PFMAC),
		OfDPU: p.VF.Card == vf.CardDPU, Sandbox: p.Sandbox, Interface: p.IfName, Network: p.Network,
	}
	if p.Attachment != p.IfName {
		c.Attachment = p.Attachment
	}
	if !p.VF.VFIO {
		c.Netdev = p.Netdev
	}
	return c
}

// write sets the details of the pod's port on the owner's network.
func (h *Host) write(ctx context.Context, pod *corev1.Pod, owner contract.Owner, details *contract.DPUConnection) error {
	var value any
	if details != nil {
		value = details
	}
	text, err := contract.SetNetwork(pod.Annotations[contract.DPUConnectionKey], owner.NetworkKey(), value)
	if err != nil {
		return err
	}
	return h.Annotate(ctx, pod, map[string]string{contract.DPUConnectionKey: text})
}

// Wait waits for the DPU's answer about this sandbox.
func (h *Host) Wait(ctx context.Context, p plug.Port) error {
	err := h.Waiting.Wait(ctx, p.Pod, func(pod *corev1.Pod) (bool, error) {
		if pod == nil || string(pod.UID) != p.UID {
			return true, fmt.Errorf("pod %s was deleted or replaced", p.Pod)
		}
		status, err := answer(pod, p.Plugged)
		switch {
		case err != nil:
			return false, err
		case status == nil:
			return false, errors.New("the DPU has not answered")
		case status.Status == contract.DPUReady:
			return true, nil
		}
		return true, types.NewError(CodeRefused, "the DPU of this host: "+status.Reason, "")
	})
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, h.Ready()) // why it may not have answered
	}
	return err
}

// answer is the DPU's status of a port; nil while there is none of its sandbox.
func answer(pod *corev1.Pod, p plug.Plugged) (*contract.DPUStatus, error) {
	status, err := contract.ParseDPUStatus(pod.Annotations[contract.DPUStatusKey], p.Pod.NetworkKey())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", contract.DPUStatusKey, err)
	}
	if status == nil || status.Sandbox != "" && status.Sandbox != p.Sandbox {
		return nil, nil
	}
	if status.Sandbox == "" && status.Status == contract.DPUReady {
		return nil, fmt.Errorf("%s names no sandbox, so it may be that of an earlier one", contract.DPUStatusKey)
	}
	return status, nil
}

// Check asks the DPU's last answer.
func (h *Host) Check(p plug.Plugged) error {
	pod := h.View.Pod(p.Pod.Namespace, p.Pod.Name)
	if pod == nil || string(pod.UID) != p.UID {
		return fmt.Errorf("pod %s was deleted or replaced", p.Pod)
	}
	status, err := answer(pod, p)
	switch {
	case err != nil:
		return err
	case status == nil:
		return errors.New("the DPU has not answered")
	case status.Status != contract.DPUReady:
		return fmt.Errorf("the DPU of this host: %s", status.Reason)
	}
	return nil
}

// Unplug removes the pod's details and waits until the DPU has let go of the
// function. A disconnected DPU does so when it reconnects, before it answers for
// the function's next pod.
func (h *Host) Unplug(ctx context.Context, p plug.Plugged) error {
	pod := h.View.Pod(p.Pod.Namespace, p.Pod.Name)
	if pod == nil || string(pod.UID) != p.UID {
		return nil // the DPU sees that, too
	}
	if sandboxOf(pod, p.Pod) != p.Sandbox {
		return nil
	}
	err := h.write(ctx, pod, p.Pod, nil)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	return h.Waiting.Wait(ctx, p.Pod, func(pod *corev1.Pod) (bool, error) {
		switch {
		case pod == nil || string(pod.UID) != p.UID:
			return true, nil
		case sandboxOf(pod, p.Pod) == p.Sandbox:
			return false, errors.New("the API server still shows its details")
		case h.away():
			return true, nil
		}
		// A status that cannot be read is not of this sandbox either.
		status, _ := contract.ParseDPUStatus(pod.Annotations[contract.DPUStatusKey], p.Pod.NetworkKey())
		if status == nil || status.Sandbox != p.Sandbox {
			return true, nil
		}
		return false, errors.New("the DPU has not let go of its function")
	})
}

// away is without waiting for it: a DPU that comes back sees what has changed.
func (h *Host) away() bool { return h.Ready() != nil }

// sandboxOf is "" for a pod without details, on the owner's network, that can be read.
func sandboxOf(pod *corev1.Pod, owner contract.Owner) string {
	details, err := contract.ParseDPUConnection(pod.Annotations[contract.DPUConnectionKey], owner.NetworkKey())
	if err != nil || details == nil {
		return ""
	}
	return details.Sandbox
}

// Plugged reads the annotations of the host's pods.
func (h *Host) Plugged(pods ...contract.Owner) ([]plug.Plugged, error) {
	var list []plug.Plugged
	if len(pods) == 0 {
		for _, pod := range h.View.PodsOnNode(h.Node) {
			list = append(list, portsOf(pod)...)
		}
	}
	for _, owner := range pods {
		list = append(list, portsOf(h.View.Pod(owner.Namespace, owner.Name))...)
	}
	return list, nil
}

// portsOf are the ports that a pod's details are for, on all its networks.
func portsOf(pod *corev1.Pod) (list []plug.Plugged) {
	if pod == nil {
		return nil
	}
	for _, network := range contract.Networks(pod.Annotations[contract.DPUConnectionKey]) {
		owner := contract.PodOwner(pod.Namespace, pod.Name).On(network)
		details, err := contract.ParseDPUConnection(pod.Annotations[contract.DPUConnectionKey], owner.NetworkKey())
		if err != nil || details == nil {
			continue
		}
		list = append(list, plug.Plugged{
			Pod: owner, UID: string(pod.UID), Sandbox: details.Sandbox, IfName: details.Interface,
			Attachment: cmp.Or(details.Attachment, details.Interface), Network: details.Network, Representor: true,
		})
	}
	return list
}
