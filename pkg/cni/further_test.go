package cni

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// Further networks of default/web, as the controller writes them.
const (
	redEntry = `{"ip_addresses":["10.9.%d.7/24"],"mac_address":"0a:58:0a:09:00:0%[1]d","routes":[{"dest":"10.9.0.0/16","nextHop":"10.9.%[1]d.1"}],` +
		`"role":"secondary","interface":"net%[2]d","network":"red-network","mtu":1300}`
	bareEntry = `{"ip_addresses":null,"mac_address":"0a:58:9c:11:22:33","role":"secondary","interface":"net3","network":"vlan7","physical_network":"tenants"}`
)

// podOf is default/web with what it asks for, and further entries of its annotation.
func podOf(selections string, entries map[string]string) *corev1.Pod {
	annotation := webNetwork
	for key, entry := range entries {
		var err error
		if annotation, err = contract.SetNetwork(annotation, key, json.RawMessage(entry)); err != nil {
			panic(err)
		}
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID(webUID), Annotations: map[string]string{
		contract.NetworksKey: selections, contract.PodNetworksKey: annotation,
	}}}
}

// threeNetworks are two interfaces on the network red, and one on a localnet without addresses.
func threeNetworks() *corev1.Pod {
	return podOf("red, red, lab/vlan7", map[string]string{
		"default/red": fmt.Sprintf(redEntry, 1, 1), "default/red/1": fmt.Sprintf(redEntry, 2, 2), "lab/vlan7": bareEntry,
	})
}

// newNative is a node of a cluster without Multus, with a bridge to the physical network tenants.
func newNative(t *testing.T, pod *corev1.Pod) *node {
	n := newNode(t)
	n.srv.cfg.Native = true
	n.srv.deps.Mapped = func(network string) bool { return network == "tenants" }
	n.putPod(web, pod)
	return n
}

// byMultus is what Multus asks for a further network.
func byMultus(ifName, nad string) *Request {
	r := addWeb(sandboxA, "/ns/a")
	r.IfName = ifName
	r.Conf.Name, r.Conf.Topology, r.Conf.NetAttachDefName = "red-network", "layer3", nad
	return r
}

func inPod(t *testing.T, out []byte) (lines []string) {
	t.Helper()
	var got types100.Result
	must(t, json.Unmarshal(out, &got))
	for _, i := range got.Interfaces {
		if i.Sandbox != "" {
			lines = append(lines, fmt.Sprintf("%s %s mtu %d", i.Name, i.Mac, i.Mtu))
		}
	}
	for _, ip := range got.IPs {
		lines = append(lines, got.Interfaces[*ip.Interface].Name+" "+ip.Address.String()+" "+ip.Gateway.String())
	}
	for _, r := range got.Routes {
		lines = append(lines, fmt.Sprintf("%s via %s metric %d", r.Dst.String(), r.GW, r.Priority))
	}
	return lines
}

