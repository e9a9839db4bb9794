package redirect

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"sigs.k8s.io/knftables"

	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

const redirectedTable = `add table inet ovn-offload
add chain inet ovn-offload forward { type filter hook forward priority 0 ; }
add chain inet ovn-offload loopback-in { type filter hook prerouting priority -300 ; }
add chain inet ovn-offload loopback-out { type nat hook postrouting priority 100 ; }
add chain inet ovn-offload output { type nat hook output priority -100 ; }
add chain inet ovn-offload uplink-in { type filter hook prerouting priority -300 ; }
add set inet ovn-offload gateway { type ifname ; }
add set inet ovn-offload own-ip { type ipv4_addr ; }
add set inet ovn-offload own-ip6 { type ipv6_addr ; }
add set inet ovn-offload uplinks { type ifname ; }
add map inet ovn-offload external-ip { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service ; }
add map inet ovn-offload external-ip6 { type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service ; }
add map inet ovn-offload nodeports-ip { type inet_proto . inet_service : ipv4_addr . inet_service ; }
add map inet ovn-offload nodeports-ip6 { type inet_proto . inet_service : ipv6_addr . inet_service ; }
add rule inet ovn-offload forward iifname @gateway oifname @gateway drop
add rule inet ovn-offload loopback-in iifname ovn-k8s-mp0 ip daddr 127.0.0.0/8 drop
add rule inet ovn-offload loopback-out oifname ovn-k8s-mp0 ip saddr 127.0.0.0/8 masquerade
add rule inet ovn-offload output ip daddr @own-ip dnat ip to meta l4proto . th dport map @nodeports-ip
add rule inet ovn-offload output dnat ip to ip daddr . meta l4proto . th dport map @external-ip
add rule inet ovn-offload output ip6 daddr @own-ip6 dnat ip6 to meta l4proto . th dport map @nodeports-ip6
add rule inet ovn-offload output dnat ip6 to ip6 daddr . meta l4proto . th dport map @external-ip6
add rule inet ovn-offload uplink-in iifname @uplinks fib daddr . iif type unicast drop
add element inet ovn-offload gateway { "breth0" }
add element inet ovn-offload own-ip { 172.18.0.3 }
add element inet ovn-offload own-ip6 { fc00:18::3 }
add element inet ovn-offload uplinks { "eth0" }
add element inet ovn-offload external-ip { 172.18.0.3 . udp . 53 : 10.244.1.5 . 5353 }
add element inet ovn-offload external-ip { 198.51.100.1 . tcp . 443 : 10.96.0.10 . 443 }
add element inet ovn-offload external-ip { 127.0.0.1 . udp . 54 : 10.244.1.5 . 5354 }
add element inet ovn-offload external-ip6 { 2001:db8::1 . tcp . 443 : fd00:10:96::10 . 443 }
add element inet ovn-offload external-ip6 { fc00:18::3 . tcp . 444 : fd00:10:96::11 . 444 }
add element inet ovn-offload external-ip6 { ::1 . tcp . 54 : fd00:10:244:1::5 . 5354 }
add element inet ovn-offload nodeports-ip { tcp . 30080 : 10.96.0.10 . 80 }
`

// nodeOf has the addresses at a bridge of the userspace datapath.
func nodeOf(services flows.Services, addrs ...netip.Prefix) Node {
	return Node{Addresses: addrs, Services: services, Gateway: "breth0", Copied: []string{"eth0"}}
}

var nodeV4, nodeV6 = netip.MustParsePrefix("172.18.0.3/16"), netip.MustParsePrefix("fc00:18::3/64")

