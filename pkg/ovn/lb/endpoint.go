package lb

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// endpoint is one address and port behind one port of a service.
type endpoint struct {
	address netip.AddrPort
	node    string
	// ready takes new connections; draining is on its way out but still serves.
	ready, draining bool
	// hints says which nodes and zones the endpoint is meant for.
	hints *discoveryv1.EndpointHints
}

// endpointsOf reads the endpoints of a service's port in one family. A slice
// gives the number of its port itself: a named target port may have several.
func endpointsOf(some []numbered, family contract.Family) ([]endpoint, error) {
	var found []endpoint
	for _, slice := range some {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) == 0 {
				continue
			}
			address, err := netip.ParseAddr(e.Addresses[0])
			if err != nil || !family.Has(address) || address.Zone() != "" {
				return nil, fmt.Errorf("endpoint slice %s: %q is no %s address", slice.Name, e.Addresses[0], family)
			}
			found = append(found, readEndpoint(e, netip.AddrPortFrom(address, slice.number)))
		}
	}
	slices.SortStableFunc(found, func(a, b endpoint) int {
		return cmp.Or(a.address.Compare(b.address), compareBool(b.ready, a.ready), compareBool(b.draining, a.draining))
	})
	// An endpoint that moves from one slice to another may be in both for a while.
	return slices.CompactFunc(found, func(a, b endpoint) bool { return a.address == b.address }), nil
}

// addressType is the family as the API spells it.
func addressType(family contract.Family) discoveryv1.AddressType {
	return discoveryv1.AddressType(family.String())
}

func readEndpoint(e discoveryv1.Endpoint, address netip.AddrPort) endpoint {
	is := func(condition *bool, unknown bool) bool {
		if condition == nil {
			return unknown
		}
		return *condition
	}
	out := endpoint{address: address, ready: is(e.Conditions.Ready, true), hints: e.Hints}
	out.draining = !out.ready && is(e.Conditions.Serving, out.ready) && is(e.Conditions.Terminating, false)
	if e.NodeName != nil {
		out.node = *e.NodeName
	}
	return out
}

func protocolOf(protocol corev1.Protocol) corev1.Protocol {
	if protocol == "" {
		return corev1.ProtocolTCP
	}
	return protocol
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// usable are the ready endpoints or, when there is none, those that still serve.
func usable(all []endpoint) []endpoint {
	ready := filter(all, func(e endpoint) bool { return e.ready })
	if len(ready) > 0 {
		return ready
	}
	return filter(all, func(e endpoint) bool { return e.draining })
}

// perNode are the usable ones of each node's own endpoints.
func perNode(all []endpoint) map[string]chosen {
	byNode := map[string][]endpoint{}
	for _, e := range all {
		byNode[e.node] = append(byNode[e.node], e)
	}
	out := map[string]chosen{}
	for node, own := range byNode {
		if some := usable(own); node != "" && len(some) > 0 {
			out[node] = choose(some)
		}
	}
	return out
}

// hint is one of the two ways in which an endpoint says for what it is meant: the
// names of nodes, or those of zones.
type hint func(*discoveryv1.EndpointHints) []string

func forNodes(h *discoveryv1.EndpointHints) []string {
	var names []string
	for _, node := range h.ForNodes {
		names = append(names, node.Name)
	}
	return names
}

func forZones(h *discoveryv1.EndpointHints) []string {
	var names []string
	for _, zone := range h.ForZones {
		names = append(names, zone.Name)
	}
	return names
}

// everyone says that all ready endpoints give the hint: without that a node
// cannot know whether it has been thought of.
func (h hint) everyone(all []endpoint) bool {
	ready := filter(all, func(e endpoint) bool { return e.ready })
	return len(ready) > 0 && !slices.ContainsFunc(ready, func(e endpoint) bool { return e.hints == nil || len(h(e.hints)) == 0 })
}

// hinted says that nodes may have backends of their own.
func hinted(all []endpoint) bool { return hint(forNodes).everyone(all) || hint(forZones).everyone(all) }

// meantFor are the ready endpoints for each node, or zone, that they name, unless
// one of them names none. By kube-proxy's rules a node uses those for it, else those
// for its zone, else all that are usable.
func (h hint) meantFor(all []endpoint) map[string]chosen {
	if !h.everyone(all) {
		return nil
	}
	byName := map[string][]endpoint{}
	for _, e := range all {
		if !e.ready {
			continue
		}
		names := h(e.hints)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			byName[name] = append(byName[name], e)
		}
	}
	out := map[string]chosen{}
	for name, some := range byName {
		out[name] = choose(some)
	}
	return out
}

func filter(all []endpoint, keep func(endpoint) bool) []endpoint {
	var kept []endpoint
	for _, e := range all {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// backends is OVN's notation of endpoints: "IP:PORT,[IP6]:PORT".
func backends(some []endpoint) string {
	texts := make([]string, len(some))
	for i, e := range some {
		texts[i] = e.address.String()
	}
	return strings.Join(texts, ",")
}
