package policy

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// FuzzNetworks: an address is in the networks exactly when a block has it, and no
// exception of that block. The networks have no overlaps.
func FuzzNetworks(f *testing.F) {
	f.Add("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.0.0/17", "10.1.2.3")
	f.Add("::/0", "fd00::1/128", "255.255.255.255/32", "0.0.0.0/0", "fd00::2")
	f.Add("0.0.0.0/0", "0.0.0.0/32", "255.255.255.255/32", "128.0.0.0/1", "1.2.3.4")
	f.Add("10.0.0.0/8", "::ffff:10.1.0.0/112", "10.1.2.0/24", "10.1.0.0/17", "10.1.2.3")
	f.Fuzz(func(t *testing.T, cidr, except, another, second, at string) {
		addr, err := netip.ParseAddr(at)
		if err != nil || addr.Zone() != "" || addr.Is4In6() {
			return
		}
		blocks := []networkingv1.IPBlock{{CIDR: cidr, Except: []string{except, another}}, {CIDR: second}}
		prefixes, wrong := newNetworks("spec", blocks).Prefixes()
		want := false
		for _, block := range blocks {
			network, err := netip.ParsePrefix(block.CIDR)
			bad := err != nil || network.Addr().Is4In6()
			within := !bad && network.Contains(addr)
			for _, text := range block.Except {
				e, err := netip.ParsePrefix(text)
				bad = bad || err != nil || e.Addr().BitLen() != network.Addr().BitLen()
				within = within && !bad && !e.Contains(addr)
			}
			if bad && wrong == nil {
				t.Errorf("%v: no error", block)
			}
			want = want || within && !bad
		}
		found := 0
		for i, prefix := range prefixes {
			if prefix.Contains(addr) {
				found++
			}
			if i > 0 && prefixes[i-1].Overlaps(prefix) {
				t.Errorf("%s and %s overlap", prefixes[i-1], prefix)
			}
		}
		if (found == 1) != want || found > 1 {
			t.Errorf("%v has %s %d times, want %t", blocks, addr, found, want)
		}
		if len(prefixes) > 0 && newNetworks("spec", blocks).contains(addr) != want {
			t.Errorf("%v: contains says %t", blocks, !want)
		}
	})
}

// TestNetworks_RandomExceptions compares the sweep with the definition.
func TestNetworks_RandomExceptions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		block := networkingv1.IPBlock{CIDR: "10.0.0.0/24"}
		for range r.IntN(12) {
			bits := 25 + r.IntN(8)
			addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(256))})
			block.Except = append(block.Except, netip.PrefixFrom(addr, bits).Masked().String())
		}
		networks := newNetworks("", []networkingv1.IPBlock{block})
		if _, err := networks.Prefixes(); err != nil {
			t.Fatal(err)
		}
		for i := range 256 {
			addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			want := !slices.ContainsFunc(block.Except, func(e string) bool { return netip.MustParsePrefix(e).Contains(addr) })
			if prefixes, _ := networks.Prefixes(); len(prefixes) > 0 && networks.contains(addr) != want {
				t.Fatalf("%s without %v: %s is %t", block.CIDR, block.Except, addr, !want)
			}
		}
	}
}

// TestNetworks_ExceptionOfAnotherFamilyIsAnError: IPv4 in the form of IPv6 took
// nothing away, without a word.
func TestNetworks_ExceptionOfAnotherFamilyIsAnError(t *testing.T) {
	for except, ok := range map[string]bool{"10.1.0.0/16": true, "::ffff:10.1.0.0/112": false, "fd00::/64": false} {
		prefixes, err := newNetworks("spec.egress[0]", []networkingv1.IPBlock{{CIDR: "10.0.0.0/8", Except: []string{except}}}).Prefixes()
		if (err == nil) != ok || (len(prefixes) > 0) != ok {
			t.Errorf("except %s: %v, %v", except, prefixes, err)
		}
		if err != nil && !strings.Contains(err.Error(), except) {
			t.Errorf("the error does not name %s: %v", except, err)
		}
	}
	if prefixes, err := newNetworks("", []networkingv1.IPBlock{{CIDR: "::ffff:10.0.0.0/104"}}).Prefixes(); err == nil {
		t.Errorf("a block in the form of IPv6 is %v", prefixes)
	}
}
