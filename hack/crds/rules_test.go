package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

const udnCRDs = "../../deploy/manifests/17-udn-crds.yaml"

// rule is one rule of the schema: specs that it accepts, and specs that it refuses with a text. A spec is that of a
// UserDefinedNetwork, except for Localnet and what only a ClusterUserDefinedNetwork has. "old => new" is a change.
type rule struct {
	refusal          string
	accepts, refuses []string
}

const (
	l3     = "topology: Layer3\nlayer3: "
	l2     = "topology: Layer2\nlayer2: "
	local  = "topology: Localnet\nlocalnet: "
	subnet = "{role: Primary, subnets: [{cidr: 10.0.0.0/8}]}"
	both   = "[10.0.0.0/16, 'fd00::/64']"
	evpn   = "\ntransport: EVPN\nevpn: "
	l3EVPN = l3 + subnet + evpn
	target = l3EVPN + "{vtep: v, ipVRF: {vni: 5, routeTarget: '%s'}}"
)

func of(format string, values ...string) (out []string) {
	for _, v := range values {
		out = append(out, fmt.Sprintf(format, v))
	}
	return out
}

func rules() []rule {
	return []rule{
		{"spec.layer3 is required", []string{l3 + subnet}, []string{"topology: Layer3", l2 + "{role: Secondary, subnets: [10.0.0.0/8]}\nlayer3: " + subnet}},
		{"spec.layer2 is required", []string{l2 + "{role: Secondary, subnets: [10.0.0.0/8]}"}, []string{"topology: Layer2", l3 + subnet + "\nlayer2: {role: Secondary, subnets: [10.0.0.0/8]}"}},
		{"spec.localnet is required", []string{local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8]}"}, []string{"topology: Localnet", l3 + subnet + "\nlocalnet: {role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8]}"}},
		{"Unsupported value", nil, []string{"topology: Layer4", "topology: layer3", l3 + "{role: Tertiary, subnets: [{cidr: 10.0.0.0/8}]}", local + "{role: Primary, physicalNetworkName: p, subnets: [10.0.0.0/8]}"}},
		{"Required value", nil, []string{"layer3: " + subnet, l3 + "{subnets: [{cidr: 10.0.0.0/8}]}", l3 + "{role: Primary}", local + "{role: Secondary, subnets: [10.0.0.0/8]}", l3 + "{role: Primary, subnets: [{hostSubnet: 24}]}"}},
		{"unknown field", nil, []string{l3 + subnet + "\nvrf: x"}},

		{"CIDR is invalid", nil, []string{l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0}]}", l2 + "{role: Secondary, subnets: [10.0.0.300/8]}", local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8], excludeSubnets: [x]}"}},
		{"IP is invalid", []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], defaultGatewayIPs: [10.0.0.1]}"}, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], defaultGatewayIPs: [10.0.0.0/8]}"}},
		{"two CIDRs must be of different", []string{l2 + "{role: Secondary, subnets: " + both + "}"}, []string{l2 + "{role: Secondary, subnets: [10.0.0.0/16, 10.1.0.0/16]}"}},
		{"two IPs must be of different", []string{l2 + "{role: Primary, subnets: " + both + ", defaultGatewayIPs: [10.0.0.5, 'fd00::5']}"}, []string{l2 + "{role: Primary, subnets: " + both + ", defaultGatewayIPs: [10.0.0.5, 10.0.0.6]}"}},
		{"Too many", nil, []string{l2 + "{role: Secondary, subnets: [10.0.0.0/16, 'fd00::/64', 10.1.0.0/16]}", l3 + "{role: Primary, subnets: [" + many(401) + "]}", l3 + subnet + "\nuplinks: [a, b]"}},

		{"hostSubnet must be longer", []string{l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 17}]}"}, []string{l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 16}]}"}},
		{"hostSubnet must be less than 32", []string{l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 31}]}", l3 + "{role: Primary, subnets: [{cidr: 'fd00::/48', hostSubnet: 64}]}"}, []string{l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 32}]}"}},
		{"subnets must not overlap", []string{l3 + "{role: Primary, subnets: [" + many(400) + "]}"}, []string{l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 10.0.8.0/24}]}", l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 10.0.0.0/16}]}"}},
		{"the same hostSubnet", []string{l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 25}, {cidr: 10.1.0.0/16, hostSubnet: 25}, {cidr: 'fd00::/48'}]}"}, []string{l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 25}, {cidr: 10.1.0.0/16}]}", l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 'fd00::/48', hostSubnet: 64}, {cidr: 'fd00:1::/48', hostSubnet: 65}]}"}},
		{"a secondary network has at most two subnets", nil, []string{l3 + "{role: Secondary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 'fd00::/48'}, {cidr: 10.1.0.0/16}]}"}},
		{"two subnets of a secondary network", []string{l3 + "{role: Secondary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 'fd00::/48'}]}"}, []string{l3 + "{role: Secondary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16}]}"}},
		{"mtu must be 1280", []string{l3 + "{role: Primary, mtu: 1280, subnets: [{cidr: 'fd00::/48'}]}", l3 + "{role: Primary, mtu: 576, subnets: [{cidr: 10.0.0.0/16}]}", l2 + "{role: Secondary, mtu: 1280, subnets: ['fd00::/64']}"}, []string{l3 + "{role: Primary, mtu: 1279, subnets: [{cidr: 'fd00::/48'}, {cidr: 'fd01::/48'}]}", l2 + "{role: Secondary, mtu: 1279, subnets: ['fd00::/64']}", local + "{role: Secondary, mtu: 1279, physicalNetworkName: p, subnets: ['fd00::/64']}"}},
		{"should be greater than or equal to 576", nil, []string{l3 + "{role: Primary, mtu: 575, subnets: [{cidr: 10.0.0.0/16}]}", l2 + "{role: Secondary, mtu: 575, subnets: [10.0.0.0/8]}"}},
		{"joinSubnets is only supported for primary", []string{l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16}], joinSubnets: [100.66.0.0/16, 'fd98::/64']}", l2 + "{role: Primary, subnets: [10.0.0.0/8], joinSubnets: [100.66.0.0/16]}"}, []string{l3 + "{role: Secondary, subnets: [{cidr: 10.0.0.0/16}], joinSubnets: [100.66.0.0/16]}", l2 + "{role: Secondary, subnets: [10.0.0.0/8], joinSubnets: [100.66.0.0/16]}"}},

		{"subnets is required", []string{l2 + "{role: Secondary, ipam: {mode: Disabled}}", l2 + "{role: Secondary, subnets: [10.0.0.0/8], ipam: {lifecycle: Persistent}}", local + "{role: Secondary, physicalNetworkName: p, ipam: {mode: Disabled}}"}, []string{l2 + "{role: Secondary}", l2 + "{role: Secondary, ipam: {mode: Enabled}}", local + "{role: Secondary, physicalNetworkName: p}", local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8], ipam: {mode: Disabled}}"}},
		{"subnets is forbidden", nil, []string{l2 + "{role: Secondary, subnets: [10.0.0.0/8], ipam: {mode: Disabled}}"}},
		{"ipam.mode Disabled is only supported", nil, []string{l2 + "{role: Primary, ipam: {mode: Disabled}}"}},
		{"lifecycle Persistent is only supported", []string{l2 + "{role: Secondary, subnets: [10.0.0.0/8], ipam: {mode: Enabled, lifecycle: Persistent}}"}, []string{l2 + "{role: Secondary, ipam: {mode: Disabled, lifecycle: Persistent}}"}},
		{"should have at least 1 properties", nil, []string{l2 + "{role: Secondary, subnets: [10.0.0.0/8], ipam: {}}"}},
		{"defaultGatewayIPs is only supported for primary", nil, []string{l2 + "{role: Secondary, subnets: [10.0.0.0/8], defaultGatewayIPs: [10.0.0.1]}"}},
		{"defaultGatewayIPs must be in subnets", nil, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], defaultGatewayIPs: [11.0.0.1]}"}},
		{"defaultGatewayIPs must have an address", nil, []string{l2 + "{role: Primary, subnets: " + both + ", defaultGatewayIPs: [10.0.0.1]}"}},
		{"defaultGatewayIPs must be in infrastructureSubnets", []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], infrastructureSubnets: [10.0.0.0/24], defaultGatewayIPs: [10.0.0.9]}"}, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], infrastructureSubnets: [10.0.0.0/24], defaultGatewayIPs: [10.0.1.9]}"}},
		{"reservedSubnets is only supported for primary", []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], reservedSubnets: [10.0.0.0/24]}"}, []string{l2 + "{role: Secondary, subnets: [10.0.0.0/8], reservedSubnets: [10.0.0.0/24]}"}},
		{"reservedSubnets must be parts", nil, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], reservedSubnets: [11.0.0.0/24]}"}},
		{"reservedSubnets must have no host bits", nil, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], reservedSubnets: [10.0.0.1/24]}"}},
		{"infrastructureSubnets is only supported for primary", nil, []string{l2 + "{role: Secondary, subnets: [10.0.0.0/8], infrastructureSubnets: [10.0.0.0/24]}"}},
		{"infrastructureSubnets must be parts", nil, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], infrastructureSubnets: [11.0.0.0/24]}"}},
		{"infrastructureSubnets must have no host bits", nil, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], infrastructureSubnets: [10.0.0.1/24]}"}},
		{"infrastructureSubnets and reservedSubnets must not overlap", []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], infrastructureSubnets: [10.0.0.0/24], reservedSubnets: [10.0.1.0/24]}"}, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8], infrastructureSubnets: [10.0.0.0/24], reservedSubnets: [10.0.0.128/25]}"}},

		{"physicalNetworkName must not contain", []string{local + "{role: Secondary, physicalNetworkName: a.b_c, subnets: [10.0.0.0/8]}"}, []string{local + "{role: Secondary, physicalNetworkName: 'a,b', subnets: [10.0.0.0/8]}", local + "{role: Secondary, physicalNetworkName: 'a:b', subnets: [10.0.0.0/8]}"}},
		{"should be at least 1 chars long", nil, []string{local + "{role: Secondary, physicalNetworkName: '', subnets: [10.0.0.0/8]}"}},
		{"excludeSubnets needs subnets", []string{local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8], excludeSubnets: [10.0.0.0/28]}"}, []string{local + "{role: Secondary, physicalNetworkName: p, excludeSubnets: [10.0.0.0/28], ipam: {mode: Disabled}}"}},
		{"access is required", []string{local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8], vlan: {mode: Access, access: {id: 4094}}}"}, []string{local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8], vlan: {mode: Access}}"}},
		{"should be less than or equal to 4094", nil, []string{local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8], vlan: {mode: Access, access: {id: 4095}}}"}},
		{"should be greater than or equal to 1", nil, []string{local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8], vlan: {mode: Access, access: {id: 0}}}"}},

		{"transport NoOverlay is only supported", []string{l3 + subnet + "\ntransport: NoOverlay\nnoOverlay: {outboundSNAT: Enabled, routing: Managed}"}, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8]}\ntransport: NoOverlay\nnoOverlay: {outboundSNAT: Enabled, routing: Managed}", l3 + "{role: Secondary, subnets: [{cidr: 10.0.0.0/8}]}\ntransport: NoOverlay\nnoOverlay: {outboundSNAT: Enabled, routing: Managed}"}},
		{"noOverlay is required", nil, []string{l3 + subnet + "\ntransport: NoOverlay", l3 + subnet + "\nnoOverlay: {outboundSNAT: Enabled, routing: Managed}"}},
		{"transport EVPN is only supported", []string{l3EVPN + "{vtep: v, ipVRF: {vni: 5}}"}, []string{l2 + "{role: Secondary, subnets: [10.0.0.0/8]}" + evpn + "{vtep: v, macVRF: {vni: 5}}", local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8]}" + evpn + "{vtep: v, macVRF: {vni: 5}}"}},
		{"evpn is required", nil, []string{l3 + subnet + "\ntransport: EVPN", l3 + subnet + "\nevpn: {vtep: v, ipVRF: {vni: 5}}"}},
		{"evpn.macVRF is required", []string{l2 + "{role: Primary, subnets: [10.0.0.0/8]}" + evpn + "{vtep: v, macVRF: {vni: 5}}"}, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8]}" + evpn + "{vtep: v, ipVRF: {vni: 5}}"}},
		{"evpn.macVRF is forbidden", nil, []string{l3EVPN + "{vtep: v, ipVRF: {vni: 5}, macVRF: {vni: 6}}"}},
		{"evpn.ipVRF is required", nil, []string{l3EVPN + "{vtep: v, macVRF: {vni: 5}}"}},
		{"one of macVRF and ipVRF", nil, []string{l3EVPN + "{vtep: v}"}},
		{"different VNIs", []string{l2 + "{role: Primary, subnets: [10.0.0.0/8]}" + evpn + "{vtep: v, macVRF: {vni: 5}, ipVRF: {vni: 6}}"}, []string{l2 + "{role: Primary, subnets: [10.0.0.0/8]}" + evpn + "{vtep: v, macVRF: {vni: 5}, ipVRF: {vni: 5}}"}},
		{"routeTarget must be", of(target, "65000:4294967295", "4294967295:65535", "10.1.2.3:100", "*:4294967295"), of(target, "65000", "65000:", "a:1", "1:2:3", "10.1.2:3")},
		{"of routeTarget is too great", nil, of(target, "10.1.2.3:65536", "*:4294967296", "1:4294967296")},
		{"more than six bytes", nil, of(target, "65536:65536", "4294967296:1")},
		{"the address of routeTarget", nil, of(target, "10.1.2.300:1")},
		{"uplinks is only supported", []string{l3 + subnet + "\nuplinks: [br1]"}, []string{local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8]}\nuplinks: [br1]"}},
		{"uplinks is not supported with", nil, []string{l3EVPN + "{vtep: v, ipVRF: {vni: 5}}\nuplinks: [br1]"}},
	}
}

