package gateway

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
)

// TestTableOf_NamesGatewayAndCopiedNICs: the node's table has the link of which nothing is forwarded to itself, unless
// the host forwards on purpose, and with the userspace datapath the NICs of all bridges but the integration bridge.
func TestTableOf_NamesGatewayAndCopiedNICs(t *testing.T) {
	links := map[string]netdev.Link{
		"eth0": {}, "breth0": {}, "eth1": {Type: "veth"}, "br-data": {Type: "tun"}, "vlan": {Type: "tuntap"}, "pod1": {Type: "veth"}, "kernel": {Type: "openvswitch"},
	}
	s := State{
		State: node.State{Links: links, Addrs: map[string][]netip.Prefix{"breth0": {netip.MustParsePrefix("172.18.0.2/16")}}},
		Ports: map[string]string{
			"eth0": "breth0", "breth0": "breth0", "eth1": "br-data", "br-data": "br-data", "pod1": "br-int", "kernel": "br-data", "absent": "breth0", "vlan": "breth0",
		},
	}
	cfg := newBench(t).cfg
	for _, c := range []struct {
		datapath, gateway string
		forwards          bool
		copied            []string
	}{
		{DatapathSystem, "breth0", false, nil},
		{DatapathUserspace, "breth0", false, []string{"eth0", "eth1"}},
		{DatapathUserspace, "", true, []string{"eth0", "eth1"}},
	} {
		cfg.Datapath, cfg.Forwards = c.datapath, c.forwards
		got := tableOf(cfg, s, "breth0", flows.Services{})
		if got.Gateway != c.gateway || !slices.Equal(got.Copied, c.copied) || len(got.Addresses) != 1 {
			t.Errorf("%s, forwards %t: %+v", c.datapath, c.forwards, got)
		}
	}
}
