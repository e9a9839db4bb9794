// Package redirect leads a node's own processes to services and host ports, and drops what the
// node's kernel must not take: its nftables table has all of this.
//
// A process of the node that asks for a node port, or another port of a service or a
// pod, at the node's own address never leaves the host's kernel. There it is turned
// to the service's own address, and so to the gateway bridge; of a service with policy
// Local without an endpoint here, to the router's node ports of other nodes. At an external
// address of a service with policy Local it would find the node's own endpoints only, as
// whoever comes from outside; so it is turned there as well. By two rules for each
// family, and an element of a map for each port.
//
// A host port at a loopback address is one of these elements. A process that asks
// there has that address itself, with which no packet may leave the node: such packets
// get the management port's address, and the kernel has to allow them there. What
// comes by that port for a loopback address is dropped, because only the node itself may
// use that address.
//
// What enters by the gateway bridge does not leave by it again, or a packet to an address of a
// load balancer that nothing takes would go in a circle between the node and the router until
// its TTL ends. With the userspace datapath the kernel gets a copy of each packet of an uplink,
// beside the one that the bridge gives it. A copy for an address that the uplink has not is dropped.
//
// Place in the data flow: pkg/node/gateway's pass -> Keep -> nftables, one setting of
// the kernel, and conntrack entries of the time before.
package redirect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/knftables"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
)

const (
	// tableName is the nftables table (family inet).
	tableName     = "ovn-offload"
	redirectChain = "output"
	ownSet        = "own-"
	nodePortMap   = "nodeports-"
	externalMap   = "external-"
	redirectRules = 2 // of each family

	// timeout is for programs (nft), which on a starved host take many times as long.
	timeout = 30 * time.Second

	loopbackInChain, loopbackOutChain = "loopback-in", "loopback-out"
	forwardChain, uplinkChain         = "forward", "uplink-in"
	// gatewaySet has the link of which nothing is forwarded to itself, uplinkSet the links whose packets are copies.
	gatewaySet, uplinkSet = "gateway", "uplinks"
	// routeLocalnet lets packets of loopback addresses pass a link.
	routeLocalnet = "net/ipv4/conf/" + node.ManagementInterface + "/route_localnet"
)

// Host is what is changed beside nftables; node.Local is one.
type Host interface {
	Sysctl(key, value string) error
	SysctlValue(key string) (string, error)
	// Forget is netdev's.
	Forget(stale func(protocol string, client, asked, server netip.AddrPort) bool) (int, error)
}

// Node is what the table depends on.
type Node struct {
	// Addresses are those at which node ports answer.
	Addresses []netip.Prefix
	Services  flows.Services
	// Gateway is the link of which nothing is forwarded to itself; "": the host forwards on purpose.
	Gateway string
	// Copied are the links whose packets a bridge of the userspace datapath takes as well.
	Copied []string
}

// Table is the nftables table of the node; of one goroutine. A nil Table does nothing.
type Table struct {
	nft  knftables.Interface
	read func() (content, error)
	host Host
	log  *slog.Logger
	// misled says that connections to node ports may have to be forgotten.
	misled bool
	// former are the targets that the table had before.
	former targets
}

// New is nil on a kernel without nftables: all that it costs is the node's own
// way to node ports at the node.
func New(host Host, log *slog.Logger) *Table {
	nft, err := knftables.New(knftables.InetFamily, tableName)
	if err != nil {
		log.Warn("no nftables: processes of the node do not reach node ports at the node", "error", err)
		return nil
	}
	return &Table{nft: nft, read: readKernel, host: host, log: log, former: targets{}}
}

// redirects are the elements of one family.
type redirects struct {
	family   contract.Family
	ip, addr string // "ip" and "ipv4_addr", or those of IPv6
	own      []*knftables.Element
	ports    []*knftables.Element
	external []*knftables.Element
}

