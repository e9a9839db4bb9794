package contract

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNetworkStatus_OfPod(t *testing.T) {
	const networks = `{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["10.244.1.1"]},` +
		`"red/a":{"ip_addresses":["10.1.0.5/24","fd01::5/64"],"mac_address":"0a:58:0a:01:00:05","mtu":1300},"red/a/1":{"ip_addresses":null,"mac_address":"0a:58:00:00:00:01"}}`
	want := `[
    {
        "name": "ovn-kubernetes",
        "interface": "eth0",
        "ips": [
            "10.244.1.5"
        ],
        "mac": "0a:58:0a:f4:01:05",
        "default": true,
        "dns": {},
        "gateway": [
            "10.244.1.1"
        ]
    },
    {
        "name": "red/a",
        "interface": "net1",
        "ips": [
            "10.1.0.5",
            "fd01::5"
        ],
        "mac": "0a:58:0a:01:00:05",
        "mtu": 1300,
        "dns": {}
    },
    {
        "name": "red/a",
        "interface": "x",
        "mac": "0a:58:00:00:00:01",
        "dns": {}
    }
]`
	if diff := cmp.Diff(want, NetworkStatus(requesting("a,a@x,b"), networks)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := NetworkStatus(requesting(""), networks); got != "" {
		t.Errorf("a pod that asks for nothing has %s", got)
	}
}

// TestNetworkStatus_OnPrimaryNetwork: a pod on the primary network of its namespace has both interfaces, of which the primary
// network's is the default one, and the DNS of its further networks.
func TestNetworkStatus_OnPrimaryNetwork(t *testing.T) {
	const networks = `{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","role":"infrastructure-locked"},` +
		`"red/own":{"ip_addresses":["10.1.0.5/24"],"mac_address":"0a:58:0a:01:00:05","gateway_ips":["10.1.0.1"],"role":"primary"},` +
		`"red/a":{"ip_addresses":["10.2.0.5/24"],"mac_address":"0a:58:0a:02:00:05","role":"secondary","dns":{"nameservers":["10.2.0.53"]}}}`
	for asks, want := range map[string]string{
		"":  `[{"name":"ovn-kubernetes","interface":"eth0","ips":["10.244.1.5"],"mac":"0a:58:0a:f4:01:05","dns":{}},{"name":"red/own","interface":"ovn-udn1","ips":["10.1.0.5"],"mac":"0a:58:0a:01:00:05","default":true,"dns":{},"gateway":["10.1.0.1"]}]`,
		"a": `[{"name":"ovn-kubernetes","interface":"eth0","ips":["10.244.1.5"],"mac":"0a:58:0a:f4:01:05","dns":{}},{"name":"red/own","interface":"ovn-udn1","ips":["10.1.0.5"],"mac":"0a:58:0a:01:00:05","default":true,"dns":{},"gateway":["10.1.0.1"]},{"name":"red/a","interface":"net1","ips":["10.2.0.5"],"mac":"0a:58:0a:02:00:05","dns":{"nameservers":["10.2.0.53"]}}]`,
	} {
		var got bytes.Buffer
		if err := json.Compact(&got, []byte(NetworkStatus(requesting(asks), networks))); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", asks, diff)
		}
	}
}
