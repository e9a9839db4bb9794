package chain

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Chain is what a NetworkChaining says.
type Chain struct {
	Owner contract.Owner
	// Open says that packets pass a function without a ready pod. Else they are dropped.
	Open bool
	// Functions select pods in the namespace of the chain, from left to right.
	Functions []labels.Selector
	// Stages are the networks before, between and behind the functions: function i is between the stages i and i+1. The
	// stages between have one network.
	Stages [][]Place
}

// Place is a network of a chain.
type Place struct {
	// NAD is the key of the NetworkAttachmentDefinition.
	NAD string
	// Network is what the NAD defines. Its Gateways are the addresses of the chain's router.
	Network contract.Network
	// Subnets are those that the chain leads to, at its ends.
	Subnets []netip.Prefix
	// Gateway leads to the Subnets that are not the network's own.
	Gateway netip.Addr

	pods, namespaces labels.Selector
}

// Ends are the subnets at an end of the chain in one family: to the left or to the right.
func (c *Chain) Ends(right bool, family contract.Family) (subnets []netip.Prefix) {
	for _, place := range c.end(right) {
		for _, subnet := range place.Subnets {
			if family.Has(subnet.Addr()) {
				subnets = append(subnets, subnet)
			}
		}
	}
	return subnets
}

func (c *Chain) end(right bool) []Place {
	if right {
		return c.Stages[len(c.Stages)-1]
	}
	return c.Stages[0]
}

// Families are those of subnets at both ends in which each network has an address for the router.
func (c *Chain) Families() (families []contract.Family) {
	for _, family := range []contract.Family{contract.IPv4, contract.IPv6} {
		lacks := func(place Place) bool { _, ok := family.Pick(place.Network.Gateways); return !ok }
		if len(c.Ends(false, family)) > 0 && len(c.Ends(true, family)) > 0 && !slices.ContainsFunc(slices.Concat(c.Stages...), lacks) {
			families = append(families, family)
		}
	}
	return families
}

// IsOwn says that a subnet is a part of the network's own, to which pods on the network send directly.
func (p Place) IsOwn(subnet netip.Prefix) bool {
	return slices.ContainsFunc(p.Network.Prefixes(), func(own netip.Prefix) bool { return own.Contains(subnet.Addr()) && own.Bits() <= subnet.Bits() })
}

// resolved is the chain with its networks as they are now, or why there can be no such chain.
func (c *Chain) resolved(network func(nad string) *contract.Network) (*Chain, error) {
	out, seen := *c, map[string]bool{}
	out.Stages = make([][]Place, len(c.Stages))
	for i, stage := range c.Stages {
		out.Stages[i] = slices.Clone(stage)
		for j := range stage {
			place := &out.Stages[i][j]
			found := network(place.NAD)
			if err := usable(place.NAD, found); err != nil {
				return nil, err
			}
			if seen[found.Name] {
				return nil, fmt.Errorf("network %s is in the chain twice", place.NAD)
			}
			seen[found.Name] = true
			place.Network = *found
			if isEnd := i == 0 || i == len(c.Stages)-1; isEnd && len(place.Subnets) == 0 {
				place.Subnets = found.Prefixes()
			}
			if err := place.check(); err != nil {
				return nil, err
			}
		}
	}
	return &out, out.checkEnds()
}

func usable(nad string, network *contract.Network) error {
	switch {
	case network == nil:
		return fmt.Errorf("network %s does not exist, or its namespace may not use it", nad)
	case network.IsPrimary() || network.Topology == contract.Layer3:
		return fmt.Errorf("network %s is primary, or has the topology layer3: a chain needs secondary networks of topology layer2 or localnet", nad)
	case network.HasGateway():
		return fmt.Errorf("network %s has the annotation %s: its own router has the address that the router of the chain would have", nad, contract.GatewayKey)
	case !network.Forward:
		return fmt.Errorf("network %s does not let pods forward: portSecurity must be mac", nad)
	case len(network.Gateways) == 0:
		return fmt.Errorf("network %s has no gateway, whose address the router of the chain would have", nad)
	}
	return nil
}

// check says which subnet the last function could not reach.
func (p Place) check() error {
	for _, subnet := range p.Subnets {
		if !p.IsOwn(subnet) && !slices.ContainsFunc(p.Network.Prefixes(), func(own netip.Prefix) bool { return own.Contains(p.Gateway) }) {
			return fmt.Errorf("subnet %s is not of network %s: gatewayIp must be an address in the network that leads there", subnet, p.NAD)
		}
	}
	return nil
}

// checkEnds says what makes directions ambiguous. One end may be everything else.
func (c *Chain) checkEnds() error {
	if len(c.Families()) == 0 {
		return errors.New("there is no address family in which both ends have subnets and all networks have gateways")
	}
	for _, family := range c.Families() {
		lefts, rights := c.Ends(false, family), c.Ends(true, family)
		if n := max(len(lefts), len(rights)); n > MaxEndSubnets {
			return fmt.Errorf("an end has %d subnets, at most %d: give subnet for its networks", n, MaxEndSubnets)
		}
		for _, left := range lefts {
			for _, right := range rights {
				if left.Overlaps(right) && (left.Bits() > 0) == (right.Bits() > 0) {
					return fmt.Errorf("subnet %s of the left end overlaps %s of the right end", left, right)
				}
			}
		}
	}
	return nil
}
