// Package podlink is the pod's end of an interface: settings, addresses, routes, and routing tables where a pod has several
// interfaces on one network. It is apart from pkg/cni because no switch and no runtime has a part in it.
//
// Place in the data flow:
//
//	annotation pod-networks -> Validate -> pkg/cni makes the link -> Link.Configure -> the pod's namespace
//	                                       CHECK -> Link.Check
//	                                       other routes in the annotation -> Link.Reroute
package podlink

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// NS is what is needed of a pod's namespace; *netdev.NS is one.
type NS interface {
	links
	addresses
	routes
	Sysctl(key, value string) error
}

type links interface {
	Link(name string) (netdev.Link, error)
	SetLink(name string, s netdev.Settings) error
}

type addresses interface {
	Addrs(name string) ([]netip.Prefix, error)
	ReplaceAddr(name string, prefix netip.Prefix, o netdev.AddrOptions) error
	AddPolicyRule(r netdev.PolicyRule) error
}

type routes interface {
	Routes(link string) ([]netdev.Route, error)
	ReplaceRoute(r netdev.Route) error
	DeleteRoute(r netdev.Route) error
}

// Link is an interface of a pod.
type Link struct {
	Name    string
	Network *contract.PodNetwork
	// Further says that the pod has others, of which one is on the default network.
	Further bool
	// Guest says that the addresses are for a virtual machine in the pod.
	Guest bool
	// Sibling numbers it among the pod's interfaces on the same network, from 1; it is 0 for the only one.
	Sibling int
}

// Of is a pod's interface on a network, by the key of the attachment.
func Of(pod *corev1.Pod, key, name string, network *contract.PodNetwork) Link {
	return Link{Name: name, Network: network, Further: key != "", Guest: contract.LeavesAddresses(pod, network), Sibling: siblingOf(pod, key)}
}

// Further are the keys of a pod's networks but the default one.
func Further(pod *corev1.Pod) []string {
	return slices.DeleteFunc(contract.Networks(pod.Annotations[contract.PodNetworksKey]), func(key string) bool { return key == "" })
}

// siblingOf is Link.Sibling.
func siblingOf(pod *corev1.Pod, key string) int {
	if key == "" {
		return 0
	}
	name := func(key string) string {
		if n, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], key); err == nil && n != nil && n.Network != "" {
			return n.Network
		}
		return contract.NADOf(key)
	}
	number, all, own := 0, 0, name(key)
	for _, other := range Further(pod) {
		if name(other) == own {
			all++
			if other <= key {
				number++
			}
		}
	}
	if all < 2 {
		return 0
	}
	return number
}

// separate are the settings of an interface beside others: it speaks for its own addresses alone, and takes answers to
// packets that have left by another.
var separate = [][2]string{{"arp_ignore", "1"}, {"arp_announce", "2"}, {"rp_filter", "2"}} //nolint:gochecknoglobals // a constant

// Configure gives the link everything but name, MAC and MTU, which it was made with. Doing it again changes nothing.
// Addresses are the pod's to choose where the network has none, and not the pod's where a guest has them.
func (l Link) Configure(ns NS) error {
	if l.Further {
		for _, setting := range separate {
			if err := ns.Sysctl("net/ipv4/conf/"+l.Name+"/"+setting[0], setting[1]); err != nil {
				return err
			}
		}
	}
	if len(l.Network.Addresses) == 0 || l.Guest {
		return ns.SetLink(l.Name, netdev.Settings{State: netdev.Up})
	}
	if err := addAddresses(ns, l.Name, l.Network); err != nil {
		return err
	}
	list, err := l.inTables(ns)
	if err == nil {
		err = addRoutes(ns, list)
	}
	if err != nil || l.Sibling == 0 {
		return err
	}
	return l.addRules(ns)
}

