package network

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func newTestDefinitions() *Definitions {
	return NewDefinitions(map[string][]netip.Prefix{"pod": {netip.MustParsePrefix("10.244.0.0/16")}})
}

// define makes a NAD at a second.
func define(t testing.TB, key string, second int, fields string, annotations ...string) *NAD {
	t.Helper()
	nad := &NAD{
		Key: key, Created: time.Unix(int64(second), 0), Annotations: map[string]string{},
		Config: config(t, fmt.Sprintf(`"netAttachDefName":%q,`, key)+fields),
	}
	for i := 0; i < len(annotations); i += 2 {
		nad.Annotations[annotations[i]] = annotations[i+1]
	}
	return nad
}

func wantProblem(t testing.TB, x *Definitions, key, want string) {
	t.Helper()
	if err := x.NADProblem(key); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("problem of %s: %v, want %q", key, err, want)
	}
}

// TestDefinitions_OrderDoesNotMatter: the oldest NAD of a network decides, whenever the others come.
func TestDefinitions_OrderDoesNotMatter(t *testing.T) {
	nads := []*NAD{
		define(t, "red/a", 1, `"name":"a-b","subnets":"10.1.0.0/16"`, contract.NamespacesKey, "blue,green"),
		define(t, "blue/a", 2, `"name":"a-b","subnets":"10.1.0.0/16"`),
		define(t, "green/a", 3, `"name":"a-b","subnets":"10.2.0.0/16"`),
		define(t, "red/dot", 4, `"name":"a.b"`),
		define(t, "red/pods", 5, `"name":"pods","subnets":"10.244.7.0/24"`),
	}
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 3, 1, 4}} {
		x := newTestDefinitions()
		for _, i := range order {
			x.NADChanged(nads[i].Key, nads[i])
		}
		all := x.Networks()
		if len(all) != 1 || all[0].Name != "a-b" || all[0].Subnets[0].String() != "10.1.0.0/16/16" {
			t.Errorf("order %v: networks %v", order, all)
		}
		wantProblem(t, x, "red/a", "")
		wantProblem(t, x, "blue/a", "")
		wantProblem(t, x, "green/a", "the configuration of network a-b is not that of red/a, which is older")
		wantProblem(t, x, "red/dot", "the names of networks a.b and a-b, which red/a defines, are the same in OVN")
		wantProblem(t, x, "red/pods", "subnet 10.244.7.0/24 overlaps the pod subnet 10.244.0.0/16")
		if diff := cmp.Diff([]string{"blue/a", "green/a", "red/a"}, x.NADsOf("a-b")); diff != "" {
			t.Errorf("NADs (-want +got):\n%s", diff)
		}
		for _, key := range []string{"red/a", "blue/a"} {
			if changed := x.NADChanged(key, nil); key == "red/a" && changed != nil {
				t.Errorf("another NAD says the same, and yet changed: %v", changed)
			}
		}
		if got := x.Network("a-b"); got == nil || got.Subnets[0].String() != "10.2.0.0/16/16" {
			t.Errorf("order %v: after the older ones, network %v", order, got)
		}
		if changed := x.NADChanged("green/a", nil); !cmp.Equal(changed, []string{"a-b", "a.b"}) || x.Network("a.b") == nil || x.Network("a-b") != nil {
			t.Errorf("order %v: the name is free, changed %v, networks %v", order, changed, x.Networks())
		}
	}
}

