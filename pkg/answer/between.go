package answer

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// between knows which streams may be a part of the way between two ends. A flow often matches less than the addresses of both:
// on the node that receives from a tunnel it may match any source, and a route matches the network of a target.
type between struct {
	want streams.Ends
	// targets are the target, and the pods that get its packets.
	targets []string
	// first is the node of the pod that sends, or where the packets of another source enter.
	first string
	// gatewayed: the packets come by the gateway router of the first node, as those of clients outside, and of a node for services.
	gatewayed bool
	pods      []netip.Prefix
	// addresses are those of objects, nodes those of pods, and tunnels are nodes by their address.
	addresses map[string][]netip.Addr
	nodes     map[string]string
	tunnels   map[string]string
}

func newBetween(s *snapshot.Snapshot, want streams.Ends, at string, all []streams.Stream) (*between, error) {
	of, err := ownersOf(s)
	if err != nil {
		return nil, err
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	nodes, err := snapshot.Objects[corev1.Node](s, snapshot.Nodes)
	if err != nil {
		return nil, err
	}
	b := &between{want: want, gatewayed: !strings.HasPrefix(want.From, "pod/") && !strings.HasPrefix(want.To, "pod/"), addresses: map[string][]netip.Addr{}, nodes: map[string]string{}, tunnels: tunnelEnds(nodes)}
	for _, names := range append(slices.Collect(maps.Values(of.pods)), of.shared) {
		for text, name := range names {
			if address, err := netip.ParseAddr(text); err == nil {
				b.addresses[name] = append(b.addresses[name], address)
			}
		}
	}
	if address, err := netip.ParseAddr(want.To); err == nil {
		b.addresses[want.To] = []netip.Addr{address}
	}
	for _, p := range pods {
		b.nodes["pod/"+p.Namespace+"/"+p.Name] = p.Spec.NodeName
	}
	b.first = cmp.Or(b.nodes[want.From], at)
	for _, n := range nodes {
		subnets, _ := contract.ParseNodeSubnets(n.Annotations[contract.NodeSubnetsKey], contract.DefaultNetwork) // a new node has none
		b.pods = append(b.pods, subnets...)
	}
	b.targets = b.receivers(all)
	return b, nil
}

// receivers are the target, and the pods that get its packets.
func (b *between) receivers(of []streams.Stream) []string {
	targets := []string{b.want.To}
	for _, s := range of {
		from, maybe := b.isSource(s.From, s, false)
		if (from || b.gatewayed && maybe) && s.To == b.want.To && s.Via != "" && fits(s, b.want) {
			targets = append(targets, s.Via)
		}
	}
	return targets
}

// fits says whether a stream may be of the protocol and port.
func fits(s streams.Stream, want streams.Ends) bool {
	return (s.Protocol == "" || s.Protocol == want.Protocol) && (s.Port == "" || want.Port == "" || s.Port == want.Port || s.Via != "" || s.To != want.To)
}

// covers says whether an end of a stream is one of some objects, or as a network may be one of them.
func (b *between) covers(end string, objects ...string) (is, maybe bool) {
	if slices.Contains(objects, end) {
		return true, true
	}
	network, err := netip.ParsePrefix(end)
	return false, end == "" || err == nil && slices.ContainsFunc(objects, func(object string) bool {
		return slices.ContainsFunc(b.addresses[object], network.Contains)
	})
}

// isSource says whether an end of a stream is the source, or may be it. A gateway router gives the packets of its node's processes and of
// clients outside an address of its own, which no object has.
func (b *between) isSource(end string, s streams.Stream, back bool) (is, maybe bool) {
	is, maybe = b.covers(end, b.want.From)
	if is || !b.gatewayed {
		return is, maybe
	}
	isOutside := strings.HasPrefix(b.want.From, trace.Outside)
	addr, err := netip.ParseAddr(end)
	switch {
	case strings.Contains(end, "/") && err != nil: // an object, or a network
		network, err := netip.ParsePrefix(end)
		return false, err == nil && !b.isOfPods(network)
	case err != nil || slices.ContainsFunc(b.pods, func(p netip.Prefix) bool { return p.Contains(addr) }):
		return false, maybe
	case s.Node != b.first:
		return false, true
	case isMasquerade(addr):
		return !isOutside, false
	}
	client := strings.TrimPrefix(strings.TrimPrefix(b.want.From, trace.Outside), "/")
	return isOutside && !back && (client == "" || client == end), back
}

// isOfPods says that a network has addresses of pods alone: it is within the smallest one that has all subnets of pods.
func (b *between) isOfPods(network netip.Prefix) bool {
	var all netip.Prefix
	for _, subnet := range b.pods {
		if subnet.Addr().Is4() != network.Addr().Is4() {
			continue
		}
		if !all.IsValid() {
			all = subnet
		}
		for !all.Contains(subnet.Addr()) {
			all = netip.PrefixFrom(all.Addr(), all.Bits()-1).Masked()
		}
	}
	return all.IsValid() && all.Contains(network.Addr()) && network.Bits() >= all.Bits()
}

// isMasquerade says that an address stands for a process of the node, as a gateway router sees it.
func isMasquerade(addr netip.Addr) bool {
	bytes := addr.As16()
	offsets := []byte{contract.MasqueradeHost, contract.MasqueradeBound, contract.MasqueradeOther, contract.MasqueradeClient}
	return (addr.IsLinkLocalUnicast() || addr.IsPrivate() && addr.Is6()) && bytes[14] == 0 && slices.Contains(offsets, bytes[15])
}

// isAt says that a stream which may have packets of the source is where they come: from a tunnel of the first node, or by its gateway
// router, which leads them to a pod or drops them.
func (b *between) isAt(s streams.Stream, back bool) bool {
	switch {
	case s.Node != b.first:
		return b.isFrom(s.Tunnel, b.first)
	case back:
		return b.gatewayed
	}
	return b.gatewayed && (s.Via != "" || s.Drops) && s.Direction != flowapi.Reply
}

// there says whether a stream may have the packets to a target. Shared ones may have others, too.
func (b *between) there(s streams.Stream) (ok, shared bool) {
	from, maybeFrom := b.isSource(s.From, s, false)
	to, maybeTo := b.covers(s.To, b.targets...)
	to = to || slices.Contains(b.targets, s.Via)
	switch {
	case !fits(s, b.want):
		return false, false
	case from:
		return to || maybeTo, !to
	}
	return maybeFrom && to && b.isAt(s, false), true
}

// isFrom says whether the other end of a tunnel may be a node. One that is withheld may be any.
func (b *between) isFrom(tunnel, node string) bool {
	return tunnel == flowapi.Withheld || b.tunnels[tunnel] == node
}

// back says whether a stream may have the answers.
func (b *between) back(s streams.Stream) (ok, shared bool) {
	from, maybeFrom := b.covers(s.From, b.targets...)
	to, maybeTo := b.isSource(s.To, s, true)
	switch {
	case s.Protocol != "" && s.Protocol != b.want.Protocol:
		return false, false
	case from && to:
		return true, false
	case from:
		return maybeTo && b.isAt(s, true), true
	case (to || b.gatewayed && maybeTo) && maybeFrom:
		return s.Node == b.first && b.isFromTarget(s.Tunnel), true
	}
	return false, false
}

// isFromTarget says whether the other end of a tunnel may be the node of a target. Packets from outside come by no tunnel.
func (b *between) isFromTarget(tunnel string) bool {
	outside := true
	for _, target := range b.targets {
		if node, ok := b.nodes[target]; ok {
			outside = false
			if tunnel != "" && b.isFrom(tunnel, node) {
				return true
			}
		}
	}
	return outside && tunnel == ""
}

// legs are the parts of the way. Of the streams of a node in one direction those are left out that others are better than.
func (b *between) legs(all []streams.Stream) []Leg {
	var legs []Leg
	for _, s := range all {
		if there, shared := b.there(s); there {
			legs = append(legs, Leg{Stream: s, Shared: shared || s.Direction == flowapi.Reply})
		} else if back, shared := b.back(s); back {
			legs = append(legs, Leg{Back: true, Stream: s, Shared: shared || s.Direction == flowapi.Original})
		}
	}
	var out []Leg
	for _, l := range legs {
		if !slices.ContainsFunc(legs, l.isWorse) {
			out = append(out, l)
		}
	}
	if !slices.ContainsFunc(out, func(l Leg) bool { return !l.Back }) {
		return nil // answers to others
	}
	return out
}

// isWorse says that another leg is more surely of these packets alone, or has packets where this one has none. Conntrack's direction
// alone says little: of a connection that it has not seen from the beginning, as after a restart, it is that of the first packet.
func (l Leg) isWorse(than Leg) bool {
	if l.Node != than.Node || l.Back != than.Back || l.Drops != than.Drops {
		return false
	}
	contrary := func(of Leg) bool {
		return of.Direction == flowapi.Reply && !of.Back || of.Direction == flowapi.Original && of.Back
	}
	if contrary(l) != contrary(than) {
		return contrary(l)
	}
	return l.Shared && !than.Shared || l.Packets == 0 && than.Packets > 0
}
