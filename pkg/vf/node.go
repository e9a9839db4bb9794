package vf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Kernel is what is asked about NICs; devlink.Devices has it.
type Kernel interface {
	// Eswitch asks a NIC on PCI. An error is no answer: the NIC may be in any mode.
	Eswitch(address string) (netdev.Eswitch, error)
	// DevlinkPorts are those of NICs on PCI.
	DevlinkPorts(addresses ...string) ([]netdev.DevlinkPort, error)
	DevlinkParam(bus, device, name string) (string, error)
	Features(link string) (netdev.Features, error)
	RDMA() (mode string, devices []netdev.RDMADevice, err error)
}

// Links is what is asked about links; netdev.NS has it.
type Links interface {
	Links() ([]netdev.Link, error)
	// Addrs gives those of one link, AllAddrs those of all, by the link's index.
	Addrs(link string) ([]netip.Prefix, error)
	AllAddrs() (map[int][]netip.Prefix, error)
}

// Events tell when to look again; netdev.Devices has them.
type Events interface {
	Watch(ctx context.Context) (<-chan netdev.DeviceEvent, error)
}

// Node is where an inventory is taken: all of one network namespace, the one
// that Sysfs was mounted in included.
type Node struct {
	Sysfs  netdev.Sysfs
	Kernel Kernel
	Links  Links
	Events Events // for Watch only
	Names  *Names

	mu   sync.Mutex
	last answers
}

// Read takes the inventory. Part of it being unreadable is a problem in it; an
// error means that there is none.
func (n *Node) Read() (Inventory, error) { return n.read(features{}) }

func (n *Node) read(known features) (Inventory, error) {
	found, err := Discover(n.Sysfs)
	if err != nil {
		return Inventory{}, fmt.Errorf("discovering devices: %w", err)
	}
	facts, err := n.facts(found, known)
	if err != nil {
		return Inventory{}, fmt.Errorf("asking for links: %w", err)
	}
	return Enrich(found, facts), nil
}

// facts asks the kernel. Without links and addresses there is no inventory;
// without the other facts there is one with problems.
func (n *Node) facts(found Found, known features) (Facts, error) {
	var f Facts
	var err error
	problem := func(err error) bool {
		if err != nil {
			f.Problems = append(f.Problems, err.Error())
		}
		return err != nil
	}
	if f.Links, err = n.Links.Links(); err != nil {
		return f, err
	}
	if f.Addresses, err = n.Links.AllAddrs(); err != nil {
		return f, err
	}
	n.mu.Lock()
	f.answers = n.last.ask(n.Kernel, found, problem)
	n.last = f.answers
	n.mu.Unlock()
	f.HWTC = map[string]bool{}
	indexes := map[string]int{}
	for _, l := range f.Links {
		indexes[l.Name] = l.Index
	}
	for _, nd := range found.Netdevs {
		if nd.SwitchID == "" {
			continue
		}
		on, err := known.hwTC(n.Kernel, nd.Name, indexes[nd.Name])
		if !errors.Is(err, netdev.ErrNotFound) && !problem(err) {
			f.HWTC[nd.Name] = on
		}
	}
	if n.Names != nil {
		f.Names = n.Names.Lookup(identities(found))
	}
	return f, nil
}

func identities(found Found) map[[2]ID]bool {
	ids := map[[2]ID]bool{}
	for _, pf := range found.PFs {
		ids[[2]ID{pf.Vendor, pf.Product}] = true
		for _, v := range pf.VFs {
			ids[[2]ID{v.Vendor, v.Product}] = true
		}
	}
	return ids
}

const (
	// debounce is how long no event may come before an inventory is taken: VFs come
	// many at once. maxDebounce is the longest delay.
	debounce    = 100 * time.Millisecond
	maxDebounce = time.Second
	// minRetry and maxRetry limit how long after a question without an answer all is asked again: no event tells that
	// a driver would answer now.
	minRetry = time.Second
	maxRetry = time.Minute
)

// Watch gives changed the inventory now and whenever it differs, until ctx
// ends. Any error ends it too; its user starts it again. An inventory with problems is
// taken again, after as long as they have been there.
func (n *Node) Watch(ctx context.Context, changed func(Inventory)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := n.Events.Watch(ctx) // first, so that nothing falls between
	if err != nil {
		return fmt.Errorf("watching devices: %w", err)
	}
	known := features{}
	last, err := n.read(known)
	if err != nil {
		return err
	}
	changed(last)
	whole := time.Now() // the last time when there was no problem
	for {
		var again <-chan time.Time
		if len(last.Problems) > 0 {
			again = time.After(min(max(time.Since(whole), minRetry), maxRetry))
		} else {
			whole = time.Now()
		}
		if !awaitEvents(events, again, known.forget) {
			break
		}
		next, err := n.read(known)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(last, next) {
			changed(next)
			last = next
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.New("watching devices: the kernel ended the subscription")
}

// awaitEvents waits for an event and debounces those that follow, or for the time to ask
// again; false when the channel closes. It gives see each event.
func awaitEvents(events <-chan netdev.DeviceEvent, again <-chan time.Time, see func(netdev.DeviceEvent)) bool {
	select {
	case first, ok := <-events:
		if !ok {
			return false
		}
		see(first)
	case <-again:
		return true
	}
	idle := time.NewTimer(debounce)
	defer idle.Stop()
	end := time.NewTimer(maxDebounce)
	defer end.Stop()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return false
			}
			see(e)
			idle.Reset(debounce)
		case <-idle.C:
			return true
		case <-end.C:
			return true
		}
	}
}