// redirectedPorts are a node port, external addresses of a service with policy Local, and
// ports at the node's own addresses; the others are the gateway bridge's.
var redirectedPorts = flows.Services{
	NodePorts: []flows.NodePort{{Port: flows.Port{Protocol: "tcp", Port: 30080}, Targets: addrPorts("10.96.0.10:80")}},
	External: []flows.Endpoint{
		{Addr: netip.MustParseAddr("198.51.100.1"), Port: flows.Port{Protocol: "tcp", Port: 443}, Target: netip.MustParseAddrPort("10.96.0.10:443"), Local: true},
		{Addr: netip.MustParseAddr("2001:db8::1"), Port: flows.Port{Protocol: "tcp", Port: 443}, Target: netip.MustParseAddrPort("[fd00:10:96::10]:443"), Local: true},
		{Addr: netip.MustParseAddr("198.51.100.2"), Port: flows.Port{Protocol: "tcp", Port: 443}, Target: netip.MustParseAddrPort("10.96.0.11:443")},
		{Addr: nodeV6.Addr(), Port: flows.Port{Protocol: "tcp", Port: 443}, Local: true},
		{Addr: nodeV6.Addr(), Port: flows.Port{Protocol: "tcp", Port: 444}, Target: netip.MustParseAddrPort("[fd00:10:96::11]:444")},
	},
	HostPorts: []flows.Endpoint{
		{Addr: nodeV4.Addr(), Port: flows.Port{Protocol: "udp", Port: 53}, Target: netip.MustParseAddrPort("10.244.1.5:5353")},
		{Addr: netip.MustParseAddr("172.18.0.99"), Port: flows.Port{Protocol: "udp", Port: 53}, Target: netip.MustParseAddrPort("10.244.1.5:5353"), Local: true},
		{Addr: netip.MustParseAddr("127.0.0.1"), Port: flows.Port{Protocol: "udp", Port: 54}, Target: netip.MustParseAddrPort("10.244.1.5:5354")},
		{Addr: netip.MustParseAddr("::1"), Port: flows.Port{Protocol: "tcp", Port: 54}, Target: netip.MustParseAddrPort("[fd00:10:244:1::5]:5354")},
		{Addr: netip.MustParseAddr("127.0.0.1"), Port: flows.Port{Protocol: "tcp", Port: 54}}, // the pod has no such family
	},
}

// localnetHost is a kernel with the one setting that redirect changes.
type localnetHost struct {
	value   string
	changes int
	forget  func() error
}

func (h *localnetHost) Forget(func(string, netip.AddrPort, netip.AddrPort, netip.AddrPort) bool) (int, error) {
	return 0, h.forget()
}

func (h *localnetHost) SysctlValue(key string) (string, error) {
	if key != routeLocalnet {
		return "", errors.New("another key: " + key)
	}
	return h.value, nil
}

func (h *localnetHost) Sysctl(_, value string) error {
	h.value = value
	h.changes++
	return nil
}

