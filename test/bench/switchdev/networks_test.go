//go:build bench

package switchdev

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/contract/served"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// networks are those of TestNetworks_VFTrafficIsInHardware, by NetworkAttachmentDefinition.
func networks() map[string]map[string]any {
	return map[string]map[string]any{
		"flat":   {"topology": "layer2", "subnets": "10.202.0.0/24"},
		"routed": {"topology": "layer3", "subnets": "10.201.0.0/16/24"},
		"vlan70": {"topology": "localnet", "physicalNetworkName": contract.PhysicalNetwork, "vlanID": 70, "subnets": "10.203.0.0/16", "excludeSubnets": "10.203.128.0/17"},
		"vlan71": {"topology": "localnet", "physicalNetworkName": contract.PhysicalNetwork, "vlanID": 71, "subnets": "10.203.0.0/16", "excludeSubnets": "10.203.0.0/17"},
	}
}

// kindsOfObjects is an API server in memory for kinds without a client of their own, with NetworkAttachmentDefinitions.
func kindsOfObjects(t *testing.T) *dynamicfake.FakeDynamicClient {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{
		v1alpha1.OffloadPolicies(): "OffloadPolicyList", v1alpha1.NodeOffloads(): "NodeOffloadList", kube.NADs(): contract.KindNAD + "List", kube.IPAMClaims(): "IPAMClaimList",
		kube.MultiNetworkPolicies(): contract.KindMultiNetworkPolicy + "List", v1alpha1.PhysicalNetworks(): "PhysicalNetworkList",
		opnfv.NetworkChainings(): "NetworkChainingList", v1alpha1.NamespaceSubnets(): "NamespaceSubnetList", v1alpha1.PortMirrors(): "PortMirrorList",
		{Version: "v1", Resource: "namespaces"}: "NamespaceList",
		ovnv1.UserDefinedNetworks():             "UserDefinedNetworkList", ovnv1.ClusterUserDefinedNetworks(): "ClusterUserDefinedNetworkList",
		opnfv.Networks(): "NetworkList", opnfv.ProviderNetworks(): "ProviderNetworkList",
	}
	for kind, resource := range policy.AdminKinds() {
		lists[resource] = kind + "List"
	}
	for _, kind := range served.RefusedKinds() {
		lists[kind.GroupVersionResource] = kind.Kind + "List"
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	for name, conf := range networks() {
		defineNetwork(t, client, "default", name, conf)
	}
	return client
}

// defineNetwork makes a NetworkAttachmentDefinition.
func defineNetwork(t *testing.T, client dynamic.Interface, namespace, name string, conf map[string]any) {
	t.Helper()
	network := namespace + "-" + name
	conf["cniVersion"], conf["name"], conf["type"], conf["netAttachDefName"] = "1.0.0", network, contract.PluginType, namespace+"/"+name
	text, err := json.Marshal(conf)
	ok(t, err)
	_, err = client.Resource(kube.NADs()).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": contract.KindNAD,
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": network}, "spec": map[string]any{"config": string(text)},
	}}, metav1.CreateOptions{})
	ok(t, err)
}

// onVFs names the resource of the VFs that pods get on a network.
func onVFs(t *testing.T, client dynamic.Interface, networks ...string) {
	t.Helper()
	for _, name := range networks {
		nads := client.Resource(kube.NADs()).Namespace("default")
		nad, err := nads.Get(t.Context(), name, metav1.GetOptions{})
		ok(t, err)
		nad.SetAnnotations(map[string]string{contract.ResourceNameKey: "ovn-offload.io/vf"})
		_, err = nads.Update(t.Context(), nad, metav1.UpdateOptions{})
		ok(t, err)
	}
}

// given waits until the controller has given a pod addresses on networks.
func (p *product) given(pod string, keys ...string) {
	p.t.Helper()
	eventually(p.t, pod+" has addresses", patience, func() bool {
		object, err := p.server.CoreV1().Pods("default").Get(p.t.Context(), pod, metav1.GetOptions{})
		ok(p.t, err)
		return !slices.ContainsFunc(keys, func(key string) bool {
			network, err := contract.ParsePodNetwork(object.Annotations[contract.PodNetworksKey], key)
			return err != nil || network == nil
		})
	})
}

// onNetwork is the gate of an interface that CNI has made, and the pod's first address there.
// The key is that of the network in the pod's annotation.
func (p *product) onNetwork(n *ovsNode, pod sandbox, link, key string) (gate, string) {
	t := p.t
	t.Helper()
	object, err := p.server.CoreV1().Pods("default").Get(t.Context(), pod.name, metav1.GetOptions{})
	ok(t, err)
	network, err := contract.ParsePodNetwork(object.Annotations[contract.PodNetworksKey], key)
	ok(t, err)
	owner := contract.PodOwner("default", pod.name)
	if key != contract.DefaultNetwork {
		owner = owner.On(key)
	}
	id := plug.LogicalPort(owner)
	port := n.vsctl("--bare", "--columns=name", "find", "Interface", "external_ids:iface-id="+id)
	if network == nil || port == "" {
		t.Fatalf("%s has no port %s on %s: %v", pod.name, id, key, object.Annotations)
	}
	_, err = try(inside(n.name, "cat", "/sys/class/net/"+port+"/phys_port_name")...) // a veth has none
	n.ports = append(n.ports, offload.Port{Name: port, Device: offload.Device{Representor: err == nil, HWTC: err == nil, Function: err == nil}})
	return gate{pod.ns, link, port, n}, network.Addresses[0].Addr().String()
}