// changes are rules that compare with the object before.
func changes() []rule {
	to := " => "
	one, two := "{role: Primary, subnets: [{cidr: 10.0.0.0/16}]}", "{role: Primary, subnets: [{cidr: 10.1.0.0/16}, {cidr: 10.0.0.0/16}]}"
	localnet := local + "{role: Secondary, physicalNetworkName: p, subnets: [10.0.0.0/8]}"
	return []rule{
		{"topology is immutable", nil, []string{l3 + one + to + l2 + "{role: Primary, subnets: [10.0.0.0/16]}", localnet + to + l3 + one}},
		{"layer2 is immutable", nil, []string{l2 + "{role: Primary, subnets: [10.0.0.0/16]}" + to + l2 + "{role: Primary, subnets: [10.0.0.0/16], mtu: 1300}"}},
		{"localnet is immutable", []string{localnet + to + localnet}, []string{localnet + to + local + "{role: Secondary, physicalNetworkName: q, subnets: [10.0.0.0/8]}"}},
		{"role is immutable", nil, []string{l3 + one + to + l3 + "{role: Secondary, subnets: [{cidr: 10.0.0.0/16}]}"}},
		{"mtu is immutable", nil, []string{l3 + one + to + l3 + "{role: Primary, mtu: 1300, subnets: [{cidr: 10.0.0.0/16}]}", l3 + "{role: Primary, mtu: 1300, subnets: [{cidr: 10.0.0.0/16}]}" + to + l3 + one}},
		{"joinSubnets is immutable", nil, []string{l3 + one + to + l3 + "{role: Primary, joinSubnets: [100.66.0.0/16], subnets: [{cidr: 10.0.0.0/16}]}"}},
		{"subnets of a secondary network are immutable", nil, []string{l3 + "{role: Secondary, subnets: [{cidr: 10.0.0.0/16}]}" + to + l3 + "{role: Secondary, subnets: [{cidr: 10.0.0.0/16}, {cidr: 'fd00::/48'}]}"}},
		{"subnets can be added", []string{l3 + one + to + l3 + two, l3 + one + to + l3 + one}, []string{l3 + two + to + l3 + one, l3 + one + to + l3 + "{role: Primary, subnets: [{cidr: 10.0.0.0/16, hostSubnet: 25}]}"}},
		{"transport is immutable", nil, []string{l3 + one + to + l3 + one + "\ntransport: NoOverlay\nnoOverlay: {outboundSNAT: Enabled, routing: Managed}"}},
		{"noOverlay is immutable", nil, []string{l3 + one + "\ntransport: NoOverlay\nnoOverlay: {outboundSNAT: Enabled, routing: Managed}" + to + l3 + one + "\ntransport: NoOverlay\nnoOverlay: {outboundSNAT: Disabled, routing: Managed}"}},
		{"evpn is immutable", nil, []string{l3EVPN + "{vtep: v, ipVRF: {vni: 5}}" + to + l3EVPN + "{vtep: v, ipVRF: {vni: 6}}"}},
		{"uplinks is immutable", nil, []string{l3 + one + to + l3 + one + "\nuplinks: [br1]"}},
	}
}

