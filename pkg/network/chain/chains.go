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
}

type parsed struct {
	chain   *Chain
	err     error
	created time.Time
}

// Changed takes in a NetworkChaining, nil when it was deleted.
func (x *Chains) Changed(owner contract.Owner, object *unstructured.Unstructured) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if object == nil {
		delete(x.all, owner)
		return
	}
	if x.all == nil {
		x.all = map[contract.Owner]parsed{}
	}
	p := parsed{created: object.GetCreationTimestamp().Time}
	p.chain, p.err = parse(object)
	x.all[owner] = p
}

// Owners are all NetworkChainings.
func (x *Chains) Owners() []contract.Owner {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.all))
}

// Find is a chain with its networks as they are now; nil when there is none of that name. The error says why there can be no
// such chain.
func (x *Chains) Find(owner contract.Owner, network func(nad string) *contract.Network) (*Chain, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p, ok := x.all[owner]
	if !ok || p.err != nil {
		return nil, p.err
	}
	c, err := p.chain.resolved(network)
	if err != nil {
		return nil, err
	}
	older := func(a, b contract.Owner) int {
		return cmp.Or(x.all[a].created.Compare(x.all[b].created), cmp.Compare(a.String(), b.String()))
	}
	for _, other := range slices.SortedFunc(maps.Keys(x.all), older) {
		q := x.all[other]
		if other == owner {
			break
		}
		if q.err != nil {
			continue
		}
		for _, place := range slices.Concat(q.chain.Stages...) {
			if n := network(place.NAD); n != nil && c.has(n.Name) {
				return nil, fmt.Errorf("network %s is in chain %s/%s, which is older", place.NAD, other.Namespace, other.Name)
			}
		}
	}
	return c, nil
}

func (c *Chain) has(network string) bool {
	return slices.ContainsFunc(slices.Concat(c.Stages...), func(p Place) bool { return p.Network.Name == network })
}

// In are the chains of a namespace as they were written: without their networks.
func (x *Chains) In(namespace string) []*Chain {
	return x.which(func(c *Chain) bool { return c.Owner.Namespace == namespace })
}

// NADs are those of the networks of all chains.
func (x *Chains) NADs() (nads []string) {
	for _, c := range x.which(func(*Chain) bool { return true }) {
		for _, place := range slices.Concat(c.Stages...) {
			nads = append(nads, place.NAD)
		}
	}
	return nads
}

// On are the chains with the network of a NAD.
func (x *Chains) On(nad string) (owners []contract.Owner) {
	onNAD := func(c *Chain) bool {
		return slices.ContainsFunc(slices.Concat(c.Stages...), func(p Place) bool { return p.NAD == nad })
	}
	for _, c := range x.which(onNAD) {
		owners = append(owners, c.Owner)
	}
	return owners
}

func (x *Chains) which(is func(*Chain) bool) (chains []*Chain) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, p := range x.all {
		if p.err == nil && is(p.chain) {
			chains = append(chains, p.chain)
		}
	}
	return chains
}
