//go:build bench

package switchdev

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// primaries are the primary networks of the namespaces with their names.
func primaries() map[string]map[string]any {
	return map[string]map[string]any{
		"red":  {"topology": "layer3", "subnets": "10.211.0.0/16/24,fd00:211::/48/64"},
		"blue": {"topology": "layer2", "subnets": "10.212.0.0/24,fd00:212::/64"},
	}
}

// tenants has pods on VFs: of primary networks, and with addresses of a NamespaceSubnet.
func (p *product) tenants() []way {
	t := p.t
	t.Helper()
	namespace := func(name string, labels map[string]string) {
		_, err := p.server.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
		ok(t, err)
	}
	for name, conf := range primaries() {
		namespace(name, map[string]string{contract.PrimaryNetworkLabel: ""})
		conf["role"] = "primary"
		defineNetwork(t, p.objects, name, "main", conf)
	}
	namespace("shop", map[string]string{"subnet": "shop"})
	_, err := p.objects.Resource(v1alpha1.NamespaceSubnets()).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.NamespaceSubnets().GroupVersion().String(), "kind": "NamespaceSubnet", "metadata": map[string]any{"name": "shop", "uid": "shop"},
		"spec": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"subnet": "shop"}}, "subnets": []any{"10.213.0.0/24", "fd00:213::/64"}},
	}}, metav1.CreateOptions{})
	ok(t, err)

	first, second := p.nodes[0], p.nodes[1]
	pod := func(namespace, name string, n *ovsNode, vf int, on string) *endpoint {
		e := &endpoint{name: name, node: n, vf: vf}
		p.attach(e, namespace, on, nil)
		return e
	}
	red, blue, shop := pod("red", "reda", first, 0, "red/main"), pod("blue", "bluea", first, 1, "blue/main"), pod("shop", "shopa", first, 2, contract.DefaultNetwork)
	redb, blueb, shopb := pod("red", "redb", second, 0, "red/main"), pod("blue", "blueb", second, 1, "blue/main"), pod("shop", "shopb", second, 2, contract.DefaultNetwork)
	shopc := pod("shop", "shopc", first, 3, contract.DefaultNetwork)
	var ways []way
	for i, family := range families() {
		between := func(what string, client, server *endpoint) way {
			return way{what: what + ", " + string(family), client: client.gate(), server: server.gate(), to: []string{server.addresses()[i]}}
		}
		leaves := func(what string, client *endpoint) way {
			return way{what: what + ", " + string(family), client: client.gate(), server: first.wire(), to: outsides()[i : i+1]}
		}
		ways = append(ways,
			between("primary layer3, other node", red, redb), between("primary layer2, other node", blue, blueb),
			between("NamespaceSubnet, other node", shop, shopb), between("NamespaceSubnet, same node", shop, shopc),
			leaves("primary layer3, to outside", red), leaves("primary layer2, to outside", blue), leaves("NamespaceSubnet, to outside", shop))
	}
	return ways
}

// TestTenants_VFTrafficIsInHardware: of primary networks and of a NamespaceSubnet, with the rows of the product, in both
// families. Pods of other networks do not answer.
func TestTenants_VFTrafficIsInHardware(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "TestOffload_TrafficOfProduct shows the same on the default network")
	p := newProductWith(t, true, kindsOfObjects(t))
	for _, w := range p.tenants() {
		t.Run(w.what, w.row)
	}
	reaches := func(from, to string, family int) bool {
		_, err := try(inside(from, "ping", "-c2", "-W2", p.pods[to].addresses()[family])...)
		return err == nil
	}
	for i, family := range families() {
		for _, pair := range [][2]string{{"shopb", "reda"}, {"shopb", "bluea"}, {"redb", "bluea"}} {
			if reaches(pair[0], pair[1], i) {
				t.Errorf("%s reaches %s of another network, %s", pair[0], pair[1], family)
			}
		}
		for from, to := range map[string]string{"redb": "reda", "blueb": "bluea"} {
			if !reaches(from, to, i) {
				t.Errorf("%s does not reach %s of its network, %s", from, to, family)
			}
		}
	}
}

// TestTenants_DisabledOffloadIsInSoftware is the control: the same traffic without hw-offload.
func TestTenants_DisabledOffloadIsInSoftware(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "TestOffload_DisabledProductIsInSoftware shows the same on the default network")
	p := newProductWith(t, false, kindsOfObjects(t))
	for _, w := range p.tenants() {
		t.Run(w.what, w.inSoftware)
	}
}
