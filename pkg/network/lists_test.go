package network

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// commas is a list of n elements.
func commas(n int, element func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = element(i)
	}
	return strings.Join(list, ",")
}

// part is a subnet of 10.0.0.0/8 with 16 addresses.
func part(i int) string { return fmt.Sprintf("10.%d.%d.%d/28", i>>12, i>>4&255, i&15*16) }

// nodePart is one that is a single node's.
func nodePart(i int) string { return part(i) + "/28" }

func address(i int) string { return fmt.Sprintf("10.%d.%d.9", i>>8, i&255) }

func quoted(i int) string { return fmt.Sprintf("%q", fmt.Sprint("search", i, ".example")) }

// nadLists are NADs with n elements in one list, by the list, with what it may have.
var nadLists = map[string]struct {
	most int
	nad  func(t testing.TB, n int) NAD
}{
	"subnets": {MaxSubnets, func(t testing.TB, n int) NAD {
		return listed(t, `"topology":"layer3","subnets":"`+commas(n, nodePart)+`"`)
	}},
	"excludeSubnets": {MaxParts, func(t testing.TB, n int) NAD {
		return listed(t, `"subnets":"10.0.0.0/8","excludeSubnets":"`+commas(n, part)+`"`)
	}},
	"reservedSubnets": {MaxParts, func(t testing.TB, n int) NAD {
		return listed(t, `"role":"primary","subnets":"10.0.0.0/8","reservedSubnets":"`+commas(n, part)+`"`)
	}},
	"infrastructureSubnets": {MaxParts, func(t testing.TB, n int) NAD {
		return listed(t, `"role":"primary","subnets":"10.0.0.0/8","infrastructureSubnets":"`+commas(n, part)+`"`)
	}},
	"defaultGatewayIPs": {MaxParts, func(t testing.TB, n int) NAD {
		subnets := commas(n, func(i int) string { return fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255) })
		return listed(t, `"subnets":"`+subnets+`","defaultGatewayIPs":"`+commas(n, address)+`"`)
	}},
	"joinSubnet": {MaxJoinSubnets, func(t testing.TB, n int) NAD {
		joins := commas(n, func(i int) string { return []string{"100.66.0.0/16", "fd98::/64", "100.67.0.0/16"}[i] })
		return listed(t, `"role":"primary","subnets":"10.0.0.0/8","joinSubnet":"`+joins+`"`)
	}},
	"annotation " + contract.GatewayKey: {MaxParts, func(t testing.TB, n int) NAD {
		nad := listed(t, `"subnets":"192.168.0.0/16"`)
		nad.Annotations = map[string]string{contract.GatewayKey: commas(n, part)}
		return nad
	}},
	"dns.nameservers": {MaxDNS, func(t testing.TB, n int) NAD { return listed(t, `"dns":{"nameservers":[`+commas(n, quoted)+`]}`) }},
	"dns.search":      {MaxDNS, func(t testing.TB, n int) NAD { return listed(t, `"dns":{"search":[`+commas(n, quoted)+`]}`) }},
	"dns.options":     {MaxDNS, func(t testing.TB, n int) NAD { return listed(t, `"dns":{"options":[`+commas(n, quoted)+`]}`) }},
	"spec.config": {1, func(t testing.TB, n int) NAD {
		one := config(t, "")
		return NAD{Key: "red/a", Config: `{"name":"net","plugins":[` + commas(n, func(int) string { return one }) + `]}`}
	}},
}

func listed(t testing.TB, fields string) NAD { return NAD{Key: "red/a", Config: config(t, fields)} }

// TestLists_BeyondALimitAreRefused, and at the limit accepted. From half of it to all of it, the memory that is used grows about
// as the list does.
func TestLists_BeyondALimitAreRefused(t *testing.T) {
	for name, one := range nadLists {
		if _, err := Parse(one.nad(t, one.most)); err != nil {
			t.Errorf("%s with %d elements: %.300v", name, one.most, err)
		}
		_, err := Parse(one.nad(t, one.most+1))
		if want := fmt.Sprintf("%s has %d", name, one.most+1); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%s with %d elements: %.300v, want %q", name, one.most+1, err, want)
		}
		if one.most < 100 {
			continue
		}
		allocated := func(n int) uint64 {
			nad := one.nad(t, n)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 20 {
				_, _ = Parse(nad)
			}
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		if half, full := allocated(one.most/2), allocated(one.most); float64(full) > 2.5*float64(half) {
			t.Errorf("%s: %d bytes for half of the elements, %d for all", name, half, full)
		}
	}
}

// TestParse_ErrorIsShort, however long a number is: errors are remembered and logged.
func TestParse_ErrorIsShort(t *testing.T) {
	text := `{"type":"ovn-k8s-cni-overlay","name":"net","netAttachDefName":"red/a","topology":"layer2","mtu":` + strings.Repeat("9", 200000) + `}`
	if _, err := Parse(NAD{Key: "red/a", Config: text}); err == nil || len(err.Error()) > 300 {
		t.Errorf("%.400v", err)
	}
}

// TestLists_OfANetworkThatExistsMayBeFormer: with an id, which only the controller writes, a network may be older than the
// limits.
func TestLists_OfANetworkThatExistsMayBeFormer(t *testing.T) {
	for name, one := range nadLists {
		if one.most <= 2 {
			continue
		}
		for n, accepted := range map[int]bool{one.most + 1: true, MaxFormer: true, MaxFormer + 1: false} {
			nad := one.nad(t, n)
			nad.Annotations = maps.Clone(nad.Annotations)
			if nad.Annotations == nil {
				nad.Annotations = map[string]string{}
			}
			nad.Annotations[contract.NetworkIDKey] = "7"
			if _, err := Parse(nad); (err == nil) != accepted {
				t.Errorf("%s with %d elements and an id: %.300v, want accepted %v", name, n, err, accepted)
			}
		}
	}
}

