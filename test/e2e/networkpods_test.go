//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// apply applies objects.
func apply(t *testing.T, text string) {
	t.Helper()
	if out, err := kubectl(t, text, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func kubectlDelete(t *testing.T, ns, resource, name string) {
	t.Helper()
	if out, err := kubectl(t, "", "-n", ns, "delete", "--wait=false", resource, name); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// wantEvent waits for an Event of an object whose message contains a text.
func wantEvent(t *testing.T, ns, reason, object, text string) {
	t.Helper()
	world.Eventually(t, world.PodWithin, "Event "+reason+" of "+object, func() (bool, string) {
		out, err := kubectl(t, "", "-n", ns, "get", "events", "--field-selector=reason="+reason+",involvedObject.name="+object, "-o", "jsonpath={.items[*].message}")
		return err == nil && out != "" && strings.Contains(out, text), out
	})
}

// wish is a pod with interfaces on further networks. Its server tells its name.
type wish struct{ ns, name, node, networks string }

func (w wish) create(t *testing.T) {
	t.Helper()
	world.Create(t, w.object())
}

func (w wish) object() *corev1.Pod {
	pod := world.Pod(w.ns, w.name, w.node, world.Named())
	pod.Annotations = map[string]string{contract.NetworksKey: w.networks}
	if strings.Contains(w.networks, `"ovn4nfv"`) {
		pod.Annotations = map[string]string{"k8s.plugin.opnfv.org/nfn-network": w.networks}
	}
	return pod
}

// forwarding is the object of a pod that forwards packets of others between its interfaces. Of errors of ICMP, which tell of
// the hops of a packet, Linux sends few.
func (w wish) forwarding() *corev1.Pod {
	pod, privileged := w.object(), true
	main := &pod.Spec.Containers[0]
	main.SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
	main.Command = []string{"sh", "-c", "cd /proc/sys/net/ipv4 && echo 1 > ip_forward && echo 0 > icmp_ratelimit && exec " + strings.Join(main.Command, " ")}
	return pod
}

// allOnNetworks makes pods at once, and waits for all. They are found by their names.
func allOnNetworks(t *testing.T, wishes ...wish) map[string]*corev1.Pod {
	t.Helper()
	for _, w := range wishes {
		w.create(t)
	}
	pods := map[string]*corev1.Pod{}
	for _, w := range wishes {
		pods[w.name] = world.Running(t, w.ns, w.name)
	}
	return pods
}

// attachmentOf is what a pod has for the key of an attachment.
func attachmentOf(t *testing.T, pod *corev1.Pod, key string) *contract.PodNetwork {
	t.Helper()
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], key)
	if err != nil || network == nil {
		t.Fatalf("%s has nothing on %s: %v", pod.Name, key, err)
	}
	return network
}

// addressOn is the only address of an attachment.
func addressOn(t *testing.T, pod *corev1.Pod, key string) netip.Addr {
	t.Helper()
	addresses := attachmentOf(t, pod, key).Addresses
	if len(addresses) != 1 {
		t.Fatalf("%s has the addresses %v on %s", pod.Name, addresses, key)
	}
	return addresses[0].Addr()
}

// staysPending checks that a pod waits although it has had an Event with a text.
func staysPending(t *testing.T, ns, name, text string) {
	t.Helper()
	wantEvent(t, ns, "FailedCreatePodSandBox", name, text)
	if pod := world.WaitPod(t, ns, name, "there",
		func(*corev1.Pod) bool { return true }); pod.Status.Phase != corev1.PodPending {
		t.Errorf("pod %s is %s", name, pod.Status.Phase)
	}
}

// selected is one element of the annotation k8s.v1.cni.cncf.io/networks, with further fields.
func selected(name, fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return fmt.Sprintf(`{"name": %q%s}`, name, fields)
}

// TestUserDefinedNetwork_PodsReachTheirNetworkOnly: two networks of a namespace have the same subnet and their pods the same
// addresses. Each pod finds its own network's, between nodes. A cluster-wide network joins namespaces, and stays until
// its pods are gone.
func TestUserDefinedNetwork_PodsReachTheirNetworkOnly(t *testing.T) {
	world.Test(t, world.Networks, world.Core, world.Strict)
	ns, guests := world.Namespace(t), world.Namespace(t)
	shared := "shared-" + ns[len(ns)-5:]
	for _, name := range []string{"red", "blue"} {
		if err := userDefined(t, ns, name, "{topology: Layer2, layer2: {role: Secondary, subnets: [10.70.0.0/24]}}"); err != nil {
			t.Fatal(err)
		}
	}
	networks := clusterUserDefined(t, shared, fmt.Sprintf("{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [%s, %s]}]}, "+
		"network: {topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.71.0.0/16, hostSubnet: 24}]}}}", ns, guests))
	waitNames(t, objectsOf(t, nadResource, ns), "blue red "+shared)
	waitNames(t, objectsOf(t, nadResource, guests), shared)

	on := func(name, ip string) string { return selected(name, fmt.Sprintf(`"ips": [%q]`, ip)) }
	pods := allOnNetworks(t,
		wish{ns, "red1", nodes[1], "[" + on("red", "10.70.0.10") + "," + selected(shared, "") + "]"},
		wish{ns, "blue1", nodes[1], "[" + on("blue", "10.70.0.10") + "]"},
		wish{ns, "red2", nodes[2], "[" + on("red", "10.70.0.20") + "," + on("red", "10.70.0.30") + "]"},
		wish{ns, "blue2", nodes[2], "[" + on("blue", "10.70.0.20") + "]"},
		wish{guests, "guest", nodes[2], shared})
	for _, color := range []string{"red", "blue"} {
		world.FromPod(pods[color+"1"]).AnsweredOnceBy(t, "10.70.0.20", color+"2")
		world.FromPod(pods[color+"2"]).AnsweredOnceBy(t, "10.70.0.10", color+"1")
	}
	world.FromPod(pods["red1"]).AnsweredOnceBy(t, "10.70.0.30", "red2") // its second interface
	world.FromPod(pods["blue1"]).Unanswered(t, "10.70.0.30")
	world.FromPod(pods["guest"]).Unanswered(t, "10.70.0.20")
	guest, red := addressOn(t, pods["guest"], guests+"/"+shared).String(), addressOn(t, pods["red1"], ns+"/"+shared).String()
	world.FromPod(pods["red1"]).AnsweredOnceBy(t, guest, "guest")
	world.FromPod(pods["guest"]).AnsweredOnceBy(t, red, "red1")
	world.FromPod(pods["blue1"]).Unanswered(t, guest)

	deleteObject(t, networks, shared)
	waitCondition(t, networks, shared, "NetworkCreated", "network in use by pods")
	world.FromPod(pods["red1"]).AnsweredOnceBy(t, guest, "guest")
	world.DeletePod(t, ns, "red1")
	world.DeletePod(t, guests, "guest")
	waitObjectGone(t, networks, shared)
	waitNames(t, objectsOf(t, nadResource, guests), "")
}

// TestIPAMClaim_KeepsAddressOfPod: the pod that follows on another node has the address, and clients find it there. The
// address of a pod without a claim is free at once, and that of a claim when the claim is gone.
func TestIPAMClaim_KeepsAddressOfPod(t *testing.T) {
	world.Test(t, world.Networks, world.Core, world.Strict)
	ns := world.Namespace(t)
	apply(t, networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.72.0.0/24", "allowPersistentIPs": true`)+
		fmt.Sprintf("\napiVersion: k8s.cni.cncf.io/v1alpha1\nkind: IPAMClaim\nmetadata: {namespace: %[1]s, name: db}\nspec: {network: %[1]s.flat, interface: net1}\n", ns))
	claimed := "[" + selected("flat", `"ipam-claim-reference": "db"`) + "]"
	pods := allOnNetworks(t, wish{ns, "db", nodes[1], claimed}, wish{ns, "plain", nodes[1], "flat"}, wish{ns, "client", nodes[0], "flat"})
	kept, free := addressOn(t, pods["db"], ns+"/flat").String(), addressOn(t, pods["plain"], ns+"/flat").String()
	world.FromPod(pods["client"]).AnsweredOnceBy(t, kept, "db")
	static := func(ip string) string { return "[" + selected("flat", fmt.Sprintf(`"ips": [%q]`, ip)) + "]" }
	wish{ns, "thief", nodes[1], static(kept)}.create(t)
	for _, name := range []string{"db", "plain"} {
		world.DeletePod(t, ns, name)
	}
	for _, name := range []string{"db", "plain"} {
		waitGone(t, ns, name)
	}
	world.FromPod(pods["client"]).Unanswered(t, kept)
	next := allOnNetworks(t, wish{ns, "db", nodes[2], claimed}, wish{ns, "heir", nodes[1], static(free)})
	if got := addressOn(t, next["db"], ns+"/flat").String(); got != kept {
		t.Errorf("the pod of the claim has %s after %s", got, kept)
	}
	world.FromPod(pods["client"]).AnsweredOnceBy(t, kept, "db")
	world.FromPod(pods["client"]).AnsweredOnceBy(t, free, "heir")
	staysPending(t, ns, "thief", "")
	kubectlDelete(t, ns, "ipamclaims.k8s.cni.cncf.io", "db")
	world.DeletePod(t, ns, "db")
	world.Running(t, ns, "thief")
	world.FromPod(pods["client"]).AnsweredOnceBy(t, kept, "thief")
}

// TestNetworks_PodGetsWhatItSelects: addresses and a MAC of its own choice with and without subnets, in both families, and
// no excluded address. A pod without a network does not reach it.
func TestNetworks_PodGetsWhatItSelects(t *testing.T) {
	world.Test(t, world.Networks)
	ns := world.Namespace(t)
	apply(t, networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.73.0.0/24,fd00:73::/64", "excludeSubnets": "10.73.0.0/27"`)+
		networkOf(ns, "bare", `"topology": "layer2"`)+networkOf(ns, "routed", `"topology": "layer3", "subnets": "10.74.0.0/16/24,fd00:74::/48"`))
	static := func(name, four, six, mac string) string {
		return selected(name, fmt.Sprintf(`"ips": ["%s/24", "%s/64"], "mac": %q`, four, six, mac))
	}
	const route = `"ips": ["10.73.0.60", "fd00:73::60"], "default-route": ["10.73.0.50", "fd00:73::50"]`
	pods := allOnNetworks(t,
		wish{ns, "server", nodes[1], "[" + static("flat", "10.73.0.50", "fd00:73::50", "02:73:00:00:00:50") + "," + static("bare", "10.75.0.50", "fd00:75::50", "02:75:00:00:00:50") + "," + selected("routed", "") + "]"},
		wish{ns, "routing", nodes[2], "[" + selected("flat", route) + "," + static("bare", "10.75.0.60", "fd00:75::60", "02:75:00:00:00:60") + "," + selected("routed", "") + "]"},
		wish{ns, "plain", nodes[2], "flat"})
	server, routing, plain := pods["server"], pods["routing"], pods["plain"]
	for link, mac := range map[string]string{"net1": "02:73:00:00:00:50", "net2": "02:75:00:00:00:50"} {
		if got := strings.TrimSpace(world.MustInPod(t, server, "cat", "/sys/class/net/"+link+"/address")); got != mac {
			t.Errorf("%s has the MAC %s, want %s", link, got, mac)
		}
	}
	for _, to := range []string{"10.73.0.50", "fd00:73::50", "10.75.0.50", "fd00:75::50"} {
		world.FromPod(routing).AnsweredOnceBy(t, to, "server")
	}
	for _, prefix := range attachmentOf(t, server, ns+"/routed").Addresses {
		world.FromPod(routing).AnsweredOnceBy(t, prefix.Addr().String(), "server")
		world.FromPod(plain).Unanswered(t, prefix.Addr().String())
	}
	for _, prefix := range attachmentOf(t, plain, ns+"/flat").Addresses {
		if netip.MustParsePrefix("10.73.0.0/27").Contains(prefix.Addr()) {
			t.Errorf("a pod has the excluded address %s", prefix)
		}
		world.FromPod(routing).AnsweredOnceBy(t, prefix.Addr().String(), "plain")
	}
}

// nodusNetwork is a Network of OVN4NFV; subnet has three numbers.
func nodusNetwork(ns, name, subnet string) string {
	return fmt.Sprintf("\napiVersion: k8s.plugin.opnfv.org/v1alpha1\nkind: Network\nmetadata: {namespace: %s, name: %s}\n"+
		"spec: {cniType: ovn4nfv, ipv4Subnets: [{name: s, subnet: %s.0/24, gateway: %[3]s.1/24, excludeIps: \"%[3]s.2..%[3]s.9\"}]}\n---", ns, name, subnet)
}

// TestOVN4NFV_PodHasItsInterfaces: two networks, with an address, a MAC and routes of the pod's choice. Networks are isolated
// from each other. A pod that asks for a route whose next hop is not on its network waits.
func TestOVN4NFV_PodHasItsInterfaces(t *testing.T) {
	world.Test(t, world.Networks, world.Core)
	if withMultus() {
		t.Skip("Multus does not read the annotations of OVN4NFV")
	}
	ns := world.Namespace(t)
	apply(t, nodusNetwork(ns, "front", "10.76.0")+nodusNetwork(ns, "back", "10.77.0"))
	waitNames(t, objectsOf(t, nadResource, ns), "back front")
	nfn := func(interfaces string, routes ...string) string {
		return `{"type": "ovn4nfv", "interface": [` + interfaces + `], "routes": [` + strings.Join(routes, ",") + "]}"
	}
	pods := allOnNetworks(t,
		wish{ns, "firewall", nodes[1], nfn(`{"name": "front", "interface": "net0", "ipAddress": "10.76.0.50", "macAddress": "02:76:00:00:00:50", "defaultGateway": "true", "gwipaddress": "10.76.0.60"},`+
			`{"name": "back", "interface": "net1", "defaultGateway": "false"}`, `{"dst": "10.78.0.0/24", "gw": "10.77.0.70", "dev": "net1"}`)},
		wish{ns, "router", nodes[2], nfn(`{"name": "front", "interface": "net0", "ipAddress": "10.76.0.60"}`)},
		wish{ns, "behind", nodes[2], nfn(`{"name": "back", "interface": "net0", "ipAddress": "10.77.0.70"}`)})
	firewall, behind := pods["firewall"], pods["behind"]
	astray := wish{ns, "astray", nodes[1], `{"type": "ovn4nfv", "interface": [{"name": "back", "interface": "net0"}], "routes": [{"dst": "10.78.0.0/24", "gw": "10.76.0.60", "dev": "net0"}]}`}
	astray.create(t) // it waits for half a minute
	if got := strings.TrimSpace(world.MustInPod(t, firewall, "cat",
		"/sys/class/net/net0/address")); got != "02:76:00:00:00:50" {
		t.Errorf("the MAC of net0 is %s", got)
	}
	checkNodus(t, firewall)
	world.FromPod(pods["router"]).AnsweredOnceBy(t, "10.76.0.50", "firewall")
	world.FromPod(behind).AnsweredOnceBy(t, addressOn(t, firewall, ns+"/back").String(), "firewall")
	world.FromPod(behind).Unanswered(t, "10.76.0.60") // networks are isolated
	nodusRoutes(t, firewall, behind)
	wantEvent(t, ns, "NetworkNotFound", "astray", "route to 10.78.0.0/24: gw 10.76.0.60 is in no subnet of network")
	staysPending(t, ns, "astray", "")
}

// nodusRoutes: a pod has the routes that it asks for, at its start and later, and no others.
func nodusRoutes(t *testing.T, pod, gateway *corev1.Pod) {
	t.Helper()
	world.MustInPod(t, gateway, "sh", "-c", "ip addr add 10.78.0.9/32 dev lo && ip addr add 10.79.0.9/32 dev lo")
	world.FromPod(pod).AnsweredOnceBy(t, "10.78.0.9", gateway.Name)
	world.FromPod(pod).Unanswered(t, "10.79.0.9")
	ask := func(routes string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, contract.OVNRoutesKey, routes)
		if _, err := cluster.client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	route := func(want bool) {
		t.Helper()
		world.Eventually(t, world.Soon, fmt.Sprint("the route is there: ", want), func() (bool, string) {
			routes := world.MustInPod(t, pod, "ip", "route")
			return strings.Contains(routes, "10.79.0.0/24 via 10.77.0.70 dev net1") == want, routes
		})
	}
	ask(`[{"dst": "10.79.0.0/24", "gw": "10.77.0.70", "dev": "net1"}]`)
	route(true)
	world.FromPod(pod).AnsweredOnceBy(t, "10.79.0.9", gateway.Name)
	ask("[]")
	route(false)
	world.FromPod(pod).Unanswered(t, "10.79.0.9")
	world.FromPod(pod).AnsweredOnceBy(t, "10.78.0.9", gateway.Name)
}

// checkNodus: the default route of a pod leads by its gateway, and the routes to pods and services by eth0. The annotation
// ovnInterfaces has the addresses of the interfaces.
func checkNodus(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if routes := world.MustInPod(t, pod, "ip", "route", "show",
		"default"); strings.TrimSpace(routes) != "default via 10.76.0.60 dev net0 proto 85" {
		t.Errorf("default routes: %q", routes)
	}
	api, err := cluster.client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{world.Endpoints(pod)[0].Addr().Next().String(), api.Spec.ClusterIP} {
		if route := world.MustInPod(t, pod, "ip", "route", "get", to); !strings.Contains(route, "dev eth0") {
			t.Errorf("the route to %s: %s", to, route)
		}
	}
	world.Eventually(t, world.Soon, "ovnInterfaces has the pod's addresses", func() (bool, string) {
		interfaces := world.WaitPod(t, pod.Namespace, pod.Name, "there", world.IsRunning).Annotations[contract.NodusInterfacesKey]
		for _, link := range []string{"net0", "net1", "eth0"} {
			for _, field := range strings.Fields(world.MustInPod(t, pod, "ip", "-br", "-4", "address", "show", "dev", link))[2:] {
				if !strings.Contains(interfaces, `"`+field+`"`) {
					return false, link + " has " + field + ", and the annotation " + interfaces
				}
			}
		}
		return true, ""
	})
}

// TestNetworks_PodsForward: a pod on two networks leads from one to the other, as the gateway of pods on other nodes, when
// the ports check MACs alone: with the NetConf's portSecurity, and on networks of OVN4NFV. Where they check addresses, it
// is reached, but what it forwards is dropped.
func TestNetworks_PodsForward(t *testing.T) {
	world.Test(t, world.Networks)
	ns := world.Namespace(t)
	const left, right, atLeft, atRight = "10.140.0.10", "10.141.0.10", "10.140.0.20", "10.141.0.20"
	kinds := map[string]bool{"mac": true, "ip": false}
	for kind := range kinds {
		fields := fmt.Sprintf(`"topology": "layer2", "portSecurity": %q, "subnets": "10.14`, kind)
		apply(t, networkOf(ns, kind+"-left", fields+`0.0.0/24"`)+networkOf(ns, kind+"-right", fields+`1.0.0/24"`))
	}
	on := func(name, ip, fields string) string { return selected(name, fmt.Sprintf(`"ips": [%q]%s`, ip, fields)) }
	form := "[%s]"
	var ends []wish
	trio := func(kind, viaLeft, viaRight string) {
		world.Create(t, wish{ns, kind + "-router", nodes[1],
			fmt.Sprintf(form, on(kind+"-left", atLeft, "")+","+on(kind+"-right", atRight, ""))}.forwarding())
		ends = append(ends, wish{ns, kind + "-left", nodes[0], fmt.Sprintf(form, on(kind+"-left", left, viaLeft))},
			wish{ns, kind + "-right", nodes[2], fmt.Sprintf(form, on(kind+"-right", right, viaRight))})
	}
	for kind := range kinds {
		trio(kind, `, "default-route": ["`+atLeft+`"]`, `, "default-route": ["`+atRight+`"]`)
	}
	if !withMultus() { // which does not read the annotations of OVN4NFV
		kinds["nodus"] = true
		apply(t, nodusNetwork(ns, "nodus-left", "10.140.0")+nodusNetwork(ns, "nodus-right", "10.141.0"))
		waitNames(t, objectsOf(t, nadResource, ns), "ip-left ip-right mac-left mac-right nodus-left nodus-right")
		form = `{"type": "ovn4nfv", "interface": [%s]}`
		on = func(name, ip, fields string) string {
			return selected(name, fmt.Sprintf(`"interface": %q, "ipAddress": %q%s`, name[strings.Index(name, "-")+1:], ip, fields))
		}
		trio("nodus", `, "defaultGateway": "true", "gwipaddress": "`+atLeft+`"`, `, "defaultGateway": "true", "gwipaddress": "`+atRight+`"`)
	}
	pods := allOnNetworks(t, ends...)
	for kind, forwards := range kinds {
		world.Running(t, ns, kind+"-router")
		world.FromPod(pods[kind+"-left"]).AnsweredOnceBy(t, atLeft, kind+"-router")
		world.FromPod(pods[kind+"-right"]).AnsweredOnceBy(t, atRight, kind+"-router")
		if !forwards {
			world.FromPod(pods[kind+"-left"]).Unanswered(t, right)
			world.FromPod(pods[kind+"-right"]).Unanswered(t, left)
			continue
		}
		world.FromPod(pods[kind+"-left"]).AnsweredOnceBy(t, right, kind+"-right")
		world.FromPod(pods[kind+"-right"]).AnsweredOnceBy(t, left, kind+"-left")
	}
}
