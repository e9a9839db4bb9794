package network

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Taken is a subnet that others than networks have, and which may come and go.
type Taken struct {
	netip.Prefix
	// By says whose the subnet is, for messages.
	By string
}

// errShadowed does not name the older network: it may be another tenant's.
var errShadowed = errors.New("its subnets overlap those of an older network")

// reach is to which addresses networks may lead.
type reach struct {
	// taken are the subnets that others have, and reserved the networks that overlap one of them, which are not routed.
	taken    takenSubnets
	reserved map[string]error
	holders  holders
}

// takenSubnets have the number of times that each is taken.
type takenSubnets map[Taken]int

// overlap says with what a network overlaps that others have; nil with none. Load balancers of all nodes lead to the subnets
// of a network with a gateway, so its overlap would concern others.
func (t takenSubnets) overlap(n contract.Network) error {
	var found *Taken
	for other := range t {
		if n.HasGateway() && other.overlaps(n) && (found == nil || other.compare(*found) < 0) {
			found = &other
		}
	}
	if found == nil {
		return nil
	}
	return fmt.Errorf("its subnets overlap %s, which is %s", found.Prefix, found.By)
}

func (t Taken) overlaps(n contract.Network) bool {
	return slices.ContainsFunc(n.Prefixes(), t.Overlaps)
}

func (t Taken) compare(other Taken) int {
	return cmp.Or(t.Compare(other.Prefix), cmp.Compare(t.By, other.By))
}

// TakenChanged takes in subnets that others have from now on, or no longer; of equal ones the last that goes counts. It
// returns the keys of the refused NADs that are to be taken in again, and the names of the networks that are routed from now on or
// no longer. A network is compared with what is new alone, unless it overlaps something.
func TakenChanged(x *Definitions, gone, come []Taken) (nads, networks []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range come {
		x.taken[t]++
	}
	for _, t := range gone {
		if x.taken[t]--; x.taken[t] <= 0 {
			delete(x.taken, t)
		}
	}
	for key, d := range x.nads {
		if d.refused != nil && fmt.Sprint(x.taken.overlap(d.network)) != d.refused.Error() {
			nads = append(nads, key)
		}
	}
	for name, network := range x.networks {
		if x.reserved[name] != nil || slices.ContainsFunc(come, func(t Taken) bool { return t.overlaps(network) }) {
			networks = append(networks, reserve(x, name)...)
		}
	}
	if len(networks) > 0 {
		x.holders = holdersOf(x)
	}
	slices.Sort(nads)
	slices.Sort(networks)
	return nads, networks
}

// refuse says why a NAD may not define its network now. One that has been a network before stays one: its pods run.
func refuse(x *Definitions, d, before *definition) error {
	if d.Annotations[contract.NetworkIDKey] != "" || before != nil && before.parsed == nil {
		return nil
	}
	d.refused = x.taken.overlap(d.network)
	return d.refused
}

// reserve decides again which of some networks overlap what others have, and so are not routed, and returns the names of
// those for which this is different now.
func reserve(x *Definitions, names ...string) (flipped []string) {
	for _, name := range names {
		was := x.reserved[name]
		delete(x.reserved, name)
		if network, exists := x.networks[name]; exists {
			if err := x.taken.overlap(network); err != nil {
				x.reserved[name] = err
			}
		}
		if (was == nil) != (x.reserved[name] == nil) {
			flipped = append(flipped, name)
		}
	}
	return flipped
}

// Warning says of a NAD that defines a network what does not work there; nil if all does.
func Warning(x *Definitions, key string) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	d := x.nads[key]
	if d == nil || d.parsed != nil || problem(x, d) != nil {
		return nil
	}
	if d.unread != nil {
		return d.unread
	}
	return unreachable(x, d.network.Name)
}

// Unreachable says why load balancers of gateway routers do not lead to the network of a NAD; nil if they do, and if the NAD
// defines no network.
func Unreachable(x *Definitions, key string) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	d := x.nads[key]
	if d == nil || d.parsed != nil || problem(x, d) != nil {
		return nil
	}
	return unreachable(x, d.network.Name)
}

func unreachable(x *Definitions, name string) error {
	err := x.reserved[name]
	if err == nil && x.unrouted[name] {
		err = errShadowed
	}
	if err != nil {
		return fmt.Errorf("node ports, external addresses and host ports do not lead to network %s: %w", name, err)
	}
	return nil
}

// Knows says that the NAD of a UID has been taken in.
func Knows(x *Definitions, key string, uid types.UID) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	d := x.nads[key]
	return d != nil && d.UID == uid
}

// holders finds the routed networks by their subnets.
type holders struct {
	names map[netip.Prefix][]string
	// bits are the lengths of the subnets, each once.
	bits []int
}

func holdersOf(x *Definitions) holders {
	h := holders{names: map[netip.Prefix][]string{}}
	for name, network := range x.networks {
		if !isLinked(network) || x.unrouted[name] || x.reserved[name] != nil {
			continue
		}
		for _, subnet := range network.Prefixes() {
			h.names[subnet.Masked()] = append(h.names[subnet.Masked()], name)
			if !slices.Contains(h.bits, subnet.Bits()) {
				h.bits = append(h.bits, subnet.Bits())
			}
		}
	}
	return h
}

// IsForeign says that load balancers of gateway routers would lead what has an address as its destination to a primary
// network other than the one of that name, "" for the default network.
func IsForeign(x *Definitions, own string, addr netip.Addr) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, bits := range x.holders.bits {
		if subnet, err := addr.Prefix(bits); err == nil {
			if slices.ContainsFunc(x.holders.names[subnet], func(name string) bool { return name != own }) {
				return true
			}
		}
	}
	return false
}