func planRedirects(addrs []netip.Prefix, services flows.Services) []redirects {
	all := []redirects{{family: contract.IPv4, ip: "ip", addr: "ipv4_addr"}, {family: contract.IPv6, ip: "ip6", addr: "ipv6_addr"}}
	for i := range all {
		r := &all[i]
		for _, own := range addrs {
			if r.family.Has(own.Addr()) {
				r.own = append(r.own, &knftables.Element{Set: ownSet + r.ip, Key: []string{own.Addr().String()}})
			}
		}
		for _, p := range services.NodePorts {
			for _, target := range p.Targets {
				if r.family.Has(target.Addr()) {
					r.ports = append(r.ports, element(nodePortMap+r.ip, p.Port, target))
				}
			}
		}
		for _, e := range services.Redirected(addrs) {
			if r.family.Has(e.Addr) {
				r.external = append(r.external, element(externalMap+r.ip, e.Port, e.Target, e.Addr.String()))
			}
		}
	}
	return all
}

// place is where a process of the node asks.
type place struct {
	flows.Protocol
	at netip.AddrPort
}

// targets are those to which the table leads, by place.
type targets map[place]netip.AddrPort

// targetsOf are those of the node's services at its addresses.
func targetsOf(addrs []netip.Prefix, services flows.Services) targets {
	all := targets{}
	for _, own := range addrs {
		for _, p := range services.NodePorts {
			if target := flows.OfFamily(own.Addr(), p.Targets); target.IsValid() {
				all[place{p.Protocol, netip.AddrPortFrom(own.Addr(), p.Port.Port)}] = target
			}
		}
	}
	for _, e := range services.Redirected(addrs) {
		all[place{e.Protocol, netip.AddrPortFrom(e.Addr, e.Port.Port)}] = e.Target
	}
	return all
}

// misled gives which connections of the node's own processes the table would lead
// elsewhere, had it been there when they began, and which to a former target it would not
// lead at all: the kernel asks it only then. One of UDP that goes on lasts for ever, and so
// does one of TCP that no server answers.
func misled(addrs []netip.Prefix, now, former targets) func(protocol string, client, asked, server netip.AddrPort) bool {
	return func(protocol string, client, asked, server netip.AddrPort) bool {
		at := place{flows.Protocol(protocol), asked}
		target, leads := now[at]
		was, led := former[at]
		ours := client.Addr().IsLoopback() || slices.ContainsFunc(addrs, func(own netip.Prefix) bool { return own.Addr() == client.Addr() })
		return ours && (leads && server != target || !leads && led && server == was)
	}
}

// element is that of a port, at an address if the map has them.
func element(in string, p flows.Port, target netip.AddrPort, at ...string) *knftables.Element {
	return &knftables.Element{
		Map: in, Key: append(at, string(p.Protocol), fmt.Sprint(p.Port)),
		Value: []string{target.Addr().String(), fmt.Sprint(target.Port())},
	}
}

// Keep makes the kernel's table that of the node; the table is looked at each time.
func (t *Table) Keep(ctx context.Context, n Node) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	n.Services = n.Services.At(n.Addresses)
	if err := t.write(ctx, n); err != nil {
		return err
	}
	if err := t.localnet(len(n.Services.HostPorts) > 0); err != nil {
		return err
	}
	if !t.misled {
		return nil
	}
	ended, err := t.host.Forget(misled(n.Addresses, targetsOf(n.Addresses, n.Services), t.former))
	if err != nil {
		return fmt.Errorf("connections to node ports and external addresses: %w", err)
	}
	t.misled, t.former = false, targets{}
	t.log.Info("node ports and external addresses of the node's own processes", "table", tableName, "ended", ended)
	return nil
}

// write writes the table if the kernel has another one, whose targets it keeps: connections to them may have to end.
func (t *Table) write(ctx context.Context, n Node) error {
	want := planRedirects(n.Addresses, n.Services)
	have, err := t.read()
	if err != nil {
		return fmt.Errorf("reading nftables table %s: %w", tableName, err)
	}
	if have.equal(wanted(n, want)) {
		return nil
	}
	if err := t.nft.Run(ctx, table(t.nft, n, want)); err != nil {
		return fmt.Errorf("writing nftables table %s: %w", tableName, err)
	}
	maps.Copy(t.former, have.targets())
	t.misled = true
	return nil
}

// Remove takes back what Keep has done.
func (t *Table) Remove(ctx context.Context) error {
	if t == nil {
		return nil
	}
	tx := t.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	return errors.Join(t.localnet(false), t.nft.Run(ctx, tx))
}