// TestTable_IsWrittenAndRepaired: the table is written, left alone while it is right, and made
// again whoever spoils it.
func TestTable_IsWrittenAndRepaired(t *testing.T) {
	fake := knftables.NewFake(knftables.InetFamily, tableName)
	looks, fails := 0, false
	host := &localnetHost{value: "0"}
	host.forget = func() error {
		if looks++; fails {
			return errors.New("conntrack is absent")
		}
		return nil
	}
	m := &Table{nft: fake, read: reading(fake), host: host, log: slog.New(slog.DiscardHandler), former: targets{}}
	right := nodeOf(redirectedPorts, nodeV4, nodeV6)
	spoil := func(change func(tx *knftables.Transaction)) func() {
		return func() {
			tx := fake.NewTransaction()
			change(tx)
			nodetest.Must(t, fake.Run(t.Context(), tx))
		}
	}
	for name, before := range map[string]func(){
		"nothing":  func() {},
		"no table": spoil(func(tx *knftables.Transaction) { tx.Delete(&knftables.Table{}) }),
		"no rule":  spoil(func(tx *knftables.Transaction) { tx.Flush(&knftables.Chain{Name: redirectChain}) }),
		"another element": spoil(func(tx *knftables.Transaction) {
			tx.Add(&knftables.Element{Map: "nodeports-ip", Key: []string{"tcp", "22"}, Value: []string{"10.96.0.66", "22"}})
		}),
		"no drop for loopback addresses": spoil(func(tx *knftables.Transaction) { tx.Flush(&knftables.Chain{Name: loopbackInChain}) }),
		"no source for loopback":         spoil(func(tx *knftables.Transaction) { tx.Flush(&knftables.Chain{Name: loopbackOutChain}) }),
		"no guard":                       spoil(func(tx *knftables.Transaction) { tx.Flush(&knftables.Chain{Name: forwardChain}) }),
		"another gateway":                spoil(func(tx *knftables.Transaction) { tx.Flush(&knftables.Set{Name: gatewaySet}) }),
		"copies":                         spoil(func(tx *knftables.Transaction) { tx.Flush(&knftables.Chain{Name: uplinkChain}) }),
		"no external address":            spoil(func(tx *knftables.Transaction) { tx.Flush(&knftables.Map{Name: "external-ip6"}) }),
	} {
		nodetest.Must(t, m.Keep(t.Context(), right))
		before()
		nodetest.Must(t, m.Keep(t.Context(), right))
		nodetest.Equal(t, "after "+name, strings.TrimSpace(fake.Dump()), strings.TrimSpace(redirectedTable))
	}
	fake.LastTransaction, looks = nil, 0
	nodetest.Must(t, m.Keep(t.Context(), right))
	if host.value != "1" || host.changes != 1 {
		t.Errorf("with a host port at a loopback address the kernel lets such packets pass: %q, set %d times", host.value, host.changes)
	}
	if fake.LastTransaction != nil || looks > 0 {
		t.Errorf("a right table was written again (%d looks at connections): %s", looks, fake.LastTransaction)
	}
	fails = true
	if err := m.Keep(t.Context(), Node{}); err == nil || looks != 1 {
		t.Errorf("connections were looked at %d times, and the error is %v", looks, err)
	}
	fails = false
	nodetest.Must(t, m.Keep(t.Context(), Node{}))
	if host.value != "0" {
		t.Errorf("without services the kernel lets packets of loopback addresses pass: %q", host.value)
	}
	if dump := fake.Dump(); strings.Contains(dump, "element") {
		t.Errorf("without services: %s", dump)
	}
	host.value = "1"
	nodetest.Must(t, m.Remove(t.Context()))
	if dump := fake.Dump(); dump != "" || host.value != "0" {
		t.Errorf("after Remove: %q, the kernel's setting %s", dump, host.value)
	}
}

