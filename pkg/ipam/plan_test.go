package ipam

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

var comparePrefixes = cmp.Comparer(func(x, y netip.Prefix) bool { return x == y })

func TestParseClusterSubnets_ValidAndInvalid(t *testing.T) {
	for _, tc := range []struct {
		list string
		want []contract.Subnet
		err  string
	}{
		{list: "10.244.0.0/16/24", want: []contract.Subnet{{Prefix: netip.MustParsePrefix("10.244.0.0/16"), NodeBits: 24}}},
		{list: "10.244.0.0/16, fd00:10:244::/48", want: []contract.Subnet{
			{Prefix: netip.MustParsePrefix("10.244.0.0/16"), NodeBits: 24}, {Prefix: netip.MustParsePrefix("fd00:10:244::/48"), NodeBits: 64}}},
		{list: "10.128.0.0/14/23,10.0.0.0/24/29", want: []contract.Subnet{
			{Prefix: netip.MustParsePrefix("10.128.0.0/14"), NodeBits: 23}, {Prefix: netip.MustParsePrefix("10.0.0.0/24"), NodeBits: 29}}},
		{list: "", err: `cluster subnet "": not in the form`},
		{list: "10.244.0.0/16/24,", err: "not in the form"},
		{list: "10.244.0.0/16/24/8", err: "not in the form"},
		{list: "10.244.0.0", err: "not in the form"},
		{list: "10.244.0.1/16/24", err: "would be 10.244.0.0/16"},
		{list: "10.244.0.0/16/15", err: "node prefix length 15 is not between 16 and 29"},
		{list: "10.244.0.0/16/30", err: "not between 16 and 29"},
		{list: "10.244.0.0/25", err: "node prefix length 24 is not between 25 and 29"},
		{list: "10.244.0.0/16/x", err: `"x" is not a number`},
		{list: "::ffff:10.244.0.0/112/120", err: "IPv4 address in IPv6 notation"},
	} {
		got, err := ParseClusterSubnets(tc.list)
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%q: error %v, want %q", tc.list, err, tc.err)
		}
		if diff := cmp.Diff(tc.want, got, comparePrefixes); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.list, diff)
		}
	}
}

func TestConfig_OverlappingSubnetsAreRefused(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*Config)
		err    string
	}{
		{"nothing for pods", func(c *Config) { c.Cluster = nil }, "no cluster subnet"},
		{"services in cluster", func(c *Config) { c.Services = prefixes(t, "10.244.128.0/24") },
			"cluster subnet 10.244.0.0/16 overlaps service subnet 10.244.128.0/24"},
		{"join around services", func(c *Config) { c.Join = prefixes(t, "10.0.0.0/9") },
			"service subnet 10.96.0.0/16 overlaps join subnet 10.0.0.0/9"},
		{"masquerade is join", func(c *Config) { c.Masquerade = c.Join },
			"join subnet 100.64.0.0/16 overlaps masquerade subnet 100.64.0.0/16"},
		{"cluster twice", func(c *Config) { c.Cluster = append(c.Cluster, c.Cluster[0]) }, "cluster subnet 10.244.0.0/16 overlaps cluster"},
		{"two joins", func(c *Config) { c.Join = prefixes(t, "100.64.0.0/16,100.65.0.0/16") }, "two join subnets of one family"},
		{"no join for IPv6", func(c *Config) {
			c.Join = prefixes(t, "100.64.0.0/16")
			c.Cluster = clusters(t, "10.244.0.0/16/24,fd00::/48/64")
		}, "cluster subnet fd00::/48 has no join subnet"},
		{"tiny parts", func(c *Config) { c.Cluster[0].NodeBits = 31 }, "cluster subnet 10.244.0.0/16: node prefix length 31"},
	} {
		cfg := Defaults()
		tc.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.err)
		}
		if _, err := NewSubnets(cfg); err == nil {
			t.Errorf("%s: New takes it", tc.name)
		}
	}
}

// FuzzParseClusterSubnets: what is accepted can be written and read again, and
// its first part can hold a pod.
func FuzzParseClusterSubnets(f *testing.F) {
	for _, seed := range []string{"10.244.0.0/16/24", "fd00:10:244::/48/64,10.0.0.0/8", "0.0.0.0/0/0", "::/0/125", "/", "1.2.3.4/32/", "fe80::%eth0/64"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		subnets, err := ParseClusterSubnets(list)
		if err != nil {
			return
		}
		for _, s := range subnets {
			b := block{prefix: netip.PrefixFrom(s.Addr(), s.NodeBits), first: contract.FirstPodOffset}
			addr, ok := b.next(func(netip.Addr) bool { return false })
			if !ok || !b.allows(addr) || !s.Contains(addr) {
				t.Errorf("%q: first address of %s is %s, %v", list, b.prefix, addr, ok)
			}
		}
	})
}

func FuzzParsePrefixes(f *testing.F) {
	for _, seed := range []string{"", "10.96.0.0/16", "10.96.0.0/16,fd00:10:96::/112", "10.96.0.1/16", " , "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		got, err := ParsePrefixes(list)
		for _, prefix := range got {
			if err == nil && prefix != prefix.Masked() {
				t.Errorf("%q: %s is not a network", list, prefix)
			}
		}
	})
}

func TestAfter_GivesNextSubnet(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.244.0.0/24":        "10.244.1.0/24",
		"10.244.255.0/24":      "10.245.0.0/24",
		"10.244.0.0/23":        "10.244.2.0/23",
		"10.0.0.248/29":        "10.0.1.0/29",
		"0.0.0.0/1":            "128.0.0.0/1",
		"fd00:10:244::/64":     "fd00:10:244:1::/64",
		"fd00::ffff:fff8/125":  "fd00::1:0:0/125",
		"255.255.255.0/24":     "invalid Prefix",
		"fd00:0:0:ffff::/64":   "fd00:0:1::/64",
		"fd00:0:0:1:8000::/65": "fd00:0:0:2::/65",
	} {
		if got := after(netip.MustParsePrefix(prefix)).String(); got != want {
			t.Errorf("after %s: %s, want %s", prefix, got, want)
		}
	}
}

func prefixes(t testing.TB, list string) []netip.Prefix {
	t.Helper()
	out, err := ParsePrefixes(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func clusters(t testing.TB, list string) []contract.Subnet {
	t.Helper()
	out, err := ParseClusterSubnets(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
