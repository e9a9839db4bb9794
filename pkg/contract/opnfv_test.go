package contract

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func podWith(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: annotations}}
}

const nodusValue = `{"type":"ovn4nfv","Interface":[
	{"name":"vnet-a","interface":"net0","defaultGateway":"true","gwipaddress":"10.8.0.1"},
	{"Name":"other/prov-100","INTERFACE":"net1","ipAddress":"10.9.0.20","macAddress":"02:00:00:09:00:14","defaultGateway":"true","gwipaddress":"10.9.0.1"}]}`

// TestAttachments_AreTheSameInAllForms: one wish in the annotations of OVN4NFV, old and new, and of Multus.
func TestAttachments_AreTheSameInAllForms(t *testing.T) {
	want, err := Attachments(podWith(map[string]string{NetworksKey: `[{"name":"vnet-a","interface":"net0","default-route":["10.8.0.1"]},
		{"name":"prov-100","namespace":"other","interface":"net1","ips":["10.9.0.20"],"mac":"02:00:00:09:00:14"}]`}))
	if err != nil || len(want) != 2 {
		t.Fatal(want, err)
	}
	old := `[{"name":"vnet-a","interfaceRequest":"net0","defaultGateway":"true","gwipaddress":"10.8.0.1","netType":"virtual"},
		{"name":"other/prov-100","interface":"net1","ipAddress":"10.9.0.20","macAddress":"02:00:00:09:00:14","netType":"provider"}]`
	for _, annotations := range []map[string]string{{NodusNetworksKey: nodusValue}, {OVNNetworkKey: old}, {NodusNetworksKey: nodusValue, OVNNetworkKey: "not read"}} {
		got, err := Attachments(podWith(annotations))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b Attachment) bool { return a.Key() == b.Key() && cmp.Diff(text(a), text(b)) == "" })); diff != "" {
			t.Errorf("%v (-want +got):\n%s", annotations, diff)
		}
	}
}

func text(a Attachment) string {
	var parts []string
	for _, p := range a.Addresses {
		parts = append(parts, p.String())
	}
	for _, g := range a.Gateways {
		parts = append(parts, g.String())
	}
	return strings.Join(append(parts, a.NAD, a.Interface, a.MAC.String()), " ")
}

func TestAttachments_OfBothAnnotationsFollowEachOther(t *testing.T) {
	got, err := Attachments(podWith(map[string]string{NetworksKey: "vnet-a", NodusNetworksKey: nodusValue}))
	if err == nil || !strings.Contains(err.Error(), NodusNetworksKey+": network 2: interface net1 is taken already") {
		t.Error(got, err)
	}
	got, err = Attachments(podWith(map[string]string{NetworksKey: "vnet-a@eth1", NodusNetworksKey: nodusValue}))
	if err != nil || len(got) != 3 || got[1].Key() != "ns/vnet-a/1" {
		t.Error(got, err)
	}
}

func TestAttachments_RefuseBadOVN4NFV(t *testing.T) {
	for value, want := range map[string]string{
		`{"type":`:                                      "unexpected end",
		`{"type":"calico","interface":[]}`:              "is not ovn4nfv",
		`{"interface":[]}`:                              "is not ovn4nfv",
		`{"type":"ovn4nfv","interface":"net0"}`:         "cannot unmarshal",
		`{"type":"ovn4nfv","interface":[{"name":"a"}]}`: "interface 1: interface is missing",
		`{"type":"ovn4nfv","interface":[{"name":"a","interface":"net0","defaultGateway":"true"}]}`:   "defaultGateway needs gwipaddress",
		`{"type":"ovn4nfv","interface":[{"name":"A!","interface":"net0"}]}`:                          "is not the name of a NetworkAttachmentDefinition",
		`{"type":"ovn4nfv","interface":[{"name":"a","interface":"net0","ipAddress":"10.0.0.300"}]}`:  "is not an IP address",
		`{"type":"ovn4nfv","interface":[{"name":"a","interface":"net0","macAddress":"01:00:00:0"}]}`: "mac",
	} {
		_, err := Attachments(podWith(map[string]string{NodusNetworksKey: value}))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), NodusNetworksKey) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}

