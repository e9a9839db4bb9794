package netdevtest

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Link is NS.Link.
func (n *FakeNS) Link(name string) (link netdev.Link, err error) {
	err = n.fake.onLink(n.path, "Link", name, func(l *fakeLink) error { link = l.Link; return nil })
	return link, err
}

// Links is NS.Links.
func (n *FakeNS) Links() (links []netdev.Link, err error) {
	err = n.fake.do(n.path, "Links", "", func(s *fakeSpace) error {
		for _, l := range s.links {
			links = append(links, l.Link)
		}
		return nil
	})
	return links, err
}

// AddVeth is NS.AddVeth.
func (n *FakeNS) AddVeth(v netdev.Veth) error {
	return n.fake.do(n.path, "AddVeth", v.Name, func(near *fakeSpace) error {
		far := near
		if v.Peer.Path != "" {
			far = n.fake.spaces[v.Peer.Path]
		}
		if far == nil {
			return fmt.Errorf("opening namespace %s: %w", v.Peer.Path, os.ErrNotExist)
		}
		_, nearErr := near.find(v.Name)
		_, farErr := far.find(v.Peer.Name)
		if nearErr == nil || farErr == nil {
			return fmt.Errorf("adding veth %s with peer %s: %w", v.Name, v.Peer.Name, netdev.ErrExists)
		}
		a := n.fake.add(near, netdev.Link{
			Name: v.Name, Type: "veth", MTU: v.MTU, Alias: v.Alias, NoARP: v.Near.NoARP, Up: v.Near.State == netdev.Up,
		})
		b := n.fake.add(far, netdev.Link{Name: v.Peer.Name, Type: "veth", MTU: v.MTU, MAC: v.Peer.MAC})
		a.peer, b.peer = b, a
		return nil
	})
}

// SetLink is NS.SetLink.
func (n *FakeNS) SetLink(name string, s netdev.Settings) error {
	return n.fake.onLink(n.path, "SetLink", name, func(l *fakeLink) error {
		l.MTU = cmp.Or(s.MTU, l.MTU)
		if l.Alias = cmp.Or(s.Alias, l.Alias); s.NoAlias {
			l.Alias = s.Alias
		}
		l.NoARP = l.NoARP && !s.NoFlags || s.NoARP
		if s.MAC != nil {
			l.MAC = slices.Clone(s.MAC)
		}
		if s.State != netdev.Keep {
			l.Up = s.State == netdev.Up
		}
		if err := l.enslave(s); err != nil {
			return err
		}
		if l.peer != nil {
			l.Carrier = l.Up && l.peer.Up
			l.peer.Carrier = l.Carrier
		}
		l.space.tell(netdev.Event{Kind: netdev.LinkEvent, Link: l.Name, Index: l.Index})
		return nil
	})
}

// enslave refuses a link that is up, as the kernel does, and sets a port of a bond up.
func (l *fakeLink) enslave(s netdev.Settings) error {
	if s.NoMaster {
		l.Master = 0
	}
	if s.Bond == "" {
		return nil
	}
	bond, err := l.space.find(s.Bond)
	switch {
	case err != nil:
		return err
	case l.Up:
		return fmt.Errorf("setting bond of link %s: %w", l.Name, unix.EPERM)
	}
	l.Master, l.Up = bond.Index, true
	return nil
}

// LeaveDatapath is NS.LeaveDatapath.
func (n *FakeNS) LeaveDatapath(link string) error {
	return n.fake.onLink(n.path, "LeaveDatapath", link, func(l *fakeLink) error { l.Master = 0; return nil })
}

// DeleteLink is NS.DeleteLink.
func (n *FakeNS) DeleteLink(name string) error {
	return n.fake.do(n.path, "DeleteLink", name, func(s *fakeSpace) error {
		if l, err := s.find(name); err == nil {
			n.fake.remove(l)
			delete(n.fake.vfMACs, name)
		}
		return nil
	})
}

// Addrs is NS.Addrs.
func (n *FakeNS) Addrs(name string) (addrs []netip.Prefix, err error) {
	err = n.fake.onLink(n.path, "Addrs", name, func(l *fakeLink) error { addrs = slices.Clone(l.addrs); return nil })
	return addrs, err
}

// AllAddrs is NS.AllAddrs.
func (n *FakeNS) AllAddrs() (map[int][]netip.Prefix, error) {
	all := map[int][]netip.Prefix{}
	err := n.fake.do(n.path, "AllAddrs", "", func(s *fakeSpace) error {
		for _, l := range s.links {
			if len(l.addrs) > 0 {
				all[l.Index] = slices.Clone(l.addrs)
			}
		}
		return nil
	})
	return all, err
}

