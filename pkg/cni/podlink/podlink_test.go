package podlink

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

func FuzzValidate(f *testing.F) {
	f.Add(`{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["10.244.1.1"],"routes":[{"dest":"10.244.0.0/16","nextHop":"10.244.1.1"}]}}`)
	f.Add(`{"default":{"ip_addresses":["10.244.1.5/24","fd00::5/64"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["10.244.1.1","fd00::1"]}}`)
	f.Add(`{"default":{"ip_addresses":["::ffff:1.2.3.4/1"],"mac_address":"02:00:00:00:00:01","gateway_ips":[""]}}`)
	f.Fuzz(func(t *testing.T, annotation string) {
		network, err := contract.ParsePodNetwork(annotation, contract.DefaultNetwork)
		if err != nil || network == nil || Validate(network, false) != nil {
			return
		}
		for _, r := range (Link{Name: "eth0", Network: network}).Routes() {
			if !r.Dest.IsValid() || !r.NextHop.IsValid() {
				t.Errorf("accepted annotation gives route %s", r)
			}
		}
	})
}

func TestValidate_RefusesInvalidAnnotations(t *testing.T) {
	for field, annotation := range map[string]string{
		"ip_addresses": `{"ip_addresses":["224.0.0.1/24"],"mac_address":"0a:58:0a:f4:01:05"}`,
		"mac_address":  `{"ip_addresses":["10.244.1.5/24"],"mac_address":"01:00:00:00:00:01"}`,
		"gateway_ips":  `{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["fd00::1"]}`,
		"routes":       `{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","routes":[{"dest":"fd00::/8","nextHop":"10.244.1.1"}]}`,
	} {
		network, err := contract.ParsePodNetwork(fmt.Sprintf(`{"default":%s}`, annotation), contract.DefaultNetwork)
		if err != nil {
			t.Fatal(err)
		}
		if err := Validate(network, false); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestValidate_OnlyFurtherNetworksMayHaveNoAddress(t *testing.T) {
	bare := &contract.PodNetwork{MAC: contract.MAC{2, 0, 0, 0, 0, 1}}
	if err := Validate(bare, true); err != nil {
		t.Error(err)
	}
	if err := Validate(bare, false); err == nil {
		t.Error("the default network may have no addresses")
	}
}

// TestConfigure_GuestHasTheAddresses: the interface is up and has none, and CHECK misses none.
func TestConfigure_GuestHasTheAddresses(t *testing.T) {
	network, err := contract.ParsePodNetwork(`{"default":{"ip_addresses":["10.1.0.4/16"],"mac_address":"0a:58:0a:01:00:04","gateway_ips":["10.1.0.1"]}}`, contract.DefaultNetwork)
	if err != nil {
		t.Fatal(err)
	}
	for _, guest := range []bool{false, true} {
		fake := netdevtest.NewFake()
		fake.AddNS("/ns/host")
		fake.AddNS("/ns/pod")
		host, err := fake.Open("/ns/host")
		if err != nil {
			t.Fatal(err)
		}
		if err := host.AddVeth(netdev.Veth{Name: "host", MTU: 1400, Peer: netdev.Peer{Path: "/ns/pod", Name: "ovn-udn1", MAC: []byte(network.MAC)}}); err != nil {
			t.Fatal(err)
		}
		pod, err := fake.Open("/ns/pod")
		if err != nil {
			t.Fatal(err)
		}
		if err := pod.AddVeth(netdev.Veth{Name: "lo", Peer: netdev.Peer{Path: "/ns/host", Name: "other"}}); err != nil {
			t.Fatal(err)
		}
		link := Link{Name: "ovn-udn1", Network: network, Guest: guest}
		if err := link.Configure(pod); err != nil {
			t.Fatal(err)
		}
		addrs, err := pod.Addrs("ovn-udn1")
		if err != nil || (len(addrs) == 0) != guest {
			t.Errorf("guest %v: addresses %v, error %v", guest, addrs, err)
		}
		if err := link.Check(pod); err != nil {
			t.Errorf("guest %v: %v", guest, err)
		}
		link.Guest = false
		if err := link.Check(pod); (err == nil) == guest {
			t.Errorf("guest %v: CHECK of a pod's own addresses: %v", guest, err)
		}
	}
}