func TestAdd_NativeMakesAllInterfaces(t *testing.T) {
	n := newNative(t, threeNetworks())
	r := addWeb(sandboxA, "/ns/a")
	r.Conf.DNS.Nameservers = []string{"10.96.0.10"}
	out := n.mustDo(r)
	want := []string{
		"eth0 0a:58:0a:f4:01:05 mtu 1400", "net1 0a:58:0a:09:00:01 mtu 1300", "net2 0a:58:0a:09:00:02 mtu 1300", "net3 0a:58:9c:11:22:33 mtu 1400",
		"eth0 10.244.1.5/24 10.244.1.1", "net1 10.9.1.7/24 <nil>", "net2 10.9.2.7/24 <nil>",
		"0.0.0.0/0 via 10.244.1.1 metric 0", "10.244.0.0/16 via 10.244.1.1 metric 0", "10.96.0.0/16 via 10.244.1.1 metric 0",
		"10.9.0.0/16 via 10.9.1.1 metric 0", "10.9.0.0/16 via 10.9.2.1 metric 2002",
	}
	if diff := cmp.Diff(want, inPod(t, out)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	var result types100.Result
	must(t, json.Unmarshal(out, &result))
	if !slices.Equal(result.DNS.Nameservers, []string{"10.96.0.10"}) {
		t.Errorf("dns %+v", result.DNS)
	}
	for key, id := range map[string]string{"": "default_web", "default/red": "default.red_default_web", "default/red/1": "default.red.1_default_web", "lab/vlan7": "lab.vlan7_default_web"} {
		port, ok := find(n.db, web.On(key))
		if !ok || port.Attachment != "eth0" || port.Network != "ovn-kubernetes" {
			t.Errorf("network %q: port %+v", key, port)
		}
		if got := plug.LogicalPort(web.On(key)); got != id {
			t.Errorf("iface-id %s, want %s", got, id)
		}
	}
	n.db.edit(web.On("default/red/1"), func(i *vswitch.Interface) {
		if i.ExternalIDs["k8s.ovn.org/nad"] != "default/red/1" || i.ExternalIDs["k8s.ovn.org/network"] != "red-network" || i.ExternalIDs["mirror-id"] != "default.red.1_default_web" {
			t.Errorf("external_ids %v", i.ExternalIDs)
		}
	})
	n.mustDo(r) // again
	check := addWeb(sandboxA, "/ns/a")
	check.Command = "CHECK"
	n.mustDo(check)
	n.putPod(web, nil) // with all that names its networks
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantNothing()
}

func TestAdd_WithoutNativeMakesDefaultNetworkOnly(t *testing.T) {
	n := newNode(t)
	n.putPod(web, threeNetworks())
	if got := inPod(t, n.mustDo(addWeb(sandboxA, "/ns/a")))[0:2]; got[0] != "eth0 0a:58:0a:f4:01:05 mtu 1400" || got[1] != "eth0 10.244.1.5/24 10.244.1.1" {
		t.Errorf("result %q", got)
	}
	n.wantLinks(linkA)
}

// TestAdd_InterfacesOfOneNetworkAreApart: packets from an address leave by its interface.
func TestAdd_InterfacesOfOneNetworkAreApart(t *testing.T) {
	n := newNative(t, threeNetworks())
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	pod, err := n.net.Open("/ns/a")
	must(t, err)
	tables := map[string]int{}
	for _, name := range []string{"net1", "net2", "net3"} {
		link, err := pod.Link(name)
		must(t, err)
		tables[name] = 100 + link.Index
		for setting, want := range map[string]string{"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"} {
			if got := n.net.SysctlValue("/ns/a", "net/ipv4/conf/"+name+"/"+setting); got != want {
				t.Errorf("%s of %s: %q", setting, name, got)
			}
		}
	}
	if got := n.net.SysctlValue("/ns/a", "net/ipv4/conf/eth0/arp_ignore"); got != "" {
		t.Errorf("arp_ignore of eth0: %q", got)
	}
	want := []netdev.PolicyRule{
		{From: prefixes("10.9.1.7/32")[0], Table: tables["net1"], Priority: 1000}, {From: prefixes("10.9.2.7/32")[0], Table: tables["net2"], Priority: 1000},
	}
	if diff := cmp.Diff(want, n.net.PolicyRules("/ns/a"), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	for name, want := range map[string][]string{
		"net1": {"10.9.1.0/24", "10.9.0.0/16 via 10.9.1.1", "main 10.9.0.0/16 via 10.9.1.1"},
		"net2": {"10.9.2.0/24", "10.9.0.0/16 via 10.9.2.1", "main 10.9.0.0/16 via 10.9.2.1"},
		"net3": nil,
	} {
		routes, err := pod.Routes(name)
		must(t, err)
		var got []string
		for _, r := range routes {
			text := netdev.Route{Dest: r.Dest, NextHop: r.NextHop}.String()
			if r.Table != tables[name] {
				text = "main " + text
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("routes of %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAdd_MultusAsksForOneInterfaceAtATime(t *testing.T) {
	n := newNode(t)
	n.putPod(web, threeNetworks())
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	want := []string{"net2 0a:58:0a:09:00:02 mtu 1300", "net2 10.9.2.7/24 <nil>", "10.9.0.0/16 via 10.9.2.1 metric 2002"}
	if diff := cmp.Diff(want, inPod(t, n.mustDo(byMultus("net2", "default/red")))); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	n.mustDo(byMultus("net1", "default/red"))
	if port, ok := find(n.db, web.On("default/red/1")); !ok || port.IfName != "net2" || port.Attachment != "net2" || port.Network != "red-network" {
		t.Errorf("port %+v", port)
	}
	check := byMultus("net2", "default/red")
	check.Command = "CHECK"
	n.mustDo(check)
	must(t, n.host.DeleteLink(hostLink(sandboxA, "net2", "x")))
	if _, err := n.do(check); codeOf(err) != CodeCheck {
		t.Errorf("CHECK without the link: %v", err)
	}
	n.putPod(web, nil)
	del := byMultus("net2", "default/red")
	del.Command = "DEL"
	n.mustDo(del)
	n.wantLinks(linkA, hostLink(sandboxA, "net1", "x"))
	del.IfName = "net1"
	n.mustDo(del)
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantNothing()
}

func TestCheck_NoticesLostPortOfFurtherNetwork(t *testing.T) {
	n := newNative(t, threeNetworks())
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	port, _ := find(n.db, web.On("default/red"))
	must(t, n.ovs.Unplug(t.Context(), port))
	check := addWeb(sandboxA, "/ns/a")
	check.Command = "CHECK"
	if _, err := n.do(check); codeOf(err) != CodeCheck {
		t.Errorf("CHECK: %v", err)
	}
}

// TestAdd_NativeNetworkThatIsNotThere: the error names the NetworkAttachmentDefinition or the physical network, and nothing is left.
func TestAdd_NativeNetworkThatIsNotThere(t *testing.T) {
	red := map[string]string{"default/red": fmt.Sprintf(redEntry, 1, 1)}
	locked, err := contract.SetNetwork("", contract.DefaultNetwork, json.RawMessage(
		`{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","role":"infrastructure-locked"}`))
	must(t, err)
	noPrimary := podOf("", nil)
	noPrimary.Annotations[contract.PodNetworksKey] = locked
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		code uint
		want string
	}{
		"no entry":            {podOf("red,blue", red), CodeNetwork, "has nothing of default/blue for net2: is there a NetworkAttachmentDefinition default/blue of type ovn-k8s-cni-overlay?"},
		"second entry":        {podOf("red,red", red), CodeNetwork, "nothing of default/red/1 for net2: is there a NetworkAttachmentDefinition default/red of type"},
		"bad annotation":      {podOf("[{", red), CodeNetwork, contract.NetworksKey},
		"no physical network": {podOf("lab/vlan7", map[string]string{"lab/vlan7": `{"mac_address":"0a:58:9c:11:22:33","physical_network":"other"}`}), CodeNetwork, "lab/vlan7 is on the physical network other, and this node has no bridge for it"},
		"bad mtu":             {podOf("red", map[string]string{"default/red": `{"mac_address":"0a:58:9c:11:22:33","mtu":70000}`}), CodeAnnotation, "mtu 70000"},
		"no primary network":  {noPrimary, CodeNetwork, "nothing of the primary network of the namespace"},
	} {
		n := newNative(t, tc.pod).impatient()
		if _, err := n.do(addWeb(sandboxA, "/ns/a")); codeOf(err) != tc.code || !contains(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		n.wantNothing()
	}
}

func TestAdd_MultusNetworkThatPodDoesNotSelect(t *testing.T) {
	n := newNode(t).impatient()
	n.putPod(web, threeNetworks())
	for _, r := range []*Request{byMultus("net3", "default/red"), byMultus("net1", "other/red")} {
		if _, err := n.do(r); codeOf(err) != CodeNetwork || !contains(err, "does not ask for network "+r.Conf.NetAttachDefName) {
			t.Errorf("%s on %s: %v", r.Conf.NetAttachDefName, r.IfName, err)
		}
	}
	n.wantNothing()
}

// TestAdd_WaitsForFurtherNetwork: a NetworkAttachmentDefinition may come after its pod.
func TestAdd_WaitsForFurtherNetwork(t *testing.T) {
	n := newNative(t, podOf("red", nil))
	done := make(chan error, 1)
	go func() {
		_, err := n.do(addWeb(sandboxA, "/ns/a"))
		done <- err
	}()
	until(t, "ADD waits", func() bool {
		n.srv.deps.Pods.mu.Lock()
		defer n.srv.deps.Pods.mu.Unlock()
		return len(n.srv.deps.Pods.waiters) > 0
	})
	n.putPod(web, podOf("red", map[string]string{"default/red": fmt.Sprintf(redEntry, 1, 1)}))
	must(t, <-done)
	n.wantLinks(linkA, hostLink(sandboxA, "net1", "x"))
}

// TestAdd_PrimaryNetworkComesWithDefault: with and without Multus.
func TestAdd_PrimaryNetworkComesWithDefault(t *testing.T) {
	for _, native := range []bool{false, true} {
		pod := podOf("", map[string]string{
			"default": `{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","role":"infrastructure-locked"}`,
			"default/tenant": `{"ip_addresses":["10.50.0.4/16"],"mac_address":"0a:58:0a:32:00:04","gateway_ips":["10.50.0.1"],"role":"primary",` +
				`"network":"tenant"}`,
		})
		n := newNative(t, pod)
		n.srv.cfg.Native = native
		want := []string{
			"eth0 0a:58:0a:f4:01:05 mtu 1400", "ovn-udn1 0a:58:0a:32:00:04 mtu 1400", "eth0 10.244.1.5/24 <nil>", "ovn-udn1 10.50.0.4/16 10.50.0.1",
			"0.0.0.0/0 via 10.50.0.1 metric 0",
		}
		if diff := cmp.Diff(want, inPod(t, n.mustDo(addWeb(sandboxA, "/ns/a")))); diff != "" {
			t.Errorf("native %v (-want +got):\n%s", native, diff)
		}
		n.mustDo(delWeb(sandboxA, "/ns/a"))
		n.wantNothing()
	}
}

// TestAdd_MultusGetsAVersionThatItReads: Multus cannot take a default route out of a result of CNI 1.1.
func TestAdd_MultusGetsAVersionThatItReads(t *testing.T) {
	for native, want := range map[bool]string{true: "1.1.0", false: "1.0.0"} {
		n := newNative(t, threeNetworks())
		n.srv.cfg.Native = native
		var got types100.Result
		must(t, json.Unmarshal(n.mustDo(addWeb(sandboxA, "/ns/a")), &got))
		if got.CNIVersion != want {
			t.Errorf("native %t: version %s, want %s", native, got.CNIVersion, want)
		}
	}
	n := newNode(t)
	var got types100.Result
	must(t, json.Unmarshal(n.mustDo(addWeb(sandboxA, "/ns/a")), &got))
	if got.CNIVersion != "1.1.0" {
		t.Errorf("a pod on the default network alone: version %s", got.CNIVersion)
	}
}

// TestAttach_MTUBeyondWhatTheNodeCarries: the interface gets what the tunnels or the bridge carry, and the pod an Event
// with both numbers. A smaller MTU stays, and so does one where nothing is known.
func TestAttach_MTUBeyondWhatTheNodeCarries(t *testing.T) {
	for name, tt := range map[string]struct {
		carried map[string]int
		want    string
		events  []string
	}{
		"all fit":    {map[string]int{"": 1400, "tenants": 1500}, "[1400 1300 1300 1400]", nil},
		"not known":  {map[string]int{}, "[1400 1300 1300 1400]", nil},
		"short link": {map[string]int{"": 1400, "tenants": 1280}, "[1400 1300 1300 1280]", []string{"MTULowered net3 has an MTU of 1280, and not of 1400"}},
		"short underlay": {map[string]int{"": 1250, "tenants": 1500}, "[1250 1250 1250 1400]", []string{
			"MTULowered eth0 has an MTU of 1250, and not of 1400", "MTULowered net1 has an MTU of 1250, and not of 1300", "MTULowered net2 has an MTU of 1250, and not of 1300",
		}},
	} {
		n := newNative(t, threeNetworks())
		var events []string
		n.srv.deps.Carried = func(physical string) int { return tt.carried[physical] }
		n.srv.deps.Warn = func(pod contract.Owner, reason, note string) {
			text, _, _ := strings.Cut(note, " as its network says")
			events = append(events, reason+" "+text)
			if pod != web {
				t.Errorf("%s: an Event on %s", name, pod)
			}
		}
		out, err := n.do(addWeb(sandboxA, "/ns/a"))
		must(t, err)
		var got types100.Result
		must(t, json.Unmarshal(out, &got))
		var mtus []int
		for _, i := range got.Interfaces {
			if i.Sandbox != "" {
				mtus = append(mtus, i.Mtu)
			}
		}
		if fmt.Sprint(mtus) != tt.want {
			t.Errorf("%s: MTUs %v, want %s", name, mtus, tt.want)
		}
		if diff := cmp.Diff(tt.events, events); diff != "" {
			t.Errorf("%s: Events (-want +got):\n%s", name, diff)
		}
	}
}