func many(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("{cidr: 10.%d.%d.0/24, hostSubnet: 28}", i/200, i%200))
	}
	return strings.Join(out, ", ")
}

// judge gives the refusals of a spec by the kinds that have all of its fields.
func judge(t *testing.T, all map[string]kind, spec string) map[string]string {
	t.Helper()
	out := map[string]string{}
	before, after, isChange := strings.Cut(spec, " => ")
	if !isChange {
		before, after = "", spec
	}
	refusal := func(kind, wrap string) string {
		object := func(spec string) map[string]any {
			if spec == "" {
				return nil
			}
			if wrap != "" {
				spec = wrap + strings.ReplaceAll("\n"+spec, "\n", "\n  ")
			}
			return read(t, "k8s.ovn.org/v1", kind, spec)
		}
		return all[kind].refusal(t, object(after), object(before))
	}
	out["ClusterUserDefinedNetwork"] = refusal("ClusterUserDefinedNetwork", "namespaceSelector: {matchLabels: {a: b}}\nnetwork:")
	if !strings.Contains(spec, "ocalnet") && !strings.Contains(spec, "transport") && !strings.Contains(spec, "evpn") && !strings.Contains(spec, "noOverlay") && !strings.Contains(spec, "uplinks") {
		out["UserDefinedNetwork"] = refusal("UserDefinedNetwork", "")
	}
	return out
}