func addAddresses(ns NS, name string, n *contract.PodNetwork) error {
	// The kernel would make the same link-local address, but check it for duplicates first.
	if err := ns.SetLink(name, netdev.Settings{NoLinkLocal: true}); err != nil {
		return err
	}
	addrs := n.Addresses
	if _, ok := contract.IPv6.Pick(addrs); ok {
		addrs = append(slices.Clone(addrs), netdev.LinkLocal([6]byte(n.MAC)))
		// Any pod of the node can advertise itself as a router: OVN lets that through.
		if err := ns.Sysctl("net/ipv6/conf/"+name+"/accept_ra", "0"); err != nil {
			return err
		}
	}
	for _, addr := range addrs {
		if err := ns.ReplaceAddr(name, addr, netdev.AddrOptions{NoDAD: true}); err != nil {
			return err
		}
	}
	for _, up := range []string{"lo", name} {
		if err := ns.SetLink(up, netdev.Settings{State: netdev.Up}); err != nil {
			return err
		}
	}
	return nil
}

func addRoutes(ns NS, list []netdev.Route) error {
	for _, route := range list {
		if err := ns.ReplaceRoute(route); err != nil {
			return err
		}
	}
	return nil
}

// firstTable is the number of the routing table of a link with index 0.
const firstTable = 100

// policyPriority comes before the main table's.
const policyPriority = 1000

// table is that of one of several interfaces on a network: what comes from its addresses leaves by it, although another
// interface has the same routes.
func (l Link) table(ns NS) (int, error) {
	link, err := ns.Link(l.Name)
	return firstTable + link.Index, err
}

// inTables are the interface's routes, and where it has siblings the same in its own table.
func (l Link) inTables(ns NS) ([]netdev.Route, error) {
	list := l.Routes()
	if l.Sibling == 0 {
		return list, nil
	}
	table, err := l.table(ns)
	if err != nil {
		return nil, err
	}
	var own []netdev.Route
	for _, addr := range l.Network.Addresses {
		own = append(own, netdev.Route{Dest: addr.Masked(), Link: l.Name, Table: table, Protocol: netdev.ProtocolOurs})
	}
	for _, route := range list {
		route.Table, route.Metric = table, 0
		own = append(own, route)
	}
	return append(own, list...), nil
}

func (l Link) addRules(ns NS) error {
	table, err := l.table(ns)
	if err != nil {
		return err
	}
	for _, addr := range l.Network.Addresses {
		from := netip.PrefixFrom(addr.Addr(), addr.Addr().BitLen())
		if err := ns.AddPolicyRule(netdev.PolicyRule{From: from, Table: table, Priority: policyPriority}); err != nil {
			return err
		}
	}
	return nil
}

// Reroute gives an interface that was configured before the routes that the annotation has now. Routes that are not of the
// agent stay.
func (l Link) Reroute(ns NS) error {
	if len(l.Network.Addresses) == 0 || l.Guest {
		return nil
	}
	want, err := l.inTables(ns)
	if err != nil {
		return err
	}
	is, err := ns.Routes(l.Name)
	if err != nil {
		return err
	}
	for _, r := range is {
		replaced := func(o netdev.Route) bool { return keyOf(o) == keyOf(r) }
		if r.Protocol == netdev.ProtocolOurs && !slices.ContainsFunc(want, replaced) {
			if err := ns.DeleteRoute(r); err != nil {
				return err
			}
		}
	}
	has := func(r netdev.Route) bool {
		return slices.ContainsFunc(is, func(o netdev.Route) bool {
			return keyOf(r) == keyOf(o) && r.NextHop == o.NextHop && r.Protocol == o.Protocol
		})
	}
	return addRoutes(ns, slices.DeleteFunc(want, has))
}

// key is what the kernel allows one route for.
type key struct {
	dest          netip.Prefix
	table, metric int
}

// keyOf fills in what the kernel does for a table and a metric of 0.
func keyOf(r netdev.Route) key {
	k := key{dest: r.Dest.Masked(), table: cmp.Or(r.Table, unix.RT_TABLE_MAIN), metric: r.Metric}
	if r.Dest.Addr().Is6() {
		k.metric = cmp.Or(k.metric, defaultMetric6)
	}
	return k
}