// BenchmarkLists is what a NAD costs at a limit, beside 1,000 networks: docs/limits.md has the times.
func BenchmarkLists(b *testing.B) {
	x := newTestDefinitions()
	for i := range 1000 {
		key := fmt.Sprintf("ns%d/net", i)
		x.NADChanged(key, define(b, key, i, fmt.Sprintf(`"name":"net%d","role":"primary","topology":"layer2","subnets":"11.%d.%d.0/24"`, i, i/250, i%250)))
	}
	for name, one := range nadLists {
		nad := one.nad(b, one.most)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				x.NADChanged(nad.Key, &nad)
				x.NADChanged(nad.Key, nil)
			}
		})
	}
}

// TestLists_AreAllOfANetconf: each text and list of a netconf is either a list with a limit, or is known to be one value.
func TestLists_AreAllOfANetconf(t *testing.T) {
	values := []string{
		"name", "type", "netAttachDefName", "topology", "role", "physicalNetworkName", "portSecurity", "domain", "transport",
		"ipam", // whatever it has, with a type it is refused
	}
	known := map[string]bool{"plugins": true}
	for name := range nadLists {
		known[strings.TrimPrefix(name, "dns.")] = true
	}
	for _, l := range (netconf{}).lists("") {
		if one, is := nadLists[l.key]; !is || one.most != l.most {
			t.Errorf("%s has the limit %d, and in this test %d", l.key, l.most, one.most)
		}
	}
	found := 0
	for _, field := range fieldsOf(reflect.TypeFor[netconf]()) {
		if found++; !known[field] && !slices.Contains(values, field) {
			t.Errorf("%s has no limit: give lists() a row, or this test a value", field)
		}
	}
	if found < 20 {
		t.Errorf("only %d fields are looked at", found)
	}
}

// fieldsOf are the names in JSON of the texts, lists and maps of a struct.
func fieldsOf(of reflect.Type) (names []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		switch field.Type.Kind() {
		case reflect.Struct:
			names = append(names, fieldsOf(field.Type)...)
		case reflect.String, reflect.Slice, reflect.Map:
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// TestDefinitions_NamespacesBeyondTheLimitAreNone: a limit opens nothing. The network stays, and a Warning says why others
// cannot use it.
func TestDefinitions_NamespacesBeyondTheLimitAreNone(t *testing.T) {
	namespace := func(i int) string { return fmt.Sprint("dev-", i) }
	for n, allowed := range map[int]bool{MaxNamespaces: true, MaxNamespaces + 1: false} {
		x := newTestDefinitions()
		x.NADChanged("red/a", define(t, "red/a", 1, `"name":"net"`, contract.NamespacesKey, commas(n, namespace)))
		wantProblem(t, x, "red/a", "")
		access := Access{Of: x}
		if access.Allows("red/a", "dev-7") != allowed || !access.Allows("red/a", "red") || access.Allows("red/a", "other") {
			t.Errorf("%d namespaces: dev-7 may use the network: %v, want %v", n, access.Allows("red/a", "dev-7"), allowed)
		}
		if warning := Warning(x, "red/a"); (warning == nil) != allowed {
			t.Errorf("%d namespaces: warning %v", n, warning)
		}
	}
}

// TestDefinitions_RefusedListHoldsNothing: of a NAD beyond a limit there is no network, and a shorter list makes one.
func TestDefinitions_RefusedListHoldsNothing(t *testing.T) {
	x, subnets := newTestDefinitions(), func(n int) string { return `"name":"net","topology":"layer3","subnets":"` + commas(n, nodePart) + `"` }
	x.NADChanged("red/a", define(t, "red/a", 1, subnets(60000)))
	wantProblem(t, x, "red/a", "subnets has 60000 elements, and may have 400")
	if len(x.Networks()) > 0 {
		t.Errorf("networks %.100v", x.Networks())
	}
	if changed := x.NADChanged("red/a", define(t, "red/a", 1, subnets(2))); !slices.Equal(changed, []string{"net"}) {
		t.Errorf("changed %v", changed)
	}
	wantProblem(t, x, "red/a", "")
}

// TestCheckLists_FindsEachOverlap, wherever the two subnets are in the list.
func TestCheckLists_FindsEachOverlap(t *testing.T) {
	apart := []string{"10.1.0.0/16", "10.2.0.0/24", "10.2.1.0/24", "10.3.0.0/16", "fd01::/64", "fd02::/48"}
	for name, subnets := range map[string][]string{
		"the larger first": append([]string{"10.2.0.0/16"}, apart...), "the larger last": append(slices.Clone(apart), "10.2.0.0/16"),
		"twice": append(slices.Clone(apart), "fd01::/64"), "all of a family": append(slices.Clone(apart), "::/0"),
		"the smaller": append(slices.Clone(apart), "10.3.255.0/24"),
	} {
		if _, err := Parse(listed(t, `"subnets":"`+strings.Join(subnets, ",")+`"`)); err == nil || !strings.Contains(err.Error(), "overlap") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Parse(listed(t, `"subnets":"`+strings.Join(apart, ",")+`"`)); err != nil {
		t.Errorf("without an overlap: %v", err)
	}
}