// TestMisled_RedirectedConnectionsOnly: connections of the node's own processes that the table would lead
// elsewhere are, and no others.
func TestMisled_RedirectedConnectionsOnly(t *testing.T) {
	services := redirectedPorts.At([]netip.Prefix{nodeV4, nodeV6})
	services.NodePorts = append(services.NodePorts, flows.NodePort{Port: flows.Port{Protocol: "udp", Port: 30053}, Targets: addrPorts("10.96.0.10:53")})
	services.External = append(services.External,
		flows.Endpoint{Addr: netip.MustParseAddr("198.51.100.9"), Port: flows.Port{Protocol: "udp", Port: 53}, Target: netip.MustParseAddrPort("10.96.0.10:53"), Local: true},
		flows.Endpoint{Addr: netip.MustParseAddr("198.51.100.8"), Port: flows.Port{Protocol: "udp", Port: 53}, Target: netip.MustParseAddrPort("10.96.0.10:53")})
	addrs := []netip.Prefix{nodeV4, nodeV6}
	former := targets{
		{"udp", netip.MustParseAddrPort("172.18.0.3:30054")}: netip.MustParseAddrPort("10.96.0.10:53"),
		{"udp", netip.MustParseAddrPort("172.18.0.3:30053")}: netip.MustParseAddrPort("10.96.0.98:53"),
	}
	wrong := misled(addrs, targetsOf(addrs, services), former)
	for connection, want := range map[string]bool{
		"udp 172.18.0.3:4000 172.18.0.3:30053 172.18.0.3:30053":  true,
		"udp 172.18.0.3:4000 172.18.0.3:30053 10.96.0.99:53":     true, // another service had the port
		"udp 172.18.0.3:4000 172.18.0.3:30053 10.96.0.10:53":     false,
		"udp 172.18.0.9:4000 172.18.0.3:30053 172.18.0.3:30053":  false, // from outside
		"udp 172.18.0.3:4000 172.18.0.3:30054 172.18.0.3:30054":  false,
		"udp 172.18.0.3:4000 172.18.0.3:30054 10.96.0.10:53":     true,  // the port is gone
		"udp 172.18.0.3:4000 172.18.0.3:30054 10.96.0.99:53":     false, // another program's
		"udp 172.18.0.9:4000 172.18.0.3:30054 10.96.0.10:53":     false, // from outside
		"udp 172.18.0.3:4000 172.18.0.3:30053 10.96.0.98:53":     true,  // another service had the port
		"udp 172.18.0.3:4000 198.51.100.9:53 198.51.100.9:53":    true,
		"udp 172.18.0.3:4000 198.51.100.8:53 198.51.100.8:53":    false, // the bridge's
		"udp 172.18.0.3:4000 172.18.0.3:53 172.18.0.3:53":        true,
		"udp 172.18.0.3:4000 172.18.0.3:30080 172.18.0.3:30080":  false, // of TCP
		"tcp 172.18.0.3:4000 172.18.0.3:30080 172.18.0.3:30080":  true,
		"tcp 172.18.0.3:4000 172.18.0.3:30080 169.254.0.8:30080": true, // the node had no endpoint
		"tcp 172.18.0.3:4000 172.18.0.3:30080 10.96.0.10:80":     false,
		"udp 127.0.0.1:4000 127.0.0.1:54 127.0.0.1:54":           true,
		"udp 127.0.0.1:4000 127.0.0.1:54 10.244.1.5:5354":        false,
		"udp 127.0.0.1:4000 127.0.0.1:55 127.0.0.1:55":           false,
	} {
		protocol, rest, _ := strings.Cut(connection, " ")
		ends := addrPorts(strings.Fields(rest)...)
		if got := wrong(protocol, ends[0], ends[1], ends[2]); got != want {
			t.Errorf("%s: misled %t, want %t", connection, got, want)
		}
	}
}

// TestTable_RemembersFormerTargets: what a table leads to that the agent has found is known when another table replaces
// it, until the connections to it have been looked at.
func TestTable_RemembersFormerTargets(t *testing.T) {
	fake, fails := knftables.NewFake(knftables.InetFamily, tableName), false
	host := &forgetfulHost{localnetHost: localnetHost{value: "0", forget: func() error { return nil }}}
	start := func() *Table {
		return &Table{nft: fake, read: reading(fake), host: host, log: slog.New(slog.DiscardHandler), former: targets{}}
	}
	host.forget = func() error {
		if fails {
			return errors.New("conntrack is absent")
		}
		return nil
	}
	nodetest.Must(t, start().Keep(t.Context(), nodeOf(redirectedPorts, nodeV4, nodeV6)))
	connections := map[string]string{
		"tcp 172.18.0.3:30080":     "10.96.0.10:80",
		"udp 172.18.0.3:53":        "10.244.1.5:5353",
		"udp 127.0.0.1:54":         "10.244.1.5:5354",
		"tcp 198.51.100.1:443":     "10.96.0.10:443",
		"tcp [fc00:18::3]:444":     "[fd00:10:96::11]:444",
		"tcp [2001:db8::1]:443":    "[fd00:10:96::10]:443",
		"tcp 172.18.0.3:30081":     "10.96.0.10:80", // never led anywhere
		"udp 172.18.0.3:30080":     "10.96.0.10:80",
		"tcp [fc00:18::3]:30080":   "10.96.0.10:80",
		"tcp 198.51.100.1:443 too": "10.96.0.11:443",
	}
	stale := func() (all int) {
		for asked, server := range connections {
			words := strings.Fields(asked)
			if at := addrPorts(words[1], server); host.stale(words[0], netip.AddrPortFrom(nodeV4.Addr(), 4000), at[0], at[1]) {
				all++
			}
		}
		return all
	}
	if n := stale(); n != 1 { // the last one goes where the table does not lead
		t.Errorf("with the table %d connections are stale", n)
	}
	restarted := start()
	fails = true
	if err := restarted.Keep(t.Context(), nodeOf(flows.Services{}, nodeV4, nodeV6)); err == nil {
		t.Error("no error")
	}
	fails = false
	nodetest.Must(t, restarted.Keep(t.Context(), nodeOf(flows.Services{}, nodeV4, nodeV6)))
	if n := stale(); n != 6 {
		t.Errorf("without services %d connections are stale, want 6", n)
	}
}