// localnet must not be on without the table, which keeps pods from loopback addresses.
func (t *Table) localnet(on bool) error {
	want := "0"
	if on {
		want = "1"
	}
	have, err := t.host.SysctlValue(routeLocalnet)
	if errors.Is(err, fs.ErrNotExist) || have == want { // without the port there is nothing to set
		return nil
	}
	if err != nil {
		return fmt.Errorf("host ports at loopback addresses: %w", err)
	}
	if err := t.host.Sysctl(routeLocalnet, want); err != nil {
		return fmt.Errorf("host ports at loopback addresses: %w", err)
	}
	return nil
}

// wanted is the content of the wanted table.
func wanted(n Node, want []redirects) content {
	c := content{rules: map[string]int{
		redirectChain: redirectRules * len(want), loopbackInChain: 1, loopbackOutChain: 1,
		forwardChain: 1, uplinkChain: min(len(n.Copied), 1),
	}}
	for _, e := range slices.Concat(n.links(), elementsOf(want)) {
		c.add(cmp.Or(e.Set, e.Map), e.Key, e.Value)
	}
	return c
}

// links are the elements that name links.
func (n Node) links() []*knftables.Element {
	var all []*knftables.Element
	if n.Gateway != "" {
		all = append(all, &knftables.Element{Set: gatewaySet, Key: []string{strconv.Quote(n.Gateway)}})
	}
	for _, link := range n.Copied {
		all = append(all, &knftables.Element{Set: uplinkSet, Key: []string{strconv.Quote(link)}})
	}
	return all
}

func elementsOf(want []redirects) []*knftables.Element {
	var all []*knftables.Element
	for _, r := range want {
		all = slices.Concat(all, r.own, r.ports, r.external)
	}
	return all
}

// table replaces the whole table in one transaction.
func table(nft knftables.Interface, n Node, want []redirects) *knftables.Transaction {
	tx := nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{})
	addChain(tx, redirectChain, knftables.NATType, knftables.OutputHook, knftables.DNATPriority)
	addChain(tx, loopbackInChain, knftables.FilterType, knftables.PreroutingHook, knftables.RawPriority)
	addChain(tx, loopbackOutChain, knftables.NATType, knftables.PostroutingHook, knftables.SNATPriority)
	addChain(tx, forwardChain, knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority)
	addChain(tx, uplinkChain, knftables.FilterType, knftables.PreroutingHook, knftables.RawPriority)
	for _, set := range []string{gatewaySet, uplinkSet} {
		tx.Add(&knftables.Set{Name: set, Type: "ifname"})
	}
	const loopback = "127.0.0.0/8"
	rule := func(chain string, words ...any) {
		tx.Add(&knftables.Rule{Chain: chain, Rule: knftables.Concat(words...)})
	}
	rule(loopbackInChain, "iifname", node.ManagementInterface, "ip daddr", loopback, "drop")
	rule(loopbackOutChain, "oifname", node.ManagementInterface, "ip saddr", loopback, "masquerade")
	rule(forwardChain, "iifname", "@"+gatewaySet, "oifname", "@"+gatewaySet, "drop")
	if len(n.Copied) > 0 {
		// Broadcast and multicast pass: while the uplink has the node's addresses, it needs them.
		rule(uplinkChain, "iifname", "@"+uplinkSet, "fib daddr . iif type unicast", "drop")
	}
	for _, r := range want {
		tx.Add(&knftables.Set{Name: ownSet + r.ip, Type: r.addr})
		tx.Add(&knftables.Map{Name: nodePortMap + r.ip, Type: "inet_proto . inet_service : " + r.addr + " . inet_service"})
		tx.Add(&knftables.Map{Name: externalMap + r.ip, Type: r.addr + " . inet_proto . inet_service : " + r.addr + " . inet_service"})
		rule(redirectChain, r.ip, "daddr", "@"+ownSet+r.ip, "dnat", r.ip, "to", "meta l4proto . th dport", "map", "@"+nodePortMap+r.ip)
		rule(redirectChain, "dnat", r.ip, "to", r.ip, "daddr . meta l4proto . th dport", "map", "@"+externalMap+r.ip)
	}
	for _, e := range slices.Concat(n.links(), elementsOf(want)) {
		tx.Add(e)
	}
	return tx
}

func addChain(tx *knftables.Transaction, name string, of knftables.BaseChainType, hook knftables.BaseChainHook, at knftables.BaseChainPriority) {
	tx.Add(&knftables.Chain{Name: name, Type: &of, Hook: &hook, Priority: &at})
}
