package chain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Chains are the NetworkChainings of the cluster. The methods may be called at once from several goroutines.
type Chains struct {
	mu  sync.RWMutex
	all map[contract.Owner]parsed
	// byNAD and byNamespace have those that could be read.
	byNAD, byNamespace map[string]map[contract.Owner]*Chain
}

type parsed struct {
	chain   *Chain
	err     error
	created time.Time
}

// Changed takes in a NetworkChaining, nil when it was deleted.
func (x *Chains) Changed(owner contract.Owner, object *unstructured.Unstructured) {
	var p parsed
	if object != nil {
		p.created = object.GetCreationTimestamp().Time
		p.chain, p.err = parse(object)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all, x.byNAD, x.byNamespace = map[contract.Owner]parsed{}, map[string]map[contract.Owner]*Chain{}, map[string]map[contract.Owner]*Chain{}
	}
	if old := x.all[owner].chain; old != nil {
		for _, nad := range old.nads() {
			drop(x.byNAD, nad, owner)
		}
		drop(x.byNamespace, owner.Namespace, owner)
	}
	delete(x.all, owner)
	if object == nil {
		return
	}
	x.all[owner] = p
	if p.err == nil {
		for _, nad := range p.chain.nads() {
			put(x.byNAD, nad, p.chain)
		}
		put(x.byNamespace, owner.Namespace, p.chain)
	}
}

func put(m map[string]map[contract.Owner]*Chain, key string, c *Chain) {
	if m[key] == nil {
		m[key] = map[contract.Owner]*Chain{}
	}
	m[key][c.Owner] = c
}

func drop(m map[string]map[contract.Owner]*Chain, key string, owner contract.Owner) {
	if delete(m[key], owner); len(m[key]) == 0 {
		delete(m, key)
	}
}

// nads are the keys of the chain's NADs.
func (c *Chain) nads() (keys []string) {
	for _, stage := range c.Stages {
		for _, place := range stage {
			keys = append(keys, place.NAD)
		}
	}
	return keys
}

// Owners are all NetworkChainings.
func (x *Chains) Owners() []contract.Owner {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.all))
}

// Networks are what chains need to know of networks.
type Networks struct {
	// Of is the network of a NAD, nil when there is none that a chain may have.
	Of func(nad string) *contract.Network
	// NADs are those of a network.
	NADs func(network string) []string
}

// Find is a chain with its networks as they are now; nil when there is none of that name. The error says why there can be no
// such chain. Of the chains with one network, the oldest has it.
func (x *Chains) Find(owner contract.Owner, networks Networks) (*Chain, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p, ok := x.all[owner]
	if !ok || p.err != nil {
		return nil, p.err
	}
	c, err := p.chain.resolved(networks.Of)
	if err != nil {
		return nil, err
	}
	var oldest *contract.Owner
	var shared string
	for _, place := range slices.Concat(c.Stages...) {
		for _, nad := range networks.NADs(place.Network.Name) {
			if len(x.byNAD[nad]) == 0 || networks.Of(nad) == nil {
				continue
			}
			for other := range x.byNAD[nad] {
				if other != owner && x.older(other, owner) && (oldest == nil || x.older(other, *oldest)) {
					oldest, shared = &other, nad
				}
			}
		}
	}
	if oldest != nil {
		return nil, fmt.Errorf("network %s is in chain %s/%s, which is older", shared, oldest.Namespace, oldest.Name)
	}
	return c, nil
}

// older says that a chain is older than another one.
func (x *Chains) older(a, b contract.Owner) bool {
	return cmp.Or(x.all[a].created.Compare(x.all[b].created), cmp.Compare(a.String(), b.String())) < 0
}

// In are the chains of a namespace as they were written: without their networks.
func (x *Chains) In(namespace string) []*Chain {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Values(x.byNamespace[namespace]))
}

// NADs are those of the networks of all chains, each once.
func (x *Chains) NADs() []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byNAD))
}

// NADsOf are those of the networks of a chain.
func (x *Chains) NADsOf(owner contract.Owner) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c := x.all[owner].chain; c != nil {
		return c.nads()
	}
	return nil
}

// On are the chains with the network of a NAD.
func (x *Chains) On(nad string) []contract.Owner {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byNAD[nad]))
}
