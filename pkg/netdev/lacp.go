package netdev

import "github.com/vishvananda/netlink"

// LACP is what a bond of mode 802.3ad and its partner, the switch, have negotiated. In other modes it is zero.
type LACP struct {
	// Aggregator is the aggregator of a port; of a bond the one that the bond sends over.
	Aggregator int
	// Negotiated says that a port and the switch agree on the port's aggregator.
	Negotiated bool
	// Distributing says that the bond and the switch send packets over a port.
	Distributing bool
}

// Carries says that a port has what it will get: it is in use, or negotiated and in an aggregator that the bond has not
// chosen.
func (l LACP) Carries(bond LACP) bool {
	return l.Distributing || l.Negotiated && l.Aggregator != bond.Aggregator
}

// The bits of a port's state, of IEEE 802.1AX.
const (
	lacpSynchronization = 1 << 3
	lacpCollecting      = 1 << 4
	lacpDistributing    = 1 << 5
	lacpDefaulted       = 1 << 6 // no switch has sent anything
	lacpExpired         = 1 << 7
)

func lacp(l netlink.Link) *LACP {
	if bond, ok := l.(*netlink.Bond); ok {
		active := &LACP{}
		if bond.AdInfo != nil {
			active.Aggregator = bond.AdInfo.AggregatorId
		}
		return active
	}
	port, ok := l.Attrs().Slave.(*netlink.BondSlave)
	if !ok {
		return nil
	}
	// the partner's is what the switch has sent last
	actor, partner := int(port.AdActorOperPortState), int(port.AdPartnerOperPortState)
	const both = lacpCollecting | lacpDistributing
	state := &LACP{Aggregator: int(port.AggregatorId)}
	state.Negotiated = actor&partner&lacpSynchronization != 0 && actor&(lacpDefaulted|lacpExpired) == 0
	state.Distributing = state.Negotiated && actor&partner&both == both
	return state
}