// forgetfulHost keeps what the last Forget was asked for.
type forgetfulHost struct {
	localnetHost
	stale func(protocol string, client, asked, server netip.AddrPort) bool
}

func (h *forgetfulHost) Forget(stale func(string, netip.AddrPort, netip.AddrPort, netip.AddrPort) bool) (int, error) {
	h.stale = stale
	return h.localnetHost.Forget(stale)
}

// TestTable_ForwardingHostHasNoGuard: where the host forwards on purpose the table names no link.
func TestTable_ForwardingHostHasNoGuard(t *testing.T) {
	fake := knftables.NewFake(knftables.InetFamily, tableName)
	host := &localnetHost{value: "0", forget: func() error { return nil }}
	m := &Table{nft: fake, read: reading(fake), host: host, log: slog.New(slog.DiscardHandler), former: targets{}}
	n := nodeOf(redirectedPorts, nodeV4)
	for _, want := range []bool{true, false, true} {
		n.Gateway, n.Copied = "", nil
		if want {
			n.Gateway, n.Copied = "breth0", []string{"eth0"}
		}
		nodetest.Must(t, m.Keep(t.Context(), n))
		dump := fake.Dump()
		if strings.Contains(dump, "breth0") != want || strings.Contains(dump, "fib daddr") != want {
			t.Errorf("guard and copies %t: %s", want, dump)
		}
	}
}

// TestTable_LoopbackNeedsIt: while the table cannot be written, which keeps pods
// from loopback addresses, the kernel does not let their packets pass.
func TestTable_LoopbackNeedsIt(t *testing.T) {
	host := &localnetHost{value: "0"}
	fake := knftables.NewFake(knftables.InetFamily, tableName)
	m := &Table{nft: refusingNFT{fake}, read: reading(fake), host: host, log: slog.New(slog.DiscardHandler)}
	if err := m.Keep(t.Context(), nodeOf(redirectedPorts, nodeV4)); err == nil || host.changes > 0 {
		t.Errorf("error %v, the setting was changed %d times", err, host.changes)
	}
}

// reading gives what a table in memory has.
func reading(fake *knftables.Fake) func() (content, error) {
	return func() (content, error) {
		have := content{rules: map[string]int{}}
		if fake.Table == nil {
			return have, nil
		}
		for name, chain := range fake.Table.Chains {
			have.rules[name] = len(chain.Rules)
		}
		for name, set := range fake.Table.Sets {
			for _, e := range set.Elements {
				have.add(name, e.Key, e.Value)
			}
		}
		for name, m := range fake.Table.Maps {
			for _, e := range m.Elements {
				have.add(name, e.Key, e.Value)
			}
		}
		return have, nil
	}
}

type refusingNFT struct{ *knftables.Fake }

func (refusingNFT) Run(context.Context, *knftables.Transaction) error { return errors.New("refused") }

func addrPorts(texts ...string) (out []netip.AddrPort) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddrPort(text))
	}
	return out
}