// TestAttachments_HaveTheirRoutes: the same routes in both annotations. Without further interfaces there are none, and no error.
func TestAttachments_HaveTheirRoutes(t *testing.T) {
	const routes, networks = `[{"dst":"172.16.29.1/24","gw":"10.9.0.3","dev":"net1"},{"dst":"fd29::1","gw":"fd08::3/64","dev":"net0"}]`, `{"type":"ovn4nfv","interface":[
		{"name":"a","interface":"net0"},{"name":"b","interface":"net1"}]`
	for _, annotations := range []map[string]string{
		{NodusNetworksKey: networks + "}", OVNRoutesKey: routes}, {NodusNetworksKey: networks + `,"routes":` + routes + "}"},
		{NetworksKey: "a@net0,b@net1", OVNRoutesKey: routes},
	} {
		got, err := Attachments(podWith(annotations))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []Route{
			{Dest: netip.MustParsePrefix("fd29::1/128"), NextHop: netip.MustParseAddr("fd08::3")},
			{Dest: netip.MustParsePrefix("172.16.29.0/24"), NextHop: netip.MustParseAddr("10.9.0.3")},
		} {
			if len(got[i].AskedRoutes) != 1 || got[i].AskedRoutes[0] != want {
				t.Errorf("%v: %s has the routes %v, want %v", annotations, got[i].Interface, got[i].AskedRoutes, want)
			}
		}
	}
	if got, err := Attachments(podWith(map[string]string{OVNRoutesKey: "{"})); len(got) > 0 || err != nil {
		t.Error(got, err)
	}
	for value, want := range map[string]string{
		`{`:                                   "annotation ovnNetworkRoutes: unexpected end",
		`[{"dst":"x","gw":"10.9.0.3"}]`:       `route to "x": dst is neither a subnet nor an address`,
		`[{"dst":"10.1.0.0/16","gw":"gw"}]`:   `gw "gw" is not an IP address`,
		`[{"dst":"10.1.0.0/16","gw":"fd::"}]`: "of another family",
		`[{"dst":"0.0.0.0/0","gw":"10.9.0.3","dev":"net0"}]`:   "a default route needs defaultGateway and gwipaddress",
		`[{"dst":"10.1.0.0/16","gw":"10.9.0.3","dev":"eth0"}]`: `dev "eth0" is none of the pod's interfaces on further networks`,
	} {
		if _, err := Attachments(podWith(map[string]string{NetworksKey: "a@net0", OVNRoutesKey: value})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}

func TestNodusInterfaces_FollowFromAnnotation(t *testing.T) {
	pod := podWith(map[string]string{NodusNetworksKey: `{"type":"ovn4nfv","interface":[{"name":"vnet-a","interface":"net0"}]}`})
	networks := `{"default":{"ip_addresses":["10.244.1.9/24"],"mac_address":"0a:58:0a:f4:01:09","gateway_ips":["10.244.1.1"]},
		"ns/vnet-a":{"ip_addresses":["10.8.1.7/18"],"mac_address":"0a:58:0a:08:01:07"}}`
	want := `[{"ip_address":["10.8.1.7/18"],"mac_address":"0a:58:0a:08:01:07","gateway_ip":[],"defaultGateway":"false","interface":"net0"},` +
		`{"ip_address":["10.244.1.9/24"],"mac_address":"0a:58:0a:f4:01:09","gateway_ip":["10.244.1.1"],"defaultGateway":"true","interface":"*"}]`
	if got := NodusInterfaces(pod, networks); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := NodusInterfaces(pod, `{"default":{"ip_addresses":["10.244.1.9/24"],"mac_address":"0a:58:0a:f4:01:09"}}`); got != "" {
		t.Errorf("before the network is given: %s", got)
	}
	if got := NodusInterfaces(podWith(map[string]string{NetworksKey: "vnet-a"}), networks); got != "" {
		t.Errorf("without the annotation: %s", got)
	}
}
