package podlink

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
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