// ReplaceAddr is NS.ReplaceAddr; the options have no effect.
func (n *FakeNS) ReplaceAddr(name string, prefix netip.Prefix, _ netdev.AddrOptions) error {
	return n.fake.onLink(n.path, "ReplaceAddr", name, func(l *fakeLink) error {
		if !slices.Contains(l.addrs, prefix) {
			l.addrs = append(l.addrs, prefix)
			l.space.tell(netdev.Event{Kind: netdev.AddrEvent, Index: l.Index})
		}
		return nil
	})
}

// DeleteAddr is NS.DeleteAddr.
func (n *FakeNS) DeleteAddr(name string, prefix netip.Prefix) error {
	return n.fake.do(n.path, "DeleteAddr", name, func(s *fakeSpace) error {
		l, err := s.find(name)
		if err == nil && slices.Contains(l.addrs, prefix) {
			l.addrs = slices.DeleteFunc(l.addrs, func(p netip.Prefix) bool { return p == prefix })
			s.tell(netdev.Event{Kind: netdev.AddrEvent, Index: l.Index, Gone: true})
		}
		return nil
	})
}

// Routes is NS.Routes, without the kernel's own routes to connected prefixes.
func (n *FakeNS) Routes(link string) (routes []netdev.Route, err error) {
	err = n.fake.do(n.path, "Routes", link, func(s *fakeSpace) error {
		for _, r := range s.routes {
			if link == "" || r.Link == link {
				routes = append(routes, r)
			}
		}
		return nil
	})
	return routes, err
}

// ReplaceRoute is NS.ReplaceRoute. A next hop has to be covered by an address
// of a link that is up, as in the kernel.
func (n *FakeNS) ReplaceRoute(r netdev.Route) error {
	return n.fake.do(n.path, "ReplaceRoute", r.Link, func(s *fakeSpace) error {
		l, err := s.out(r)
		if err != nil {
			return fmt.Errorf("adding route %s: %w", r, err)
		}
		r.Link, r.Dest = l.Name, r.Dest.Masked()
		r.Table = cmp.Or(r.Table, unix.RT_TABLE_MAIN)
		r.Protocol = cmp.Or(r.Protocol, unix.RTPROT_STATIC)
		s.routes = append(slices.DeleteFunc(s.routes, func(other netdev.Route) bool { return isSameRoute(r, other) }), r)
		s.tell(netdev.Event{Kind: netdev.RouteEvent, Index: l.Index})
		return nil
	})
}

// DeleteRoute is NS.DeleteRoute.
func (n *FakeNS) DeleteRoute(r netdev.Route) error {
	return n.fake.do(n.path, "DeleteRoute", r.Link, func(s *fakeSpace) error {
		r.Table, r.Dest = cmp.Or(r.Table, unix.RT_TABLE_MAIN), r.Dest.Masked()
		before := len(s.routes)
		s.routes = slices.DeleteFunc(s.routes, func(other netdev.Route) bool { return isSameRoute(r, other) })
		if len(s.routes) != before {
			s.tell(netdev.Event{Kind: netdev.RouteEvent, Gone: true})
		}
		return nil
	})
}

// AddPolicyRule is NS.AddPolicyRule.
func (n *FakeNS) AddPolicyRule(r netdev.PolicyRule) error {
	return n.fake.do(n.path, "AddPolicyRule", "", func(s *fakeSpace) error {
		if !slices.Contains(s.rules, r) {
			s.rules = append(s.rules, r)
		}
		return nil
	})
}

// PolicyRules are those of a namespace.
func (f *Fake) PolicyRules(path string) (rules []netdev.PolicyRule) {
	_ = f.do(path, "", "", func(s *fakeSpace) error { rules = slices.Clone(s.rules); return nil })
	return rules
}

// ReplaceNeighbor is NS.ReplaceNeighbor.
func (n *FakeNS) ReplaceNeighbor(e netdev.Neighbor) error {
	return n.fake.onLink(n.path, "ReplaceNeighbor", e.Link, func(l *fakeLink) error {
		e.MAC = append(net.HardwareAddr(nil), e.MAC...)
		l.neighbors = append(slices.DeleteFunc(l.neighbors, func(x netdev.Neighbor) bool { return x.Addr == e.Addr }), e)
		return nil
	})
}

// Sysctl is NS.Sysctl.
func (n *FakeNS) Sysctl(path, value string) error {
	return n.fake.do(n.path, "Sysctl", path, func(s *fakeSpace) error { s.sysctls[path] = value; return nil })
}

func isSameRoute(r, o netdev.Route) bool {
	return r.Dest == o.Dest && r.Table == o.Table && r.Metric == o.Metric
}

// out finds the link that a route leaves by.
func (s *fakeSpace) out(r netdev.Route) (*fakeLink, error) {
	for _, l := range s.links {
		if r.Link != "" && l.Name != r.Link || !l.Up {
			continue
		}
		covers := func(p netip.Prefix) bool { return p.Contains(r.NextHop) }
		if r.OnLink || !r.NextHop.IsValid() && r.Link != "" || slices.ContainsFunc(l.addrs, covers) {
			return l, nil
		}
	}
	return nil, unix.ENETUNREACH
}
