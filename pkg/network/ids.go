package network

import (
	"maps"
	"slices"
	"strconv"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// maxNetworks is the number of ids, with the default network's 0.
const maxNetworks = 4096

// ids are the ids of networks, as the leader has decided them. What a NAD says later decides nothing: an annotation is read
// back late, and others may write it.
type ids struct {
	of    map[string]int // by network
	taken map[int]bool
	// recorded are the networks whose id a NAD has said: from then on the id is in use.
	recorded map[string]bool
}

func (i *ids) give(name string, id int) { i.of[name], i.taken[id] = id, true }

func (i *ids) free(name string) {
	delete(i.taken, i.of[name])
	delete(i.of, name)
	delete(i.recorded, name)
}

// Lead begins to decide ids. Those that NADs say stay, of two networks with one id the older network's.
func (x *Definitions) Lead() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids = &ids{of: map[string]int{}, taken: map[int]bool{0: true}, recorded: map[string]bool{}}
	for _, first := range slices.SortedFunc(maps.Values(x.firsts), older) {
		network := x.networks[first.network.Name]
		network.ID = x.ids.idOf(network.Name, x.groups[network.JoinSwitch()])
		x.networks[network.Name] = network
	}
	all := map[string]contract.Network{}
	maps.Copy(all, x.networks)
	reroute(x, all)
}

// idOf is the id of a network, 0 until it is recorded. Of a network that is new to the leader, it is what the NADs say, if no
// other network has it. No ids: this process does not lead, and the NADs decide.
func (i *ids) idOf(name string, nads map[string]*definition) int {
	said := 0
	for _, key := range slices.Sorted(maps.Keys(nads)) {
		d := nads[key]
		id, err := strconv.Atoi(d.Annotations[contract.NetworkIDKey])
		if err != nil || d.conflict != nil || id <= 0 || id >= maxNetworks {
			continue
		}
		if said == 0 {
			said = id
		}
		if i != nil && i.of[name] == id {
			i.recorded[name] = true
		}
	}
	switch {
	case i == nil:
		return said
	case i.of[name] == 0 && !i.taken[said]:
		i.give(name, said)
		i.recorded[name] = true
	case !i.recorded[name]:
		return 0
	}
	return i.of[name]
}

// NetworkID is what the NADs of a network must say as its id. It is decided once, while the network is there: a network
// without one gets the first that is free. Zero: there are too many networks, no such network, or Lead was not called.
func (x *Definitions) NetworkID(name string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, exists := x.networks[name]; !exists || x.ids == nil {
		return 0
	}
	for id := 1; id < maxNetworks && x.ids.of[name] == 0; id++ {
		if !x.ids.taken[id] {
			x.ids.give(name, id)
		}
	}
	return x.ids.of[name]
}
