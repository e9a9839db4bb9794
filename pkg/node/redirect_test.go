package node

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"sigs.k8s.io/knftables"
)

const redirectedTable = `add table inet ovn-offload
add chain inet ovn-offload output { type nat hook output priority -100 ; }
add set inet ovn-offload own-ip { type ipv4_addr ; }
add set inet ovn-offload own-ip6 { type ipv6_addr ; }
add map inet ovn-offload nodeports-ip { type inet_proto . inet_service : ipv4_addr . inet_service ; }
add map inet ovn-offload nodeports-ip6 { type inet_proto . inet_service : ipv6_addr . inet_service ; }
add rule inet ovn-offload output ip daddr @own-ip dnat ip to meta l4proto . th dport map @nodeports-ip
add rule inet ovn-offload output ip6 daddr @own-ip6 dnat ip6 to meta l4proto . th dport map @nodeports-ip6
add element inet ovn-offload own-ip { 172.18.0.3 }
add element inet ovn-offload own-ip6 { fc00:18::3 }
add element inet ovn-offload nodeports-ip { tcp . 30080 : 10.96.0.10 . 80 }
`

// TestRedirect: the table is written, left alone while it is right, and made
// again whoever spoils it.
func TestRedirect(t *testing.T) {
	fake := knftables.NewFake(knftables.InetFamily, RedirectTable)
	m := &machine{deps: Deps{NFT: fake, Logger: slog.New(slog.DiscardHandler)}}
	ports := []NodePort{{Port{"tcp", 30080}, addrPorts("10.96.0.10:80")}}
	want := planRedirects([]netip.Prefix{nodeV4, nodeV6}, ports)
	spoil := func(change func(tx *knftables.Transaction)) func() {
		return func() {
			tx := fake.NewTransaction()
			change(tx)
			must(t, fake.Run(t.Context(), tx))
		}
	}
	for name, before := range map[string]func(){
		"nothing":  func() {},
		"no table": spoil(func(tx *knftables.Transaction) { tx.Delete(&knftables.Table{}) }),
		"no rule":  spoil(func(tx *knftables.Transaction) { tx.Flush(&knftables.Chain{Name: redirectChain}) }),
		"another element": spoil(func(tx *knftables.Transaction) {
			tx.Add(&knftables.Element{Map: "nodeports-ip", Key: []string{"tcp", "22"}, Value: []string{"10.96.0.66", "22"}})
		}),
	} {
		must(t, m.redirect(t.Context(), want))
		before()
		must(t, m.redirect(t.Context(), want))
		equal(t, "after "+name, strings.TrimSpace(fake.Dump()), strings.TrimSpace(redirectedTable))
	}
	fake.LastTransaction = nil
	must(t, m.redirect(t.Context(), want))
	if fake.LastTransaction != nil {
		t.Errorf("a right table was written again: %s", fake.LastTransaction)
	}
	must(t, m.redirect(t.Context(), planRedirects(nil, nil)))
	if dump := fake.Dump(); strings.Contains(dump, "element") {
		t.Errorf("without services: %s", dump)
	}
}
