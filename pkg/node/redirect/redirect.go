// Package redirect leads a node's own processes to services and host ports.
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
	"net/netip"
	"slices"
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

// Table is the nftables table of the node; of one goroutine. A nil Table does nothing.
type Table struct {
	nft  knftables.Interface
	read func() (content, error)
	host Host
	log  *slog.Logger
	// misled says that connections to node ports may have to be forgotten.
	misled bool
}

// New is nil on a kernel without nftables: all that it costs is the node's own
// way to node ports at the node.
func New(host Host, log *slog.Logger) *Table {
	nft, err := knftables.New(knftables.InetFamily, tableName)
	if err != nil {
		log.Warn("no nftables: processes of the node do not reach node ports at the node", "error", err)
		return nil
	}
	return &Table{nft: nft, read: readKernel, host: host, log: log}
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

// misled gives which connections of the node's own processes the table would lead
// elsewhere, had it been there when they began: the kernel asks it only then. One of UDP
// that goes on lasts for ever, and so does one of TCP that no server answers.
func misled(addrs []netip.Prefix, services flows.Services) func(protocol string, client, asked, server netip.AddrPort) bool {
	type place struct {
		flows.Protocol
		at netip.AddrPort
	}
	targets := map[place]netip.AddrPort{}
	for _, own := range addrs {
		for _, p := range services.NodePorts {
			if target := flows.OfFamily(own.Addr(), p.Targets); target.IsValid() {
				targets[place{p.Protocol, netip.AddrPortFrom(own.Addr(), p.Port.Port)}] = target
			}
		}
	}
	for _, e := range services.Redirected(addrs) {
		targets[place{e.Protocol, netip.AddrPortFrom(e.Addr, e.Port.Port)}] = e.Target
	}
	return func(protocol string, client, asked, server netip.AddrPort) bool {
		target, ok := targets[place{flows.Protocol(protocol), asked}]
		ours := client.Addr().IsLoopback() || slices.ContainsFunc(addrs, func(own netip.Prefix) bool { return own.Addr() == client.Addr() })
		return ok && server != target && ours
	}
}

// element is that of a port, at an address if the map has them.
func element(in string, p flows.Port, target netip.AddrPort, at ...string) *knftables.Element {
	return &knftables.Element{
		Map: in, Key: append(at, string(p.Protocol), fmt.Sprint(p.Port)),
		Value: []string{target.Addr().String(), fmt.Sprint(target.Port())},
	}
}

// Keep makes the kernel's table lead to services at the node's addresses; the table is
// looked at each time.
func (t *Table) Keep(ctx context.Context, addrs []netip.Prefix, services flows.Services) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	services = services.At(addrs)
	want := planRedirects(addrs, services)
	same, err := t.redirected(want)
	if err != nil {
		return err
	}
	if !same {
		if err := t.nft.Run(ctx, redirectTable(t.nft, want)); err != nil {
			return fmt.Errorf("writing nftables table %s: %w", tableName, err)
		}
		t.misled = true
	}
	if err := t.localnet(len(services.HostPorts) > 0); err != nil {
		return err
	}
	if !t.misled {
		return nil
	}
	ended, err := t.host.Forget(misled(addrs, services))
	if err != nil {
		return fmt.Errorf("connections to node ports and external addresses: %w", err)
	}
	t.misled = false
	t.log.Info("node ports and external addresses of the node's own processes", "table", tableName, "ended", ended)
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

// redirected says whether the kernel's table is the wanted one.
func (t *Table) redirected(want []redirects) (bool, error) {
	have, err := t.read()
	if err != nil {
		return false, fmt.Errorf("reading nftables table %s: %w", tableName, err)
	}
	wanted := content{rules: map[string]int{redirectChain: redirectRules * len(want), loopbackInChain: 1, loopbackOutChain: 1}}
	for _, r := range want {
		for _, e := range slices.Concat(r.own, r.ports, r.external) {
			wanted.add(cmp.Or(e.Set, e.Map), e.Key, e.Value)
		}
	}
	return have.equal(wanted), nil
}

// redirectTable replaces the whole table in one transaction.
func redirectTable(nft knftables.Interface, want []redirects) *knftables.Transaction {
	tx := nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{})
	tx.Add(&knftables.Chain{
		Name: redirectChain, Type: knftables.PtrTo(knftables.NATType),
		Hook: knftables.PtrTo(knftables.OutputHook), Priority: knftables.PtrTo(knftables.DNATPriority),
	})
	tx.Add(&knftables.Chain{
		Name: loopbackInChain, Type: knftables.PtrTo(knftables.FilterType),
		Hook: knftables.PtrTo(knftables.PreroutingHook), Priority: knftables.PtrTo(knftables.RawPriority),
	})
	tx.Add(&knftables.Chain{
		Name: loopbackOutChain, Type: knftables.PtrTo(knftables.NATType),
		Hook: knftables.PtrTo(knftables.PostroutingHook), Priority: knftables.PtrTo(knftables.SNATPriority),
	})
	const loopback = "127.0.0.0/8"
	tx.Add(&knftables.Rule{Chain: loopbackInChain, Rule: knftables.Concat("iifname", node.ManagementInterface, "ip daddr", loopback, "drop")})
	tx.Add(&knftables.Rule{Chain: loopbackOutChain, Rule: knftables.Concat("oifname", node.ManagementInterface, "ip saddr", loopback, "masquerade")})
	for _, r := range want {
		tx.Add(&knftables.Set{Name: ownSet + r.ip, Type: r.addr})
		tx.Add(&knftables.Map{Name: nodePortMap + r.ip, Type: "inet_proto . inet_service : " + r.addr + " . inet_service"})
		tx.Add(&knftables.Map{Name: externalMap + r.ip, Type: r.addr + " . inet_proto . inet_service : " + r.addr + " . inet_service"})
		for _, e := range slices.Concat(r.own, r.ports, r.external) {
			tx.Add(e)
		}
		tx.Add(&knftables.Rule{Chain: redirectChain, Rule: knftables.Concat(
			r.ip, "daddr", "@"+ownSet+r.ip, "dnat", r.ip, "to", "meta l4proto . th dport", "map", "@"+nodePortMap+r.ip,
		)})
		tx.Add(&knftables.Rule{Chain: redirectChain, Rule: knftables.Concat(
			"dnat", r.ip, "to", r.ip, "daddr . meta l4proto . th dport", "map", "@"+externalMap+r.ip,
		)})
	}
	return tx
}