// TestRules_RefuseWhatTheySayAndNothingElse: each rule of the schema has an example; an accepted one differs from a
// refused one in what the rule is about.
func TestRules_RefuseWhatTheySayAndNothingElse(t *testing.T) {
	all, seen := kinds(t, udnCRDs), map[string]bool{}
	for _, r := range append(rules(), changes()...) {
		for _, spec := range r.accepts {
			for kind, got := range judge(t, all, spec) {
				if got != "" {
					t.Errorf("%s %q is refused: %s", kind, spec, got)
				}
			}
		}
		for _, spec := range r.refuses {
			for kind, got := range judge(t, all, spec) {
				if !strings.Contains(got, r.refusal) {
					t.Errorf("%s %q: %q, want %q", kind, spec, got, r.refusal)
				}
			}
			seen[r.refusal] = true
		}
	}
	for kind, k := range all {
		for _, message := range messages(k) {
			if !anyPrefix(seen, message) {
				t.Errorf("%s: no example of the rule %q", kind, message)
			}
		}
	}
}

func anyPrefix(seen map[string]bool, message string) bool {
	for text := range maps.Keys(seen) {
		if strings.Contains(message, text) {
			return true
		}
	}
	return false
}

// TestRules_OfOVN4NFV: the manifests of OVN4NFV are accepted as they are.
func TestRules_OfOVN4NFV(t *testing.T) {
	all := kinds(t, "../../deploy/manifests/19-ovn4nfv-crds.yaml")
	const subnets = "cniType: ovn4nfv\nipv4Subnets: [{name: s, subnet: 172.16.33.0/24, gateway: 172.16.33.1/24, excludeIps: 172.16.33.2 172.16.33.5..172.16.33.10}]\n"
	const vlan = "vlan: {vlanId: '100', providerInterfaceName: eth0, logicalInterfaceName: eth0.100, vlanNodeSelector: specific, nodeLabelList: [a=b]}\n"
	const chain = "chainType: Routing\nroutingSpec:\n  namespace: default\n  networkChain: "
	const ends = "[{networkName: a, gatewayIp: 172.30.10.2, subnet: 172.30.10.0/24, podSelector: {matchLabels: {sfc: head}}, namespaceSelector: {matchLabels: {sfc: head}}}]"
	for _, tc := range []struct{ kind, spec, refusal string }{
		{"Network", subnets + "dns: {nameservers: [10.0.0.1], search: [a.b]}\nroutes: [{dst: 0.0.0.0/0, gw: 172.16.33.1}]", ""},
		{"Network", "cniType: calico", "Unsupported value"},
		{"Network", "cniType: ovn4nfv\nipv4Subnets: [{name: s}]", "Required value"},
		{"ProviderNetwork", subnets + "providerNetType: VLAN\n" + vlan, ""},
		{"ProviderNetwork", subnets + "providerNetType: DIRECT\ndirect: {providerInterfaceName: eth1, directNodeSelector: all}", ""},
		{"ProviderNetwork", subnets + "providerNetType: VLAN", "vlan is required"},
		{"ProviderNetwork", subnets + "providerNetType: DIRECT\n" + vlan, "vlan is required"},
		{"ProviderNetwork", subnets + "providerNetType: VXLAN", "Unsupported value"},
		{"ProviderNetwork", subnets + "providerNetType: VLAN\nvlan: {vlanId: '0'}", "should match"},
		{"NetworkChaining", chain + "'net=a,app=slb,net=b,app.kubernetes.io/name=ngfw,net=c'\n  left: " + ends + "\n  right: " + ends, ""},
		{"NetworkChaining", chain + "'app=slb,dync-net1,app=ngfw'\n  leftNetwork: " + ends + "\n  rightNetwork: [{networkName: b, gatewayIp: 172.30.20.2, subnet: 172.30.20.0/24}]", ""},
		{"NetworkChaining", "chainType: Tunnel\nroutingSpec: {networkChain: 'a,app=x,b'}", "Unsupported value"},
		{"NetworkChaining", "chainType: Routing\nroutingSpec: {namespace: default}", "Required value"},
	} {
		got := all[tc.kind].refusal(t, read(t, "k8s.plugin.opnfv.org/v1alpha1", tc.kind, tc.spec), nil)
		if (tc.refusal == "") != (got == "") || !strings.Contains(got, tc.refusal) {
			t.Errorf("%s %q: %q, want %q", tc.kind, tc.spec, got, tc.refusal)
		}
	}
}

