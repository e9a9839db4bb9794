package answer

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// twoNetworks have the same subnet. Two NetworkAttachmentDefinitions are of the network red.
func twoNetworks(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	s := snapshot.New(taken, "ovn-kubernetes")
	for _, p := range []struct{ name, key, network, address string }{
		{"red-0", "shop/red", "red", "10.1.0.5"}, {"red-1", "other/red", "red", "10.1.0.6"}, {"blue-0", "shop/blue", "blue", "10.1.0.6"}, {"blue-1", "shop/blue", "blue", "10.1.0.9"},
	} {
		s.Add(snapshot.Pods, map[string]any{"metadata": map[string]any{"name": p.name, "namespace": "shop", "annotations": map[string]any{
			"k8s.ovn.org/pod-networks": `{"` + p.key + `":{"ip_addresses":["` + p.address + `/24"],"mac_address":"0a:58:0a:01:00:05","network":"` + p.network + `"}}`,
		}}})
	}
	s.Add(snapshot.Services, map[string]any{"metadata": map[string]any{"name": "db", "namespace": "shop"}, "spec": map[string]any{"clusterIPs": []any{"10.96.0.44"}}})
	return s
}

// TestWhose_NamesNoPodOfAnotherNetwork that has the same address.
func TestWhose_NamesNoPodOfAnotherNetwork(t *testing.T) {
	names, err := Whose(twoNetworks(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ network, address, want string }{
		{"shop/red", "10.1.0.6", "pod/shop/red-1"}, {"red", "10.1.0.6", "pod/shop/red-1"}, {"shop/blue", "10.1.0.6", "pod/shop/blue-0"},
		{"shop/red", "10.1.0.9", "10.1.0.9"}, {"default", "10.1.0.9", "10.1.0.9"}, // blue has it alone, and others do not reach it
		{"", "10.1.0.6", "10.1.0.6"}, {"", "10.1.0.9", "pod/shop/blue-1"},
		{"shop/red", "10.96.0.44", "svc/shop/db"}, {"", "192.0.2.9", "192.0.2.9"},
	} {
		if got := names(c.network, c.address); got != c.want {
			t.Errorf("%s on %q: %s, want %s", c.address, c.network, got, c.want)
		}
	}
}

// TestJoin_NamesEndsByTheNetworkOfThePort, also the sender on the node that receives from a tunnel.
func TestJoin_NamesEndsByTheNetworkOfThePort(t *testing.T) {
	names, err := Whose(twoNetworks(t))
	if err != nil {
		t.Fatal(err)
	}
	hardware, tunnel := flowapi.Placed{Place: offload.Hardware}, flowapi.End{Port: "genev_sys_6081"}
	flow := func(from, to flowapi.End) []flowapi.Flow {
		return []flowapi.Flow{{ID: "a", Node: "w1", From: from, To: []flowapi.End{to}, Packet: flowapi.Packet{Source: "10.1.0.6", Target: "10.1.0.6", Tunnel: "192.0.2.2"}, Placed: hardware}}
	}
	red, blue := flowapi.End{Port: "a", Namespace: "shop", Pod: "red-0", Network: "shop/red"}, flowapi.End{Port: "b", Namespace: "shop", Pod: "blue-1", Network: "shop/blue"}
	former := flowapi.End{Port: "a", Namespace: "shop", Pod: "red-0"}
	for _, c := range []struct {
		flows    []flowapi.Flow
		from, to string
	}{
		{flow(red, tunnel), "pod/shop/red-0", "pod/shop/red-1"}, {flow(tunnel, red), "pod/shop/red-1", "pod/shop/red-0"},
		{flow(tunnel, blue), "pod/shop/blue-0", "pod/shop/blue-1"}, {flow(former, tunnel), "pod/shop/red-0", "10.1.0.6"},
	} {
		got := streams.Join(c.flows, names)
		if len(got) != 1 || got[0].From != c.from || got[0].To != c.to {
			t.Errorf("%+v, want %s to %s", got, c.from, c.to)
		}
	}
}
