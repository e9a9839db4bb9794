package ipam

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// machineMAC is a MAC of a virtual machine, by namespace and name.
type machineMAC struct {
	machine string
	mac     [6]byte
}

func machineOf(pod *corev1.Pod) string {
	if name := pod.Labels[contract.VMLabel]; name != "" {
		return pod.Namespace + "/" + name
	}
	return ""
}

// holdFor is hold for a pod, which may have a virtual machine.
func (p *pods) holdFor(owner contract.Owner, pod *corev1.Pod, addrs []netip.Addr, mac contract.MAC) *holding {
	h := p.hold(owner, pod.UID, addrs, mac)
	p.runs(h, pod)
	return h
}

// runs notes the virtual machine of the pod that a holding is of.
func (p *pods) runs(h *holding, pod *corev1.Pod) {
	if h.machine = machineOf(pod); h.machine != "" {
		p.machines[machineMAC{h.machine, h.mac}]++
	}
}

// sibling is the holding of another pod of the same virtual machine that has exactly the addresses that a pod asks for, with the
// MAC that the pod asks for, if any; nil without one. The virtual machine moves between the two.
func (p *pods) sibling(pod *corev1.Pod, addrs []netip.Addr, mac contract.MAC) *holding {
	machine := machineOf(pod)
	if machine == "" || len(addrs) == 0 || !p.isShared() {
		return nil
	}
	h := p.byAddr[addrs[0]]
	if h == nil || h.machine != machine || !slices.Equal(h.addrs, addrs) || mac != nil && !slices.Equal(mac, h.mac[:]) {
		return nil
	}
	return h
}

// isOthers says that a MAC on the switch that has the blocks is not only that of the pod's own virtual machine.
func (p *pods) isOthers(pod *corev1.Pod, blocks blocks, mac [6]byte) bool {
	own := p.isShared() && !p.routers[mac] && p.macs[mac] == p.machines[machineMAC{machineOf(pod), mac}]
	return p.hasMAC(blocks, mac) && !own
}