// defaultMetric6 is IP6_RT_PRIO_USER of linux/ipv6_route.h.
const defaultMetric6 = 1024

// siblingMetric is that of routes that another interface on the same network has, too. It is above the kernel's own.
const siblingMetric = 2000

// Routes gives the default routes through the gateways, then the annotation's.
func (l Link) Routes() []netdev.Route {
	n, metric := l.Network, 0
	if l.Sibling > 1 {
		metric = siblingMetric + l.Sibling
	}
	var list []netdev.Route
	add := func(dest netip.Prefix, hop netip.Addr) {
		covers := func(p netip.Prefix) bool { return p.Contains(hop) }
		list = append(list, netdev.Route{
			Dest: dest, NextHop: hop, Link: l.Name, OnLink: !slices.ContainsFunc(n.Addresses, covers), Metric: metric, Protocol: netdev.ProtocolOurs,
		})
	}
	for _, gw := range n.Gateways {
		add(netip.PrefixFrom(gw, 0).Masked(), gw)
	}
	for _, r := range n.Routes {
		add(r.Dest, r.NextHop)
	}
	return list
}

// Check compares the link with the annotation.
func (l Link) Check(ns NS) error {
	name, n := l.Name, l.Network
	link, err := ns.Link(name)
	if err != nil {
		return err
	}
	if link.MAC.String() != n.MAC.String() {
		return fmt.Errorf("%s has MAC %s, not %s", name, link.MAC, n.MAC)
	}
	if !link.Up {
		return fmt.Errorf("%s is down", name)
	}
	if l.Guest {
		return nil
	}
	addrs, err := ns.Addrs(name)
	if err != nil {
		return err
	}
	for _, want := range n.Addresses {
		if !slices.Contains(addrs, want) {
			return fmt.Errorf("%s lacks address %s", name, want)
		}
	}
	return nil
}

// Validate refuses an annotation that cannot be put on an interface. Further networks may leave addresses to the pod.
func Validate(n *contract.PodNetwork, further bool) error {
	if len(n.Addresses) == 0 && !further {
		return fmt.Errorf("ip_addresses is empty")
	}
	if n.MTU < 0 || n.MTU > 65535 {
		return fmt.Errorf("mtu %d is not between 0 and 65535", n.MTU)
	}
	if len(n.MAC) != 6 || n.MAC[0]&1 != 0 {
		return fmt.Errorf("mac_address %q is not a unicast MAC", n.MAC)
	}
	for _, p := range n.Addresses {
		if !p.IsValid() || p.Addr().IsUnspecified() || p.Addr().IsMulticast() || p.Addr().IsLoopback() {
			return fmt.Errorf("ip_addresses: %s is not an interface address", p)
		}
	}
	return validateHops(n)
}

func validateHops(n *contract.PodNetwork) error {
	for _, gw := range n.Gateways {
		if !hasFamily(n, gw) {
			return fmt.Errorf("gateway_ips: %s has no address of its family beside it", gw)
		}
	}
	for _, route := range n.Routes {
		if !route.Dest.IsValid() || !hasFamily(n, route.NextHop) || !contract.FamilyOf(route.NextHop).Has(route.Dest.Addr()) {
			return fmt.Errorf("routes: %s via %s is not a route for the pod's addresses", route.Dest, route.NextHop)
		}
	}
	return nil
}

func hasFamily(n *contract.PodNetwork, addr netip.Addr) bool {
	_, ok := contract.FamilyOf(addr).Pick(n.Addresses)
	return ok && addr.IsValid()
}

// CarriedMTU is mtu, or less where packets of this size do not leave the node by a physical network, or by the tunnels
// for "". carried gives 0 where that is not known; nil: nothing is.
func CarriedMTU(mtu int, physicalNetwork string, carried func(string) int) int {
	if carried == nil {
		return mtu
	}
	if limit := carried(physicalNetwork); limit != 0 {
		return min(mtu, limit)
	}
	return mtu
}