// addOn makes a pod with a VF on one further network, and plugs the VF in when the controller has given it an address.
func (p *product) addOn(name string, n *ovsNode, vf int, nad string) *endpoint {
	p.t.Helper()
	e := &endpoint{name: name, node: n, vf: vf}
	p.attach(e, "default", "default/"+nad, map[string]string{contract.NetworksKey: nad})
	return e
}

// attach makes a pod in a namespace, and plugs its VF in on one network when the controller has given it addresses there.
func (p *product) attach(e *endpoint, namespace, on string, annotations map[string]string) {
	t, start := p.t, time.Now()
	t.Helper()
	_, err := p.server.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: e.name, UID: types.UID(e.name), Annotations: annotations},
		Spec:       corev1.PodSpec{NodeName: e.node.name},
	}, metav1.CreateOptions{})
	ok(t, err)
	var network *contract.PodNetwork
	eventually(t, e.name+" has an address on "+on, patience, func() bool {
		object, err := p.server.CoreV1().Pods(namespace).Get(t.Context(), e.name, metav1.GetOptions{})
		ok(t, err)
		network, err = contract.ParsePodNetwork(object.Annotations[contract.PodNetworksKey], on)
		return err == nil && network != nil && len(network.Addresses) > 0
	})
	given := time.Since(start)
	e.v4 = network.Addresses[0].Addr().String()
	if len(network.Addresses) > 1 {
		e.v6 = network.Addresses[1].Addr().String()
	}
	p.pods[e.name] = e
	owner := contract.PodOwner(namespace, e.name)
	if on != contract.DefaultNetwork {
		owner = owner.On(on)
	}
	link := e.node.plug(e, `external_ids:attached_mac="`+network.MAC.String()+`"`, "external_ids:iface-id-ver="+e.name,
		"external_ids:iface-id="+plug.LogicalPort(owner))
	commands := []string{"link set lo up", fmt.Sprintf("link set %s name eth0 address %s mtu %s up", link, network.MAC, podMTU)}
	for _, address := range network.Addresses {
		commands = append(commands, "addr add "+address.String()+" dev eth0 nodad")
	}
	for _, gateway := range network.Gateways {
		commands = append(commands, fmt.Sprintf("route add default via %s dev eth0 onlink", gateway))
	}
	for _, route := range network.Routes {
		commands = append(commands, fmt.Sprintf("route add %s via %s dev eth0 onlink", route.Dest, route.NextHop))
	}
	batch(t, e.name, commands...)
	p.answer(e.name)
	t.Logf("%s has addresses on %s after %s, and its VF after %s", e.name, on, given.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
}

// onNetworks are ways between VFs on further networks, on a node and between nodes.
func (p *product) onNetworks() []way {
	first, second := p.nodes[0], p.nodes[1]
	between := func(what string, client, server *endpoint) way {
		return way{what: what, client: client.gate(), server: server.gate(), to: []string{server.v4}}
	}
	flat, vlan := p.addOn("flata", first, 0, "flat"), p.addOn("vlana", first, 1, "vlan70")
	return []way{
		between("layer2, other node", flat, p.addOn("flatb", second, 0, "flat")),
		between("layer2, same node", flat, p.addOn("flatc", first, 2, "flat")),
		between("localnet with a VLAN, other node", vlan, p.addOn("vlanb", second, 1, "vlan70")),
		between("layer3, other node", p.addOn("routeda", first, 3, "routed"), p.addOn("routedb", second, 2, "routed")),
	}
}

// TestNetworks_VFTrafficIsInHardware: of each topology, with the rows of the product. Pods on another VLAN of the same
// physical network do not answer.
func TestNetworks_VFTrafficIsInHardware(t *testing.T) {
	tier.In(t, "bench")
	p := newProductWith(t, true, kindsOfObjects(t))
	ways := p.onNetworks()
	for _, w := range ways[:tier.Pick(3, len(ways))] {
		t.Run(w.what, w.row)
	}
	other := p.addOn("other", p.nodes[1], 3, "vlan71")
	if out, err := try(inside(other.name, "ping", "-c2", "-W1", p.pods["vlana"].v4)...); err == nil {
		t.Errorf("a pod on another VLAN is reached: %s", out)
	}
}

// TestNetworks_DisabledOffloadIsInSoftware is the control: the same traffic without hw-offload.
func TestNetworks_DisabledOffloadIsInSoftware(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "TestOffload_DisabledProductIsInSoftware shows the same on the default network")
	p := newProductWith(t, false, kindsOfObjects(t))
	for _, w := range p.onNetworks() {
		t.Run(w.what, w.inSoftware)
	}
}
