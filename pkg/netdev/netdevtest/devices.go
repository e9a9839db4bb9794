package netdevtest

import (
	"context"
	"slices"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// FakeDevices answers as Devices would, from what a test has put in. Features
// of a link that is not in the map are ErrNotFound.
type FakeDevices struct {
	Eswitches map[string]netdev.Eswitch // by PCI address
	Ports     []netdev.DevlinkPort
	Params    map[string]string // by bus/device/name
	HWTC      map[string]bool   // by link
	RDMAMode  string
	RDMALinks []netdev.RDMADevice
	// Fail, where set, is asked first, with the method's name.
	Fail func(op string) error

	mu       sync.Mutex
	watchers []chan netdev.DeviceEvent
}

// Eswitch looks in Eswitches.
func (f *FakeDevices) Eswitch(address string) (netdev.Eswitch, error) {
	if err := f.failure("Eswitch"); err != nil {
		return netdev.Eswitch{}, err
	}
	return f.Eswitches[address], nil
}

// DevlinkPorts gives those of Ports that are of the addresses, or all.
func (f *FakeDevices) DevlinkPorts(addresses ...string) (ports []netdev.DevlinkPort, err error) {
	if err := f.failure("DevlinkPorts"); err != nil {
		return nil, err
	}
	for _, p := range f.Ports {
		if len(addresses) == 0 || slices.Contains(addresses, p.Device) {
			ports = append(ports, p)
		}
	}
	return ports, nil
}

// DevlinkParam looks in Params.
func (f *FakeDevices) DevlinkParam(bus, device, name string) (string, error) {
	return f.Params[bus+"/"+device+"/"+name], f.failure("DevlinkParam")
}

// Features looks in HWTC.
func (f *FakeDevices) Features(link string) (netdev.Features, error) {
	on, ok := f.HWTC[link]
	if !ok {
		return netdev.Features{}, netdev.ErrNotFound
	}
	return netdev.Features{HWTC: on}, f.failure("Features")
}

// RDMA gives RDMAMode and RDMALinks.
func (f *FakeDevices) RDMA() (string, []netdev.RDMADevice, error) {
	return f.RDMAMode, f.RDMALinks, f.failure("RDMA")
}

// Watch reports what Tell is given.
func (f *FakeDevices) Watch(ctx context.Context) (<-chan netdev.DeviceEvent, error) {
	if err := f.failure("Watch"); err != nil {
		return nil, err
	}
	out := make(chan netdev.DeviceEvent, 64)
	f.mu.Lock()
	f.watchers = append(f.watchers, out)
	f.mu.Unlock()
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, w := range f.watchers {
			if w == out {
				f.watchers = append(f.watchers[:i], f.watchers[i+1:]...)
				close(out)
				return
			}
		}
	})
	return out, nil
}

// Tell sends an event to all watches and returns their number.
func (f *FakeDevices) Tell(e netdev.DeviceEvent) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watchers {
		w <- e
	}
	return len(f.watchers)
}

func (f *FakeDevices) failure(op string) error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail(op)
}
