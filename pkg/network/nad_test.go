package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// config is a netconf of a NAD red/a: the default keys, replaced by fields; a field whose value is null goes.
func config(t testing.TB, fields string) string {
	t.Helper()
	conf := map[string]any{"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": "net", "netAttachDefName": "red/a", "topology": "layer2"}
	var replaced map[string]any
	if err := json.Unmarshal([]byte("{"+fields+"}"), &replaced); err != nil {
		t.Fatalf("%s: %v", fields, err)
	}
	for key, value := range replaced {
		if conf[key] = value; value == nil {
			delete(conf, key)
		}
	}
	text, _ := json.Marshal(conf)
	return string(text)
}

func describe(n contract.Network) string {
	text := fmt.Sprintf("%s %s %s", n.Name, n.Topology, n.Role)
	for _, subnet := range n.Subnets {
		text += " " + subnet.String()
	}
	for _, list := range []struct {
		key  string
		list any
	}{{"without", n.Excluded}, {"on request", n.Reserved}, {"join", n.JoinSubnets}, {"by", n.Gateways}} {
		if s := fmt.Sprint(list.list); s != "[]" {
			text += " " + list.key + s
		}
	}
	if n.MTU+n.VLAN != 0 || n.PhysicalNetwork != "" || n.Persistent {
		text += fmt.Sprintf(" mtu %d vlan %d on %q persistent %v", n.MTU, n.VLAN, n.PhysicalNetwork, n.Persistent)
	}
	if n.DNS != nil {
		text += fmt.Sprint(" dns ", n.DNS.Nameservers)
	}
	if n.Forward {
		text += " forward"
	}
	return text
}

func TestParse_Networks(t *testing.T) {
	for fields, want := range map[string]string{
		``: "net layer2 secondary",
		`"topology":"layer3","subnets":"10.1.0.0/16/26, fd01::/48","mtu":1300`: `net layer3 secondary 10.1.0.0/16/26 fd01::/48/64 mtu 1300 vlan 0 on "" persistent false`,
		`"topology":"layer3","subnets":"10.1.0.0/16,10.2.0.0/16"`:              "net layer3 secondary 10.1.0.0/16/24 10.2.0.0/16/24",
		`"subnets":"10.1.0.0/16","excludeSubnets":"10.1.0.0/24"`:               "net layer2 secondary 10.1.0.0/16/16 without[10.1.0.0/24]",
		`"topology":"localnet","vlanID":7,"subnets":"10.96.0.0/24"`:            `net localnet secondary 10.96.0.0/24/24 mtu 0 vlan 7 on "net" persistent false`,
		`"topology":"localnet","physicalNetworkName":"phys"`:                   `net localnet secondary mtu 0 vlan 0 on "phys" persistent false`,
		`"role":"primary","subnets":"10.1.0.0/16"`:                             "net layer2 primary 10.1.0.0/16/16 without[10.1.0.1/32 10.1.0.2/32] join[100.65.0.0/16] by[10.1.0.1/16]",
		`"subnets":"10.1.0.0/16","allowPersistentIPs":true`:                    `net layer2 secondary 10.1.0.0/16/16 mtu 0 vlan 0 on "" persistent true`,
		`"ipam":{}`: "net layer2 secondary",
		`"subnets":"10.1.0.0/16,fd01::/64","defaultGatewayIPs":"10.1.0.9,fd01::1","excludeSubnets":"10.1.0.0/28"`:        "net layer2 secondary 10.1.0.0/16/16 fd01::/64/64 without[10.1.0.0/28 fd01::1/128] by[10.1.0.9/16 fd01::1/64]",
		`"role":"primary","subnets":"10.1.0.0/16","infrastructureSubnets":"10.1.0.0/30","reservedSubnets":"10.1.9.0/24"`: "net layer2 primary 10.1.0.0/16/16 without[10.1.0.0/30] on request[10.1.9.0/24] join[100.65.0.0/16] by[10.1.0.1/16]",
		`"role":"primary","subnets":"10.1.0.0/16,fd01::/64","infrastructureSubnets":"10.1.4.0/30,fd01::8/125"`:           "net layer2 primary 10.1.0.0/16/16 fd01::/64/64 without[10.1.4.0/30 fd01::8/125 10.1.0.2/32 fd01::2/128] join[100.65.0.0/16 fd99::/64] by[10.1.4.0/16 fd01::8/64]",
		`"role":"primary","subnets":"10.1.0.0/16","infrastructureSubnets":"10.1.4.0/30","defaultGatewayIPs":"10.1.4.2"`:  "net layer2 primary 10.1.0.0/16/16 without[10.1.4.0/30 10.1.0.2/32] join[100.65.0.0/16] by[10.1.4.2/16]",
		`"dns":{"nameservers":["10.1.0.53"]}`: "net layer2 secondary dns [10.1.0.53]",
		`"portSecurity":"ip"`:                 "net layer2 secondary",
		`"portSecurity":"mac"`:                "net layer2 secondary forward",
	} {
		network, err := Parse(NAD{Key: "red/a", Config: config(t, fields)})
		if err != nil {
			t.Errorf("%s: %v", fields, err)
		}
		if diff := cmp.Diff(want, describe(network)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", fields, diff)
		}
	}
	list := `{"name":"net","plugins":[{"type":"ovn-k8s-cni-overlay","netAttachDefName":"red/a","topology":"layer2"}]}`
	if network, err := Parse(NAD{Key: "red/a", Config: list}); err != nil || network.Name != "net" {
		t.Errorf("a list of one plugin: %+v, %v", network, err)
	}
}

