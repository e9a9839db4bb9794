package answer

import (
	"cmp"
	"net/netip"
	"slices"
)

// verdict says what becomes of the packets. Complete: the flows of all nodes were read.
func (b *between) verdict(legs []Leg, complete bool) string {
	arrives, drops, lost := false, false, false
	for _, l := range legs {
		switch {
		case l.Back:
		case l.Drops:
			drops = true
		case !b.isSent(l):
			arrives = true
		case !b.isReceived(l, legs):
			lost = true
		}
	}
	switch {
	case arrives && drops:
		return Partly
	case drops:
		return Dropped
	case lost && !complete:
		return Sent
	case arrives: // where another endpoint has none, flows there may have ended before
		return Allowed
	case lost:
		return Lost
	}
	return Idle
}

// isSent says that a leg sends the packets into a tunnel. Only flows of the node at its other end say that they were received.
func (b *between) isSent(l Leg) bool {
	return !l.Back && !l.Drops && l.Node == b.first && l.Tunnel != ""
}

// isReceived says whether the node to which a leg sends the packets has flows for them.
func (b *between) isReceived(sent Leg, legs []Leg) bool {
	nodes, end := b.receiversOf(sent), cmp.Or(sent.Via, sent.To)
	_, notAddress := netip.ParseAddr(end)
	return slices.ContainsFunc(legs, func(l Leg) bool {
		isOf := notAddress != nil || l.To == "" || l.To == end || l.Via == end
		return !l.Back && l.Node != b.first && isOf && (len(nodes) == 0 || slices.Contains(nodes, l.Node))
	})
}

// receiversOf are the names that the node at the other end of a leg's tunnel may have: of a host with a DPU, flows have the
// host's name, and the tunnel may end at the DPU. None: it is not known.
func (b *between) receiversOf(sent Leg) []string {
	of := []string{sent.Via, sent.To}
	if b.nodes[sent.Via] == "" && b.nodes[sent.To] == "" { // the flow matches a network
		of = b.targets
	}
	nodes := []string{b.tunnels[sent.Tunnel]}
	for _, pod := range of {
		nodes = append(nodes, b.nodes[pod])
	}
	return slices.DeleteFunc(nodes, func(name string) bool { return name == "" || name == b.first })
}

// unread says of which nodes flows were not read although packets were sent to them. Those of the nodes of pods that get packets
// were, or are missing already.
func (b *between) unread(legs []Leg) (missing []string) {
	for _, l := range legs {
		isRead := func(name string) bool {
			return slices.ContainsFunc(b.targets, func(pod string) bool { return b.nodes[pod] == name })
		}
		if !b.isSent(l) || slices.ContainsFunc(b.receiversOf(l), isRead) {
			continue
		}
		where := "the node at the other end of the tunnel"
		if name := b.tunnels[l.Tunnel]; name != "" {
			where = "node/" + name
		}
		if text := where + ": its flows were not read, since no pod there is known to receive the packets"; !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	return missing
}
