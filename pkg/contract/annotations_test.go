package contract

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// podNetworks is the contract's example.
const podNetworks = `{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["10.244.1.1"],` +
	`"routes":[{"dest":"10.244.0.0/16","nextHop":"10.244.1.1"},{"dest":"10.96.0.0/16","nextHop":"10.244.1.1"},` +
	`{"dest":"169.254.0.5/32","nextHop":"10.244.1.1"},{"dest":"100.64.0.0/16","nextHop":"10.244.1.1"}],` +
	`"ip_address":"10.244.1.5/24","gateway_ip":"10.244.1.1","role":"primary"}}`

const gatewayConfig = `{"default":{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_N","mac-address":"02:42:ac:12:00:03",` +
	`"ip-addresses":["172.18.0.3/16"],"ip-address":"172.18.0.3/16","next-hops":["172.18.0.1"],"next-hop":"172.18.0.1",` +
	`"node-port-enable":"true","vlan-id":"0"}}`

func TestAnnotations_AreWrittenAsRead(t *testing.T) {
	pn, err := ParsePodNetwork(podNetworks, DefaultNetwork)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := SetNetwork("", DefaultNetwork, pn); err != nil || got != podNetworks {
		t.Errorf("pod network, %v:\n got %s\nwant %s", err, got, podNetworks)
	}
	gc, err := ParseGatewayConfig(gatewayConfig, DefaultNetwork)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := SetNetwork("", DefaultNetwork, gc); err != nil || got != gatewayConfig {
		t.Errorf("gateway, %v:\n got %s\nwant %s", err, got, gatewayConfig)
	}
	two := strings.TrimSuffix(gatewayConfig, "}}") + `,"exgw-interface-id":"breth1_N","exgw-mac-address":"02:42:0a:3c:00:03","exgw-ip-addresses":["10.60.0.3/24"]}}`
	if gc, err = ParseGatewayConfig(two, DefaultNetwork); err != nil || gc.Interface != "breth0_N" || gc.SecondGateway.Interface != "breth1_N" {
		t.Fatalf("two gateways: %+v, %v", gc, err)
	}
	if got, err := SetNetwork("", DefaultNetwork, gc); err != nil || got != two {
		t.Errorf("two gateways, %v:\n got %s\nwant %s", err, got, two)
	}
	disabled, err := ParseGatewayConfig(`{"default":{"mode":"disabled"}}`, DefaultNetwork)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := SetNetwork("", DefaultNetwork, disabled); err != nil || got != `{"default":{"mode":"disabled"}}` {
		t.Errorf("disabled gateway: %s, %v", got, err)
	}
}

func TestParseNodeSubnets_ValidAndInvalid(t *testing.T) {
	for _, tc := range []struct {
		value string
		want  []string
		err   string
	}{
		{value: ""},
		{value: `{"other":["10.1.0.0/24"]}`},
		{value: `{"default":["10.244.1.0/24"]}`, want: []string{"10.244.1.0/24"}},
		{value: `{"default":"10.244.1.0/24"}`, want: []string{"10.244.1.0/24"}},
		{value: `{"default":["10.244.1.0/24","fd00:10:244:1::/64"],"net":["10.1.0.0/24"]}`, want: []string{"10.244.1.0/24", "fd00:10:244:1::/64"}},
		{value: `{"default":[]}`},
		{value: `{"default":null}`},
		{value: `10.244.1.0/24`, err: "invalid character"},
		{value: `{"default":["10.244.1.0"]}`, err: `subnets of network "default"`},
		{value: `{"default":7}`, err: `subnets of network "default"`},
	} {
		got, err := ParseNodeSubnets(tc.value, DefaultNetwork)
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: error %v, want %q", tc.value, err, tc.err)
		}
		var texts []string
		for _, prefix := range got {
			texts = append(texts, prefix.String())
		}
		if diff := cmp.Diff(tc.want, texts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.value, diff)
		}
	}
}

