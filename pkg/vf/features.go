package vf

import "github.com/ovn-offload/ovn-offload/pkg/netdev"

// features are hw-tc-offload by the index of a link. They are kept because each
// question takes the kernel's lock of links three times, and drivers hold that
// lock for long while they bring VFs up. A change has an event of its link.
type features map[int]bool

func (f features) hwTC(kernel Kernel, link string, index int) (bool, error) {
	if on, ok := f[index]; ok && index != 0 {
		return on, nil
	}
	answer, err := kernel.Features(link)
	if err != nil {
		return false, err
	}
	f[index] = answer.HWTC
	return answer.HWTC, nil
}

// forget drops what an event says may have changed.
func (f features) forget(e netdev.DeviceEvent) {
	switch e.Source {
	case "link":
		delete(f, e.Index)
	case "lost":
		clear(f)
	}
}
