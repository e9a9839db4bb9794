package netdev

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AddrOptions say how an address is used.
type AddrOptions struct {
	// NoDAD makes an IPv6 address usable at once, without asking the link first.
	NoDAD bool
	// Deprecated keeps an address from being chosen as a source.
	Deprecated bool
}

// Route is one route. Dest is always set: the default route is 0.0.0.0/0 or ::/0.
type Route struct {
	Dest    netip.Prefix
	NextHop netip.Addr // invalid: directly on the link
	// Others are further next hops on the same link, which share the traffic.
	Others []netip.Addr `json:",omitempty"`
	Link   string
	// Source is the preferred source address, if valid.
	Source netip.Addr
	// Table 0 means main. In results it is always a number.
	Table int
	// Protocol 0 means "static" when adding. In results it is the kernel's number.
	Protocol int
	Metric   int
	MTU      int
	// OnLink takes NextHop as a neighbour although no address covers it.
	OnLink bool
}

// ProtocolOurs marks the routes of the agent, on the node and in pods.
const ProtocolOurs = 85

// Neighbor is a permanent entry of the neighbour table.
type Neighbor struct {
	Link string
	Addr netip.Addr
	MAC  net.HardwareAddr
}

const protocolStatic = 4 // RTPROT_STATIC

// Addrs gives the addresses of a link with their prefix lengths.
func (n *NS) Addrs(name string) ([]netip.Prefix, error) {
	l, err := find(n, name)
	if err != nil {
		return nil, err
	}
	list, err := retryDump(func() ([]netlink.Addr, error) { return n.handle.AddrList(l, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses of %s: %w", name, err)
	}
	addrs := make([]netip.Prefix, 0, len(list))
	for _, a := range list {
		addrs = append(addrs, toPrefix(a.IPNet))
	}
	return addrs, nil
}

// AllAddrs gives the addresses of all links, by the index of the link, without those of IPv4 with scope link (RFC 3927).
func (n *NS) AllAddrs() (map[int][]netip.Prefix, error) {
	list, err := retryDump(func() ([]netlink.Addr, error) { return n.handle.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	addrs := map[int][]netip.Prefix{}
	for _, a := range list {
		if a.IP.To4() == nil || a.Scope != unix.RT_SCOPE_LINK {
			addrs[a.LinkIndex] = append(addrs[a.LinkIndex], toPrefix(a.IPNet))
		}
	}
	return addrs, nil
}

// ReplaceAddr gives a link an address. An interface on which IPv6 is switched off is switched on when the address is
// IPv6.
func (n *NS) ReplaceAddr(name string, prefix netip.Prefix, o AddrOptions) error {
	l, err := find(n, name)
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: toIPNet(prefix)}
	if o.NoDAD && prefix.Addr().Is6() {
		addr.Flags |= unix.IFA_F_NODAD
	}
	if o.Deprecated {
		// A preferred lifetime of 0 needs a valid one that is not 0: for ever.
		addr.ValidLft = int(^uint32(0))
	}
	err = n.handle.AddrReplace(l, addr)
	if errors.Is(err, unix.EACCES) && prefix.Addr().Is6() {
		if err = n.Sysctl("net/ipv6/conf/"+name+"/disable_ipv6", "0"); err == nil {
			err = n.handle.AddrReplace(l, addr)
		}
	}
	if err != nil {
		return fmt.Errorf("adding address %s to %s: %w", prefix, name, err)
	}
	return nil
}

// DeleteAddr takes an address from a link; absent is fine.
func (n *NS) DeleteAddr(name string, prefix netip.Prefix) error {
	l, err := find(n, name)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	err = n.handle.AddrDel(l, &netlink.Addr{IPNet: toIPNet(prefix)})
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("deleting address %s of %s: %w", prefix, name, err)
	}
	return nil
}

// Routes lists the unicast routes of all tables but "local", or of one link when it is named. Multipath routes are
// given once for each hop.
func (n *NS) Routes(link string) ([]Route, error) {
	names, err := linkNames(n)
	if err != nil {
		return nil, err
	}
	list, err := retryDump(func() ([]netlink.Route, error) {
		return n.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	var routes []Route
	for _, r := range list {
		if r.Table == unix.RT_TABLE_LOCAL || r.Type != unix.RTN_UNICAST {
			continue
		}
		for _, route := range fromRoute(r, names) {
			if link == "" || link == route.Link {
				routes = append(routes, route)
			}
		}
	}
	return routes, nil
}

// ReplaceRoute adds a route or replaces the one with the same destination, table and metric.
func (n *NS) ReplaceRoute(r Route) error {
	route, err := toRoute(n, r)
	if err != nil {
		return err
	}
	if err := n.handle.RouteReplace(route); err != nil {
		return fmt.Errorf("adding route %s: %w", r, err)
	}
	return nil
}

// DeleteRoute removes a route; absent is fine.
func (n *NS) DeleteRoute(r Route) error {
	route, err := toRoute(n, r)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	route.Protocol = netlink.RouteProtocol(r.Protocol) // 0 matches any
	if err := n.handle.RouteDel(route); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("deleting route %s: %w", r, err)
	}
	return nil
}

// ReplaceNeighbor pins the MAC of a neighbour for ever.
func (n *NS) ReplaceNeighbor(e Neighbor) error {
	l, err := find(n, e.Link)
	if err != nil {
		return err
	}
	err = n.handle.NeighSet(&netlink.Neigh{
		LinkIndex: l.Attrs().Index, State: unix.NUD_PERMANENT,
		IP: e.Addr.AsSlice(), HardwareAddr: e.MAC,
	})
	if err != nil {
		return fmt.Errorf("adding neighbour %s of %s: %w", e.Addr, e.Link, err)
	}
	return nil
}

// Equal compares all of two routes.
func (r Route) Equal(o Route) bool {
	return r.Dest == o.Dest && r.NextHop == o.NextHop && slices.Equal(r.Others, o.Others) && r.Link == o.Link && r.Source == o.Source &&
		r.Table == o.Table && r.Protocol == o.Protocol && r.Metric == o.Metric && r.MTU == o.MTU && r.OnLink == o.OnLink
}

func (r Route) String() string {
	s := r.Dest.String()
	if r.NextHop.IsValid() {
		s += " via " + r.NextHop.String()
	}
	for _, hop := range r.Others {
		s += " and " + hop.String()
	}
	if r.Link != "" {
		s += " dev " + r.Link
	}
	return s
}

func toRoute(n *NS, r Route) (*netlink.Route, error) {
	route := &netlink.Route{
		Dst: toIPNet(r.Dest.Masked()), Table: r.Table, MTU: r.MTU, Priority: r.Metric,
		Protocol: netlink.RouteProtocol(r.Protocol),
	}
	if r.Protocol == 0 {
		route.Protocol = protocolStatic
	}
	if r.Link != "" {
		l, err := find(n, r.Link)
		if err != nil {
			return nil, err
		}
		route.LinkIndex = l.Attrs().Index
	}
	if r.NextHop.IsValid() {
		route.Gw = r.NextHop.AsSlice()
	} else if r.Dest.Addr().Is4() {
		route.Scope = netlink.SCOPE_LINK
	}
	if r.Source.IsValid() {
		route.Src = r.Source.AsSlice()
	}
	if r.OnLink {
		route.SetFlag(netlink.FLAG_ONLINK)
	}
	if len(r.Others) > 0 {
		for _, hop := range append([]netip.Addr{r.NextHop}, r.Others...) {
			route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: route.LinkIndex, Gw: hop.AsSlice(), Flags: route.Flags})
		}
		route.LinkIndex, route.Gw, route.Flags = 0, nil, 0
	}
	return route, nil
}

// fromRoute gives a route for each link that the kernel's one has hops on.
func fromRoute(r netlink.Route, names map[int]string) []Route {
	if len(r.MultiPath) == 0 {
		return []Route{ofHop(r, names[r.LinkIndex])}
	}
	var out []Route
	for _, hop := range r.MultiPath {
		one := r
		one.LinkIndex, one.Gw, one.Flags = hop.LinkIndex, hop.Gw, hop.Flags
		route := ofHop(one, names[hop.LinkIndex])
		i := slices.IndexFunc(out, func(o Route) bool { return o.Link == route.Link })
		if i < 0 {
			out = append(out, route)
		} else if route.NextHop.IsValid() {
			out[i].Others = append(out[i].Others, route.NextHop)
		}
	}
	return out
}

func ofHop(r netlink.Route, link string) Route {
	out := Route{
		Link: link, Table: r.Table, Protocol: int(r.Protocol), Metric: r.Priority, MTU: r.MTU,
		OnLink: r.Flags&int(netlink.FLAG_ONLINK) != 0,
	}
	switch {
	case r.Dst != nil:
		out.Dest = toPrefix(r.Dst)
	case r.Family == netlink.FAMILY_V6:
		out.Dest = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	default:
		out.Dest = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	out.NextHop = toAddr(r.Gw)
	out.Source = toAddr(r.Src)
	return out
}

func linkNames(n *NS) (map[int]string, error) {
	links, err := n.Links()
	if err != nil {
		return nil, err
	}
	names := make(map[int]string, len(links))
	for _, l := range links {
		names[l.Index] = l.Name
	}
	return names, nil
}

func toIPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func toPrefix(n *net.IPNet) netip.Prefix {
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(toAddr(n.IP), ones)
}

func toAddr(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