func TestParse_GatewayOfSecondaryNetwork(t *testing.T) {
	parse := func(fields, annotation string) (contract.Network, error) {
		return Parse(NAD{Key: "red/a", Config: config(t, fields), Annotations: map[string]string{contract.GatewayKey: annotation}})
	}
	for _, tc := range []struct{ fields, annotation, want string }{
		{`"subnets":"10.1.0.0/16"`, "", "exits [] gateways [] without []"},
		{`"subnets":"10.1.0.0/16"`, "203.0.113.0/24, 10.96.0.7/32", "exits [203.0.113.0/24 10.96.0.7/32] gateways [10.1.0.1/16] without [10.1.0.1/32 10.1.0.2/32]"},
		{`"subnets":"10.1.0.0/16,fd01::/64","defaultGatewayIPs":"10.1.0.9"`, "203.0.113.0/24", "exits [203.0.113.0/24] gateways [10.1.0.9/16 fd01::1/64] without [10.1.0.9/32 10.1.0.2/32 fd01::1/128 fd01::2/128]"},
		{`"topology":"layer3","subnets":"10.1.0.0/16"`, "0.0.0.0/0,::/0", "exits [0.0.0.0/1 128.0.0.0/1 ::/1 8000::/1] gateways [] without []"},
		{`"role":"primary","topology":"layer3","subnets":"10.1.0.0/16"`, "0.0.0.0/0", "exits [] gateways [] without []"},
	} {
		n, err := parse(tc.fields, tc.annotation)
		if got := fmt.Sprintf("exits %v gateways %v without %v", n.Exits, n.Gateways, n.Excluded); err != nil || got != tc.want {
			t.Errorf("%s with %q: %s, %v, want %s", tc.fields, tc.annotation, got, err, tc.want)
		}
		if n.HasGateway() != (n.IsPrimary() || tc.annotation != "") {
			t.Errorf("%s with %q: has a gateway: %t", tc.fields, tc.annotation, n.HasGateway())
		}
	}
	for annotation, fields := range map[string]string{
		"some":         `"subnets":"10.1.0.0/16"`,
		"0.0.0.0/0":    `"topology":"localnet","subnets":"10.1.0.0/16"`,
		"203.0.0.0/24": ``,
	} {
		if n, err := parse(fields, annotation); err == nil || !strings.Contains(err.Error(), "annotation "+contract.GatewayKey) {
			t.Errorf("%s with %q: %+v, %v", fields, annotation, n, err)
		}
	}
}

