package contract

import (
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
