package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"
)

// A process of the node that asks for a node port at the node's own address
// never leaves the host's kernel. There it is turned to the service's own
// address, and so to the gateway bridge: by two rules, and an element of a map for
// each node port.
const (
	// RedirectTable is the nftables table (family inet).
	RedirectTable = "ovn-offload"
	redirectChain = "output"
	ownSet        = "own-"
	nodePortMap   = "nodeports-"
)

// redirects are the elements of one family.
type redirects struct {
	ip, addr string // "ip" and "ipv4_addr", or those of IPv6
	own      []*knftables.Element
	ports    []*knftables.Element
}

func planRedirects(addrs []netip.Prefix, ports []NodePort) []redirects {
	all := []redirects{{ip: "ip", addr: "ipv4_addr"}, {ip: "ip6", addr: "ipv6_addr"}}
	for i := range all {
		r := &all[i]
		v4 := r.ip == "ip"
		for _, own := range addrs {
			if own.Addr().Is4() == v4 {
				r.own = append(r.own, &knftables.Element{Set: ownSet + r.ip, Key: []string{own.Addr().String()}})
			}
		}
		for _, p := range ports {
			for _, target := range p.Targets {
				if target.Addr().Is4() == v4 {
					r.ports = append(r.ports, &knftables.Element{
						Map: nodePortMap + r.ip, Key: []string{string(p.Protocol), fmt.Sprint(p.Port.Port)},
						Value: []string{target.Addr().String(), fmt.Sprint(target.Port())},
					})
				}
			}
		}
	}
	return all
}

// redirect makes the kernel's table so; it is looked at each time.
func (m *machine) redirect(ctx context.Context, want []redirects) error {
	if m.deps.NFT == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	same, err := m.redirected(ctx, want)
	if same || err != nil {
		return err
	}
	if err := m.deps.NFT.Run(ctx, redirectTable(m.deps.NFT, want)); err != nil {
		return fmt.Errorf("writing nftables table %s: %w", RedirectTable, err)
	}
	m.deps.Logger.Info("node ports of the node's own processes", "table", RedirectTable, "ops", len(want[0].ports)+len(want[1].ports))
	return nil
}

func (m *machine) redirected(ctx context.Context, want []redirects) (bool, error) {
	rules, err := m.deps.NFT.ListRules(ctx, redirectChain)
	if knftables.IsNotFound(err) || err == nil && len(rules) != len(want) {
		return false, nil
	}
	for _, r := range want {
		if err != nil {
			break
		}
		var own, ports []*knftables.Element
		if own, err = m.deps.NFT.ListElements(ctx, "set", ownSet+r.ip); err == nil {
			ports, err = m.deps.NFT.ListElements(ctx, "map", nodePortMap+r.ip)
		}
		switch {
		case knftables.IsNotFound(err):
			return false, nil
		case err == nil && (elementTexts(own) != elementTexts(r.own) || elementTexts(ports) != elementTexts(r.ports)):
			return false, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("reading nftables table %s: %w", RedirectTable, err)
	}
	return true, nil
}

func elementTexts(elements []*knftables.Element) string {
	var lines []string
	for _, e := range elements {
		lines = append(lines, strings.Join(e.Key, " ")+" "+strings.Join(e.Value, " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
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
	for _, r := range want {
		tx.Add(&knftables.Set{Name: ownSet + r.ip, Type: r.addr})
		tx.Add(&knftables.Map{Name: nodePortMap + r.ip, Type: "inet_proto . inet_service : " + r.addr + " . inet_service"})
		for _, e := range slices.Concat(r.own, r.ports) {
			tx.Add(e)
		}
		tx.Add(&knftables.Rule{Chain: redirectChain, Rule: knftables.Concat(
			r.ip, "daddr", "@"+ownSet+r.ip, "dnat", r.ip, "to", "meta l4proto . th dport", "map", "@"+nodePortMap+r.ip,
		)})
	}
	return tx
}