func TestParse_Refused(t *testing.T) {
	for fields, want := range map[string]string{
		`"name":"default"`:                       "is reserved",
		`"name":"a/b"`:                           "has characters other than",
		`"name":""`:                              "must have 1 to 128",
		`"netAttachDefName":"red/b"`:             `netAttachDefName is "red/b", and must be "red/a"`,
		`"topology":"mesh"`:                      "none of layer3, layer2 and localnet",
		`"role":"first"`:                         "neither primary nor secondary",
		`"topology":"layer3"`:                    "subnets are missing",
		`"role":"primary"`:                       "subnets are missing",
		`"topology":"localnet","role":"primary"`: "cannot have the role primary",
		`"ipam":{"type":"whereabouts"}`:          "ipam is not supported",
		`"topology":"layer3","subnets":"10.1.0.0/16","allowPersistentIPs":true`:       "allowPersistentIPs needs",
		`"topology":"layer3","subnets":"10.1.0.0/16","excludeSubnets":"10.1.0.0/24"`:  "excludeSubnets needs",
		`"topology":"layer3","subnets":"10.1.0.0/16","reservedSubnets":"10.1.0.0/24"`: "need topology layer2",
		`"topology":"layer3","subnets":"10.1.0.0/16/8"`:                               "does not fit",
		`"topology":"layer3","subnets":"10.1.0.0/16/2x"`:                              "is not the length",
		`"topology":"localnet","joinSubnet":"100.65.0.0/16"`:                          "joinSubnet needs",
		`"subnets":"10.1.0.0"`:                                   "is not a subnet",
		`"subnets":"10.1.0.0/16,10.1.1.0/24"`:                    "subnets 10.1.0.0/16 and 10.1.1.0/24 overlap",
		`"subnets":"10.1.0.0/16","excludeSubnets":"10.2.0.0/24"`: "excludeSubnets: 10.2.0.0/24 is in none of the subnets",
		`"subnets":"10.1.0.0/16","excludeSubnets":"10.0.0.0/8"`:  "excludeSubnets: 10.0.0.0/8 is in none of the subnets",
		`"vlanID":7`:                                        "need topology localnet",
		`"topology":"localnet","vlanID":4095`:               "vlanID 4095",
		`"topology":"localnet","physicalNetworkName":"a:b"`: "physicalNetworkName",
		`"mtu":100`:                        "mtu 100 is not between",
		`"mtu":1200,"subnets":"fd01::/64"`: "less than 1280",
		`"transport":"evpn"`:               `transport "evpn" is not supported`,
		`"subnets":"10.1.0.0/16","defaultGatewayIPs":"10.2.0.1"`:                     "defaultGatewayIPs: 10.2.0.1 is in none of the subnets",
		`"subnets":"10.1.0.0/16","defaultGatewayIPs":"10.1.0.1,10.1.0.2"`:            "defaultGatewayIPs: 10.1.0.2 is the second of its subnet",
		`"subnets":"10.1.0.0/16","defaultGatewayIPs":"x"`:                            `defaultGatewayIPs: "x" is not an IP address`,
		`"topology":"layer3","subnets":"10.1.0.0/16","defaultGatewayIPs":"10.1.0.1"`: "defaultGatewayIPs needs topology",
		`"portSecurity":"none"`: `portSecurity "none" is neither ip nor mac`,
		`"role":"primary","subnets":"10.1.0.0/16","portSecurity":"mac"`: "portSecurity mac needs the role secondary",
	} {
		if network, err := Parse(NAD{Key: "red/a", Config: config(t, fields)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q", fields, network, err, want)
		}
	}
	for text, want := range map[string]string{
		"":              "spec.config is empty",
		"{":             "spec.config: unexpected end",
		`{"plugins":7}`: "spec.config: json",
		`{"name":"net","type":"x","plugins":[{"type":"y"}]}`:                          "has type and plugins",
		`{"name":"net","plugins":[{"type":"ovn-k8s-cni-overlay"},{"type":"tuning"}]}`: "has 2 plugins",
	} {
		if network, err := Parse(NAD{Key: "red/a", Config: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q", text, network, err, want)
		}
	}
	for _, foreign := range []string{config(t, `"type":"macvlan"`), config(t, `"topology":null`), config(t, `"topology":null,"netAttachDefName":null`), `{"name":"x","plugins":[{"type":"macvlan"},{"type":"tuning"}]}`} {
		if _, err := Parse(NAD{Key: "red/a", Config: foreign}); !errors.Is(err, errForeign) {
			t.Errorf("%s: %v", foreign, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(config(f, `"topology":"layer3","subnets":"10.1.0.0/16/26,fd01::/48"`))
	f.Add(config(f, `"topology":"localnet","vlanID":7,"subnets":"10.1.0.0/30","excludeSubnets":"10.1.0.0/30"`))
	f.Fuzz(func(t *testing.T, text string) {
		network, err := Parse(NAD{Key: "red/a", Config: text})
		if err != nil {
			return
		}
		if strings.ContainsAny(network.JoinSwitch()+network.PhysicalNetwork, "\"\\$ /@") {
			t.Errorf("%s: %+v gives names that are not safe in OVN", text, network)
		}
		for _, subnet := range network.Subnets {
			if subnet.NodeBits < subnet.Bits() || !subnet.IsValid() {
				t.Errorf("%s: subnet %v", text, subnet)
			}
		}
	})
}
