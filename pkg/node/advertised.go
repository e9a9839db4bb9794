package node

import "github.com/ovn-offload/ovn-offload/pkg/netdev"

// A route that came by a router's advertisement ends with a lifetime, and only the kernel of the link that receives
// the advertisements renews the route. So a link that takes such routes over accepts advertisements itself. Until the
// first one, and where none comes any more, the link has routes without an end, which are worse than any of the
// kernel's.

// ProtocolPermanent marks routes without an end in place of those of advertisements.
const ProtocolPermanent = 86

// advertisedMetric is that of the kernel's routes by advertisements.
const advertisedMetric = 1024

// Permanent is the route without an end.
func Permanent(r netdev.Route) netdev.Route {
	r.Protocol, r.Metric = ProtocolPermanent, max(r.Metric, advertisedMetric)+1
	return r
}

// AcceptAdvertisements gives the steps that make a link accept advertisements, also where the host forwards. They go
// before the link is set up, when the kernel asks routers for one. Addresses do not come by them.
func AcceptAdvertisements(s State, link string) []Step {
	return Sysctls(s, link, [][2]string{{AcceptRA, "2"}, {Autoconf, "0"}})
}
