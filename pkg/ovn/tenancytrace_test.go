package ovn

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// rowsInstead are the rows of a file whose objects and owners have other words, by pairs. An owner that the builder refuses
// has none.
func rowsInstead(t *testing.T, file string, words ...string) (rows []ovsdb.Row, refused error) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	section := sectionsOf(archive)
	for _, name := range []string{"objects.yaml", "owner"} {
		for i := 0; i < len(words); i += 2 {
			section[name] = strings.ReplaceAll(section[name], words[i], words[i+1])
		}
	}
	view := readObjects(t, section["objects.yaml"])
	network := readConfig(t, section["config"], &view.zone)
	for _, owner := range ownersOf(t, view, section["owner"]) {
		built, err := Build(view, view.networkOf(network, owner), owner)
		refused = errors.Join(refused, err)
		rows = append(rows, built...)
	}
	return slices.DeleteFunc(rows, func(row ovsdb.Row) bool { _, isRule := row.Model.(*nb.ACL); return isRule }), refused
}

// TestPrimaryNetwork_TheOldestHasTheTranslatedPackets: in northd's flows, what a load balancer has translated to an address
// arrives in the network with this subnet, and not when an older network has a part of the subnet: the address is not in it.
func TestPrimaryNetwork_TheOldestHasTheTranslatedPackets(t *testing.T) {
	const foreign = "green.l2_green_c"
	for subnets, want := range map[string]bool{"10.1.0.0/16": true, "10.1.0.0/16,192.0.2.128/25": false} {
		rows, err := rowsInstead(t, "testdata/primary-northd.txtar", `"subnets":"10.1.0.0/16"`, `"subnets":"`+subnets+`"`)
		if err != nil {
			t.Fatal(err)
		}
		n := startNorthd(t)
		n.write(rows)
		n.learn(rows)
		inside := end{"rtoe-GR_n1", "02:42:ac:12:00:01", "198.51.100.1"}
		trace := tracedPacket{"GR_n1", inside, "02:42:ac:12:00:03", "192.0.2.4", "tcp && ct.trk && ct_mark.natted == 1 && ct.est", "est", foreign, ""}.trace(n)
		if got := arrives(trace, end{port: foreign}); got != want {
			t.Errorf("the older network has %s, and the packet arrives in the younger one: %t, want %t:\n%s", subnets, got, want, trace)
		}
	}
}

// TestService_OfOthersHasNoLoadBalancerOnANetwork: in northd's flows, a pod's packet to the cluster address of a service on its
// network is translated to an endpoint if the service's namespace may use the network, and leaves as it is otherwise.
func TestService_OfOthersHasNoLoadBalancerOnANetwork(t *testing.T) {
	for namespace, want := range map[string]bool{"red": true, "evil": false} {
		rows, err := rowsInstead(t, "testdata/secondary-gateway.txtar",
			"namespace: red, name: web, annotations: {ovn-offload.io/network: l2}", "namespace: "+namespace+", name: web, annotations: {ovn-offload.io/network: red/l2}",
			"namespace: red, name: web-1", "namespace: "+namespace+", name: web-1", "Network/default@red-l3", "Network/default Network/default@red-l3",
			"Service/red/web", "Pod/red/web@red/l2 Service/"+namespace+"/web")
		if isRefused := err != nil && strings.Contains(err.Error(), "network red-l2 belongs to namespace red"); isRefused == want {
			t.Errorf("the service of %s: %v", namespace, err)
		}
		n := startNorthd(t)
		n.write(rows)
		pod := end{"red.l2_red_web", "0a:58:0a:02:00:04", "10.2.0.4"}
		trace := tracedPacket{"red.l2_ovn_layer2_switch", pod, "0a:58:0a:02:00:01", "10.96.64.7", "tcp && tcp.dst == 80", "", "", ""}.trace(n)
		if got := strings.Contains(trace, "10.2.0.99:8080"); got != want {
			t.Errorf("the service of %s translates the packet: %t, want %t:\n%s", namespace, got, want, trace)
		}
	}
}

// endpoints is a service with an external address and a hand-made EndpointSlice, before the other objects of a file.
func endpoints(namespace string, address string) string {
	return "kind: Service\napiVersion: v1\nmetadata: {namespace: " + namespace + ", name: made}\n" +
		"spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], externalIPs: [198.51.100.200], ports: [{port: 80}]}\n---\n" +
		"kind: EndpointSlice\napiVersion: discovery.k8s.io/v1\nmetadata: {namespace: " + namespace + ", name: made-1, labels: {kubernetes.io/service-name: made}}\n" +
		"addressType: IPv4\nports: [{port: 8080, protocol: TCP, name: \"\"}]\nendpoints: [{addresses: [" + address + "], conditions: {ready: true}}]\n---\n"
}

// TestService_ExternalAddressLeadsToNoNetworkOfOthers: in northd's flows, a packet of an external host to a service's external
// address is translated to an address in a primary network only if the service is on the network. The service of others is
// translated to an address that no network has. TestPrimaryNetwork_PacketsTakeTheRoutes follows packets that are translated.
func TestService_ExternalAddressLeadsToNoNetworkOfOthers(t *testing.T) {
	const first = "kind: Namespace\napiVersion: v1\nmetadata: {name: blue,"
	for _, tc := range []struct {
		namespace, address string
		leads              bool
	}{{"blue", "10.1.0.9", true}, {"evil", "10.1.0.9", false}, {"green", "10.1.0.9", false}, {"evil", "10.99.0.9", true}} {
		rows, err := rowsInstead(t, "testdata/primary-northd.txtar", first, endpoints(tc.namespace, tc.address)+first,
			"Node/n1 Node/n2 ", "Node/n1 Node/n2 Service/"+tc.namespace+"/made ")
		if err != nil {
			t.Fatal(err)
		}
		n := startNorthd(t)
		n.write(rows)
		n.learn(rows)
		client := end{"breth0_n1", "02:42:ac:12:00:01", "198.51.100.1"}
		trace := tracedPacket{"ext_n1", client, "02:42:ac:12:00:03", "198.51.100.200", "tcp && tcp.dst == 80", "", "", ""}.trace(n)
		if got := strings.Contains(trace, "ct_lb_mark(backends="+tc.address+":8080"); got != tc.leads {
			t.Errorf("a service of %s leads to %s: %t, want %t:\n%s", tc.namespace, tc.address, got, tc.leads, trace)
		}
	}
}