// TestPortMirror_HasOneCollector: copies go either to a host or to pods.
func TestPortMirror_HasOneCollector(t *testing.T) {
	mirror, ok := kinds(t, "../../deploy/manifests/15-crds.yaml")["PortMirror"]
	if !ok {
		t.Fatal("no PortMirror")
	}
	const tunnel, pods = "tunnel: {protocol: GRE, address: 192.0.2.1}", "pods: {namespace: tools, podSelector: {}, network: tools/taps}"
	for collector, want := range map[string]string{
		tunnel: "", pods: "",
		"":                   "needs either tunnel or pods",
		tunnel + ", " + pods: "needs either tunnel or pods",
		"pods: {namespace: tools, podSelector: {}}": "Required value",
	} {
		object := read(t, "ovn-offload.io/v1alpha1", "PortMirror", "{sources: {namespaceSelector: {}, podSelector: {}}, direction: Both, collector: {"+collector+"}}")
		if got := mirror.refusal(t, object, nil); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("collector {%s}: %q, want %q", collector, got, want)
		}
	}
}

// TestOffloadPolicy_RefusesWhatMakesNoSense: a policy selects NICs in a form that PCI has, with numbers and modes that fit
// each other. Each refused spec has an accepted one beside it that differs in one field.
func TestOffloadPolicy_RefusesWhatMakesNoSense(t *testing.T) {
	all := kinds(t, "../../deploy/manifests/15-crds.yaml") // its schemas are structural and valid, that of NodeOffload too
	for _, name := range []string{"OffloadPolicy", "NodeOffload"} {
		if _, ok := all[name]; !ok {
			t.Fatalf("no %s", name)
		}
	}
	const names = "pfSelector: {names: [eth0]}, "
	for _, c := range []struct{ refusal, refused, accepted string }{
		{"reservedVFs is greater than numVFs", names + "numVFs: 4, reservedVFs: 5", names + "numVFs: 4, reservedVFs: 4"},
		{"reservedVFs is greater than numVFs", names + "numVFs: 0, reservedVFs: 1", names + "numVFs: 1, reservedVFs: 1"},
		{"hwTCOffload needs eswitchMode switchdev", names + "numVFs: 1, eswitchMode: legacy, hwTCOffload: true", names + "numVFs: 1, eswitchMode: switchdev, hwTCOffload: true"},
		{"hwTCOffload needs eswitchMode switchdev", names + "numVFs: 1, eswitchMode: legacy, hwTCOffload: true", names + "numVFs: 1, hwTCOffload: true"},
		{"hwTCOffload needs eswitchMode switchdev", names + "numVFs: 1, eswitchMode: legacy, hwTCOffload: true", names + "numVFs: 1, eswitchMode: legacy, hwTCOffload: false"},
		{"at least 1 properties", "pfSelector: {}, numVFs: 4", "pfSelector: {vendors: [15b3]}, numVFs: 4"},
		{"at least 1 items", "pfSelector: {vendors: []}, numVFs: 4", "pfSelector: {vendors: [15b3, 'a5a5']}, numVFs: 4"},
		{"should match", "pfSelector: {vendors: [15B3]}, numVFs: 4", "pfSelector: {vendors: [15b3]}, numVFs: 4"},
		{"should match", "pfSelector: {devices: [101dx]}, numVFs: 4", "pfSelector: {devices: [101d]}, numVFs: 4"},
		{"should match", "pfSelector: {pciAddresses: ['03:00.0']}, numVFs: 4", "pfSelector: {pciAddresses: ['0000:03:00.0']}, numVFs: 4"},
		{"should match", "pfSelector: {pciAddresses: ['0000:03:00.8']}, numVFs: 4", "pfSelector: {pciAddresses: ['0000:03:00.7']}, numVFs: 4"},
		{"not be more than 15", "pfSelector: {names: [sixteen-letters-]}, numVFs: 4", "pfSelector: {names: [fifteen-letters]}, numVFs: 4"},
		{"greater than or equal", names + "numVFs: -1", names + "numVFs: 0"},
		{"less than or equal", names + "numVFs: 1025", names + "numVFs: 1024"},
		{"greater than or equal", names + "numVFs: 1, reservedVFs: -1", names + "numVFs: 1, reservedVFs: 0"},
		{"spec.numVFs: Required", names + "eswitchMode: switchdev", names + "eswitchMode: switchdev, numVFs: 1"},
		{"spec.pfSelector: Required", "numVFs: 1", names + "numVFs: 1"},
		{"Unsupported value", names + "numVFs: 1, eswitchMode: switch", names + "numVFs: 1, eswitchMode: legacy"},
		{"Unsupported value", names + "numVFs: 1, eswitchMode: ''", names + "numVFs: 1"},
		{"Unsupported value", names + "numVFs: 1, drain: Always", names + "numVFs: 1, drain: Evict"},
		{"Unsupported value", names + "numVFs: 1, uplinkChange: Now", names + "numVFs: 1, uplinkChange: AtBoot"},
		{"unknown field spec.vfs", names + "numVFs: 1, vfs: 1", names + "numVFs: 1, nodeSelector: {matchLabels: {a: b}}"},
		{"must be of type integer", names + "numVFs: many", names + "numVFs: 8, maxUnavailable: 10%"},
	} {
		for spec, want := range map[string]string{c.refused: c.refusal, c.accepted: ""} {
			got := all["OffloadPolicy"].refusal(t, read(t, "ovn-offload.io/v1alpha1", "OffloadPolicy", "{"+spec+"}"), nil)
			if !strings.Contains(got, want) || want == "" && got != "" {
				t.Errorf("{%s}: %q, want %q", spec, got, want)
			}
		}
	}
}