func TestMAC_FromAddressAndFromText(t *testing.T) {
	for addr, want := range map[string]string{
		"10.244.1.5":       "0a:58:0a:f4:01:05",
		"fd00:10:244:1::5": "0a:58:fc:09:1d:4e",
	} {
		if got := MACFromAddress(netip.MustParseAddr(addr)).String(); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	var mac MAC
	for _, bad := range []string{`"0a:58"`, `"00:00:00:00:fe:80:00:00"`, `""`, `7`} {
		if err := json.Unmarshal([]byte(bad), &mac); err == nil {
			t.Errorf("%s is taken as %s", bad, mac)
		}
	}
}

func TestParseOwner_ValidAndInvalid(t *testing.T) {
	for _, o := range []Owner{NetworkOwner(), NodeOwner("ovn-worker"), PodOwner("ns", "web-0")} {
		if got, err := ParseOwner(o.String()); err != nil || got != o {
			t.Errorf("%s reads as %+v, %v", o, got, err)
		}
	}
	for _, bad := range []string{"", "Pod", "Pod/a/b/c"} {
		if o, err := ParseOwner(bad); err == nil {
			t.Errorf("%q reads as %+v", bad, o)
		}
	}
}

// The fuzz targets hold that what a parser takes can be written, and reads as
// the same again.

func FuzzParsePodNetwork(f *testing.F) {
	for _, seed := range []string{"", "{}", podNetworks, `{"default":null}`, `{"default":{"ip_addresses":[""],"mac_address":""}}`,
		`{"default":{"ip_addresses":["fd00::5%eth0/64"]}}`, `{"default":{"routes":[{}],"tunnel_id":-1}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		roundTrip(t, value, func(value, network string) (*PodNetwork, error) {
			pn, err := ParsePodNetwork(value, network)
			if pn != nil && pn.MAC == nil {
				return nil, err // only a pod network with a MAC is ever written
			}
			return pn, err
		})
	})
}

func FuzzParseGatewayConfig(f *testing.F) {
	for _, seed := range []string{"", gatewayConfig, `{"default":{"mode":"disabled"}}`, `{"default":{"mac-address":"x"}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) { roundTrip(t, value, ParseGatewayConfig) })
}

func FuzzParseNodeSubnets(f *testing.F) {
	for _, seed := range []string{"", `{"default":["10.244.1.0/24"]}`, `{"default":"10.244.1.0/24"}`, `{"default":["",""]}`, `{"default":" "}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		roundTrip(t, value, func(value, network string) (*[]string, error) {
			prefixes, err := ParseNodeSubnets(value, network)
			if prefixes == nil || err != nil {
				return nil, err
			}
			texts := []string{}
			for _, prefix := range prefixes {
				if prefix.IsValid() {
					texts = append(texts, prefix.String())
				}
			}
			return &texts, nil
		})
	})
}

func FuzzParseOwner(f *testing.F) {
	for _, seed := range []string{"", "Pod/ns/name", "Node/n", "//", "Pod//x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		o, err := ParseOwner(value)
		if err != nil {
			return
		}
		if again, err := ParseOwner(o.String()); err != nil || again != o {
			t.Errorf("%q: %+v reads as %+v, %v", value, o, again, err)
		}
	})
}

func roundTrip[T any](t *testing.T, value string, parse func(value, network string) (*T, error)) {
	t.Helper()
	first, err := parse(value, DefaultNetwork)
	if err != nil || first == nil {
		return
	}
	text, err := SetNetwork("", DefaultNetwork, first)
	if err != nil {
		t.Fatalf("%q cannot be written: %v", value, err)
	}
	second, err := parse(text, DefaultNetwork)
	if err != nil {
		t.Fatalf("%q was written as %s: %v", value, text, err)
	}
	again, err := SetNetwork("", DefaultNetwork, second)
	if err != nil || again != text {
		t.Errorf("%q: %s and %s, %v", value, text, again, err)
	}
}

func FuzzParseHostCIDRs(f *testing.F) {
	for _, seed := range []string{"", `["172.18.0.3/16"]`, `["172.18.0.3/16","fc00:18::3/64"]`, `[""]`, `null`, `[]`, `["::ffff:172.18.0.3/112"]`, `["fe80::1%eth0/64"]`, `172.18.0.3/16`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		prefixes, err := ParseHostCIDRs(value)
		if err != nil {
			if len(prefixes) > 0 {
				t.Errorf("%q fails, %v, and is %v", value, err, prefixes)
			}
			return
		}
		for _, prefix := range prefixes {
			if !prefix.IsValid() || prefix.Addr().Zone() != "" || prefix.Addr().Is4In6() {
				t.Errorf("%q has %v, which is no network", value, prefix)
			}
		}
		text, err := json.Marshal(prefixes)
		if err != nil {
			t.Fatalf("%q cannot be written: %v", value, err)
		}
		if again, err := ParseHostCIDRs(string(text)); err != nil || !slices.Equal(again, prefixes) {
			t.Errorf("%q is %v, written as %s it is %v, %v", value, prefixes, text, again, err)
		}
	})
}

func TestNetworks_OfAnnotation(t *testing.T) {
	for annotation, want := range map[string][]string{
		"":                                  nil,
		`{"default":{},"blue":{},"a":null}`: {"blue", ""},
		`{"sandboxId":"s","pfId":"0"}`:      {""},
		`{"Status":"Ready"}`:                nil,
		"damaged":                           {""},
	} {
		if diff := cmp.Diff(want, Networks(annotation)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", annotation, diff)
		}
	}
}

func FuzzParseACLLogging(f *testing.F) {
	f.Add(`{"allow":"notice","deny":"alert"}`)
	f.Add(`{"deny":"alert\" || 1"}`)
	f.Fuzz(func(t *testing.T, text string) {
		logging, err := ParseACLLogging(text)
		if err != nil && logging != (ACLLogging{}) {
			t.Errorf("%q: %v and %v", text, logging, err)
		}
		if strings.ContainsAny(logging.Allow+logging.Deny, " \"|") {
			t.Errorf("%q: severity %v", text, logging)
		}
	})
}