func TestDefinitions_NamesOfChangedNetworks(t *testing.T) {
	x := newTestDefinitions()
	for i, tc := range []struct {
		nad  *NAD
		want []string
	}{
		{define(t, "red/a", 1, `"mtu":1300`), []string{"net"}},
		{define(t, "red/a", 1, `"mtu":1300`), nil},
		{define(t, "red/a", 1, `"mtu":1300`, contract.NetworkIDKey, "7"), []string{"net"}},
		{define(t, "red/a", 1, `"mtu":1200`, contract.NetworkIDKey, "7"), []string{"net"}},
		{define(t, "red/a", 1, `"name":"other"`), []string{"net", "other"}},
		{define(t, "red/a", 1, `"topology":"mesh"`), []string{"other"}},
		{define(t, "red/a", 1, `"type":"macvlan"`), nil},
	} {
		if diff := cmp.Diff(tc.want, x.NADChanged("red/a", tc.nad)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestDefinitions_RequestsOfPods(t *testing.T) {
	x := newTestDefinitions()
	for _, nad := range []*NAD{
		define(t, "red/a", 1, `"name":"one","mtu":1300`, contract.ResourceNameKey, "ovn-offload.io/vf"),
		define(t, "red/b", 1, `"name":"two"`),
		define(t, "red/main", 1, `"name":"main","role":"primary","subnets":"10.9.0.0/16"`),
		define(t, "red/mac", 1, `"type":"macvlan"`),
		define(t, "red/bad", 1, `"topology":"mesh"`),
		define(t, "red/first", 1, `"topology":null,"netAttachDefName":null`),
	} {
		x.NADChanged(nad.Key, nad)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "p", Annotations: map[string]string{}}}
	describe := func() string {
		var texts []string
		requests, _ := Access{x}.Requests(pod)
		for _, r := range requests {
			texts = append(texts, fmt.Sprintf("%s %s %s %d %s", r.Key(), r.Interface, r.Network.Name, r.Network.MTU, r.Resource))
		}
		return strings.Join(texts, "; ")
	}
	for networks, want := range map[string][2]string{
		"":       {"", ""},
		"a,b,a":  {"red/a net1 one 1300 ovn-offload.io/vf; red/b net2 two 0 ; red/a/1 net3 one 1300 ovn-offload.io/vf", ""},
		"b,none": {"red/b net1 two 0 ", "NetworkAttachmentDefinition red/none does not exist"},
		"mac":    {"", "red/mac is not one of type ovn-k8s-cni-overlay"},
		"first":  {"", "red/first has no topology: it is the default network"},
		"bad":    {"", `red/bad: topology "mesh" is none of`},
		"main":   {"", "network main of NetworkAttachmentDefinition red/main is primary"},
		"a@eth0": {"", "interface eth0 is taken already"},
	} {
		pod.Annotations[contract.NetworksKey] = networks
		if diff := cmp.Diff(want[0], describe()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", networks, diff)
		}
		if _, err := (Access{x}).Requests(pod); want[1] == "" && err != nil || want[1] != "" && (err == nil || !strings.Contains(err.Error(), want[1])) {
			t.Errorf("%s: missing %v, want %q", networks, err, want[1])
		}
	}
	pod.Annotations[contract.NetworksKey] = "main2,a"
	x.NADChanged("red/main2", define(t, "red/main2", 1, `"name":"held","subnets":"10.8.0.0/16"`))
	for route, want := range map[string]string{
		`{"dst":"10.1.0.0/16","gw":"10.8.3.4","dev":"net1"}`: "",
		`{"dst":"10.1.0.0/16","gw":"10.9.3.4","dev":"net1"}`: "route to 10.1.0.0/16: gw 10.9.3.4 is in no subnet of network held",
		`{"dst":"10.1.0.0/16","gw":"10.8.3.4","dev":"net2"}`: "gw 10.8.3.4 is in no subnet of network one",
	} {
		pod.Annotations[contract.OVNRoutesKey] = "[" + route + "]"
		if _, err := (Access{x}).Requests(pod); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", route, err, want)
		}
	}
	delete(pod.Annotations, contract.OVNRoutesKey)
	// What a running pod asks for later has no effect.
	pod.Annotations[contract.NetworksKey], pod.Status.PodIPs = "a,b", []corev1.PodIP{{IP: "10.244.0.5"}}
	pod.Annotations[contract.PodNetworksKey] = `{"default":{},"red/b":{}}`
	if diff := cmp.Diff("red/b net2 two 0 ", describe()); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
}
