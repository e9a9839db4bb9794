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

// facts are the DPU's devices, and its host's pods and Node. They decide which pod a representor belongs to.
type facts struct {
	Serves
	pods Pods
	node func() *corev1.Node

	mu        sync.Mutex
	inventory *vf.Inventory // nil before the first
}

func (f *facts) set(inv vf.Inventory) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inventory = &inv
}

func (f *facts) devices() *vf.Inventory {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inventory
}

func (f *facts) problem() error {
	switch inventory := f.devices(); {
	case inventory == nil:
		return errors.New("the DPU's devices are not known yet")
	case !slices.ContainsFunc(inventory.PFs, func(pf vf.PF) bool { return pf.Switchdev() }):
		return errors.New("no NIC of the DPU is in switchdev mode")
	}
	return nil
}

// representor is that of the function that the details name.
func (f *facts) representor(details *contract.DPUConnection) (vf.Representor, error) {
	inventory := f.devices()
	if inventory == nil {
		return vf.Representor{}, fmt.Errorf("%w: the DPU's devices are not known yet", reconcile.ErrNotReady)
	}
	found, err := find(*inventory, f.Serves, details)
	if err != nil && slices.ContainsFunc(inventory.PFs, func(pf vf.PF) bool { return pf.Eswitch.Mode == vf.Unknown }) {
		err = fmt.Errorf("%w: a NIC of the DPU does not say in which mode its eswitch is: %w", reconcile.ErrNotReady, err)
	}
	return found, err
}

// holder names the other owner of a representor: the live pod whose port it is, or, if it is no port, the host's
// management port or the pod whose status is Ready. Empty: the representor is free for this pod.
func (f *facts) holder(c claimant, link string, plugged []plug.Plugged) string {
	var ported contract.Owner
	for _, port := range plugged {
		if port.Link == link {
			ported = port.Pod
		}
	}
	if ported == c.owner {
		return ""
	}
	if own, _ := f.management(); own != nil && own.Name == link {
		return "the host's management port"
	}
	for _, pod := range f.pods.PodsOnNode(f.Host) {
		for _, other := range claimants(pod) {
			if other.owner == c.owner || !f.claims(other, link) {
				continue
			}
			if other.owner == ported || ported == (contract.Owner{}) && other.isReady() && !c.isReady() {
				return "pod " + pod.Namespace + "/" + pod.Name
			}
		}
	}
	return ""
}

func (f *facts) claims(c claimant, link string) bool {
	details, err := c.details(f.Host)
	if err != nil || details == nil {
		return false
	}
	representor, err := f.representor(details)
	return err == nil && representor.Name == link
}

// isClaimed reports whether a port's pod claims the port, or may claim it while facts are missing.
func (f *facts) isClaimed(port plug.Plugged) bool {
	details, err := claimant{owner: port.Pod, pod: f.pods.Pod(port.Pod.Namespace, port.Pod.Name)}.details(f.Host)
	if err != nil || details == nil {
		return false
	}
	_, err = f.representor(details)
	return err == nil || errors.Is(err, reconcile.ErrNotReady)
}
