package dpu

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// known is what the DPU has been told: its devices, and its host's pods and Node.
// It decides whose a representor is.
type known struct {
	Serves
	pods Pods
	node func() *corev1.Node

	mu        sync.Mutex
	inventory *vf.Inventory // nil before the first
}

func (k *known) set(inv vf.Inventory) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inventory = &inv
}

func (k *known) devices() *vf.Inventory {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inventory
}

func (k *known) problem() error {
	switch inventory := k.devices(); {
	case inventory == nil:
		return errors.New("the DPU's devices are not known yet")
	case !slices.ContainsFunc(inventory.PFs, func(pf vf.PF) bool { return pf.Switchdev() }):
		return errors.New("no NIC of the DPU is in switchdev mode")
	}
	return nil
}

// representor is that of the function that the details name.
func (k *known) representor(details *contract.DPUConnection) (vf.Representor, error) {
	inventory := k.devices()
	if inventory == nil {
		return vf.Representor{}, fmt.Errorf("%w: the DPU's devices are not known yet", reconcile.ErrNotReady)
	}
	return find(*inventory, k.Serves, details)
}

// holder names who a representor belongs to rather than to this pod: the live pod
// whose port it is, or, when it is nobody's port, the host's management port, or
// the pod that was told that it has it.
func (k *known) holder(c claimant, link string, plugged []plug.Plugged) string {
	var ported contract.Owner
	for _, port := range plugged {
		if port.Link == link {
			ported = port.Pod
		}
	}
	if ported == c.owner {
		return ""
	}
	if own, _ := k.management(); own != nil && own.Name == link {
		return "the host's management port"
	}
	for _, pod := range k.pods.PodsOnNode(k.Host) {
		for _, other := range claimants(pod) {
			if other.owner == c.owner || !k.claims(other, link) {
				continue
			}
			if other.owner == ported || ported == (contract.Owner{}) && other.isReady() && !c.isReady() {
				return "pod " + pod.Namespace + "/" + pod.Name
			}
		}
	}
	return ""
}

func (k *known) claims(c claimant, link string) bool {
	details, err := c.details(k.Host)
	if err != nil || details == nil {
		return false
	}
	representor, err := k.representor(details)
	return err == nil && representor.Name == link
}

// stands reports whether a port is one that its pod claims, as far as is known.
func (k *known) stands(port plug.Plugged) bool {
	details, err := claimant{owner: port.Pod, pod: k.pods.Pod(port.Pod.Namespace, port.Pod.Name)}.details(k.Host)
	if err != nil || details == nil {
		return false
	}
	_, err = k.representor(details)
	return err == nil || errors.Is(err, reconcile.ErrNotReady)
}
