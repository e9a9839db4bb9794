package controller

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// putNAD creates a NetworkAttachmentDefinition d/name, replacing one that is there.
func (w *world) putNAD(name, fields string) {
	w.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": contract.KindNAD,
		"metadata": map[string]any{"namespace": "d", "name": name, "uid": name}, "spec": map[string]any{"config": nadConfig(name, fields)},
	}}
	if strings.Contains(fields, `"primary"`) { // the fake applies no patch of ours: another id than what the controller decides for others
		object.SetAnnotations(map[string]string{contract.NetworkIDKey: "40"})
	}
	if strings.Contains(fields, `"exits"`) {
		object.SetAnnotations(map[string]string{contract.NetworkIDKey: "41", contract.GatewayKey: "203.0.113.0/24"})
	}
	nads := w.policies.Resource(kube.NADs()).Namespace("d")
	_ = nads.Delete(w.t.Context(), name, metav1.DeleteOptions{})
	if _, err := nads.Create(w.t.Context(), object, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func nadConfig(name, fields string) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","type":"ovn-k8s-cni-overlay","netAttachDefName":"d/%s",%s}`, name, fields)
}

// putPrimary makes the network of a tenant. The fake applies no patch, so the id is there already.
func (w *world) putPrimary(i int) {
	w.t.Helper()
	namespace := fmt.Sprint("tenant-", i)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": fmt.Sprintf(
		`{"cniVersion":"1.1.0","type":"ovn-k8s-cni-overlay","name":"net%d","netAttachDefName":"%s/main","role":"primary","topology":"layer2","subnets":"10.8.0.0/16"}`, i, namespace)}}}
	object.SetAPIVersion("k8s.cni.cncf.io/v1")
	object.SetKind(contract.KindNAD)
	object.SetNamespace(namespace)
	object.SetName("main")
	object.SetAnnotations(map[string]string{contract.NetworkIDKey: fmt.Sprint(i + 1)})
	object.SetCreationTimestamp(metav1.Unix(int64(i), 0))
	if _, err := w.policies.Resource(kube.NADs()).Namespace(namespace).Create(w.t.Context(), object, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) dropNAD(name string) {
	w.t.Helper()
	if err := w.policies.Resource(kube.NADs()).Namespace("d").Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// furtherRows are the names of rows of further networks.
func (w *world) furtherRows() []string {
	var names []string
	for _, table := range []string{"Logical_Router", "Logical_Switch", "Logical_Switch_Port"} {
		for name := range strings.FieldsSeq(w.server.Dump(table, "name")) {
			if strings.Contains(name, "ovn_layer2") || strings.Contains(name, "ovn_localnet") || strings.Contains(name, "l3_") || strings.HasPrefix(name, "d.") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (w *world) wantFurther(want ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprint("rows of further networks ", want, ", have ", w.furtherRows()), func() bool { return slices.Equal(w.furtherRows(), want) })
}

func asking(name, node, networks string) *corev1.Pod {
	pod := testPod(name, node)
	pod.Annotations = map[string]string{contract.NetworksKey: networks}
	return pod
}

// TestNetworks_RowsComeAndGo: rows of networks and of pods' attachments come in any order of NADs and pods, stay over a
// restart, and go with the pod and with the NAD. The default network's port waits for no other network.
func TestNetworks_RowsComeAndGo(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"), testNode("n2"))
	w.startAndLead()
	create := func(pod *corev1.Pod) {
		if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(asking("a", "n1", "blue,l3,late"))
	w.eventually("the default network's port", func() bool { return slices.Equal(w.ports(), []string{"d_a"}) })
	w.eventually("an Event", func() bool {
		events, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Reason == "NetworkNotFound" && strings.Contains(e.Note, "NetworkAttachmentDefinition d/late does not exist")
		})
	})
	w.putNAD("blue", `"name":"blue","topology":"layer2","subnets":"10.7.0.0/24"`)
	w.putNAD("l3", `"name":"l3","topology":"layer3","subnets":"10.8.0.0/16"`)
	w.wantFurther("blue_ovn_layer2_switch", "d.blue_d_a", "d.l3_d_a", "l3_n1", "l3_n2", "l3_ovn_cluster_router", "stor-l3_n1", "stor-l3_n2")
	create(asking("b", "n2", "blue,blue"))
	w.putNAD("late", `"name":"late","topology":"localnet"`)
	all := []string{
		"blue_ovn_layer2_switch", "d.blue.1_d_b", "d.blue_d_a", "d.blue_d_b", "d.l3_d_a", "d.late_d_a", "l3_n1", "l3_n2", "l3_ovn_cluster_router",
		"late_ovn_localnet_port", "late_ovn_localnet_switch", "stor-l3_n1", "stor-l3_n2",
	}
	w.wantFurther(all...)
	before := w.server.Dump("Logical_Switch_Port", "_uuid", "name", "addresses")
	w.stop()
	w.startAndLead()
	w.eventually("the resync", func() bool { return dirtyKeys(t, w.registry) == 0 })
	if after := w.server.Dump("Logical_Switch_Port", "_uuid", "name", "addresses"); after != before {
		t.Errorf("a restart changes ports:\n%s\n%s", before, after)
	}
	if err := w.client.CoreV1().Pods("d").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.dropNAD("l3")
	w.wantFurther("blue_ovn_layer2_switch", "d.blue_d_a", "d.late_d_a", "late_ovn_localnet_port", "late_ovn_localnet_switch")
	w.eventually("nodes without subnets of the network that is gone", func() bool {
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		return err == nil && !strings.Contains(node.Annotations[contract.NodeSubnetsKey], "l3")
	})
	w.dropNAD("blue")
	w.dropNAD("late")
	w.wantFurther()
	if got := w.ports(); !slices.Equal(got, []string{"d_a"}) {
		t.Errorf("ports of the default network: %v", got)
	}
}

// TestClaims_KeepTheirAddress: a claim's pods have one address after the other. The address of a deleted claim is free.
func TestClaims_KeepTheirAddress(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"))
	w.native = true
	w.startAndLead()
	w.putNAD("blue", `"name":"blue","topology":"layer2","subnets":"10.7.0.0/24","allowPersistentIPs":true`)
	claims := w.policies.Resource(kube.IPAMClaims()).Namespace("d")
	if _, err := claims.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1alpha1", "kind": "IPAMClaim", "metadata": map[string]any{"namespace": "d", "name": "vm", "uid": "vm"},
		"spec": map[string]any{"network": "blue", "interface": "net1"},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := w.client.CoreV1().Pods("d")
	addressOf := func(name, networks string) (address string) {
		t.Helper()
		if _, err := pods.Create(t.Context(), asking(name, "n1", networks), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually("an address of "+name, func() bool {
			pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], "d/blue")
			if err != nil || network == nil || !strings.Contains(pod.Annotations[contract.NetworkStatusKey], network.Addresses[0].Addr().String()) {
				return false
			}
			address = network.Addresses[0].String()
			return true
		})
		return address
	}
	const ofClaim = `[{"name":"blue","ipam-claim-reference":"vm"}]`
	first := addressOf("vm-1", ofClaim)
	drop := func(name, port string) {
		t.Helper()
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually("no port of "+name, func() bool { return !slices.Contains(w.furtherRows(), port) })
	}
	drop("vm-1", "d.blue_d_vm-1")
	if other := addressOf("other", "blue"); other == first {
		t.Errorf("another pod has the address %s of the claim", other)
	}
	if second := addressOf("vm-2", ofClaim); second != first {
		t.Errorf("the claim's second pod has %s, the first had %s", second, first)
	}
	drop("vm-2", "d.blue_d_vm-2")
	if err := claims.Delete(t.Context(), "vm", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := addressOf("heir", `[{"name":"blue","ips":["`+strings.TrimSuffix(first, "/24")+`"]}]`); got != first {
		t.Errorf("the address of the deleted claim: %s, want %s", got, first)
	}
}

// TestClaims_SayWhyTheyHaveNoAddress: the condition of a claim without addresses has a reason that its clients know, and
// becomes True with the addresses. A claim that has addresses keeps its condition.
func TestClaims_SayWhyTheyHaveNoAddress(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"))
	w.startAndLead()
	w.putNAD("blue", `"name":"blue","topology":"layer2","subnets":"10.7.0.0/30","allowPersistentIPs":true`)
	claims, pods := w.policies.Resource(kube.IPAMClaims()).Namespace("d"), w.client.CoreV1().Pods("d")
	ask := func(pod, networks string) {
		t.Helper()
		if _, err := pods.Create(t.Context(), asking(pod, "n1", networks), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(name, network, networks string) {
		t.Helper()
		if _, err := claims.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "k8s.cni.cncf.io/v1alpha1", "kind": "IPAMClaim", "metadata": map[string]any{"namespace": "d", "name": name, "uid": name},
			"spec": map[string]any{"network": network, "interface": "net1"},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		ask("of-"+name, networks)
	}
	condition := func(name, want string) {
		t.Helper()
		w.eventually(name+" has "+want, func() bool {
			var got string
			for _, action := range w.policies.(interface{ Actions() []clienttesting.Action }).Actions() {
				patch, ok := action.(clienttesting.PatchAction)
				if !ok || patch.GetName() != name {
					continue
				}
				var object unstructured.Unstructured
				if err := json.Unmarshal(patch.GetPatch(), &object.Object); err != nil {
					t.Fatal(err)
				}
				for _, c := range conditionsOf(&object) { // the fake applies no patch
					got = fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason)
				}
			}
			return got == want
		})
	}
	claim("first", "blue", `[{"name":"blue","ipam-claim-reference":"first"}]`)
	condition("first", "IPsAllocated True SuccessfulAllocation")
	claim("thief", "blue", `[{"name":"blue","ips":["10.7.0.1"],"ipam-claim-reference":"thief"}]`)
	condition("thief", "IPsAllocated False IPAddressConflict")
	claim("twin", "blue", `[{"name":"blue","mac":"0a:58:0a:07:00:01","ipam-claim-reference":"twin"}]`)
	condition("twin", "IPsAllocated False MACAddressConflict")
	ask("last", "blue")
	claim("late", "blue", `[{"name":"blue","ipam-claim-reference":"late"}]`)
	condition("late", "IPsAllocated False SubnetExhausted")
	claim("wrong", "red", `[{"name":"blue","ipam-claim-reference":"wrong"}]`)
	condition("wrong", "IPsAllocated False InternalError")
	claim("nowhere", "red", `[{"name":"red","ipam-claim-reference":"nowhere"}]`)
	condition("nowhere", "IPsAllocated False InternalError")
	if err := pods.Delete(t.Context(), "of-twin", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "last", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	condition("late", "IPsAllocated True SuccessfulAllocation")
	condition("first", "IPsAllocated True SuccessfulAllocation")
}

// TestPhysicalNetworks_SayWhoMayUseThem: without a PhysicalNetwork all may; with one, a namespace needs its labels and
// its VLAN, and a change is followed.
func TestPhysicalNetworks_SayWhoMayUseThem(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d", Labels: map[string]string{"team": "red"}}}
	w := wholeWorld(t, nil, testNode("n1"), namespace)
	w.startAndLead()
	physical := w.policies.Resource(v1alpha1.PhysicalNetworks())
	grant := func(team, vlans string) {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.Version, "kind": "PhysicalNetwork", "metadata": map[string]any{"name": "phys"},
			"spec": map[string]any{"namespaces": []any{map[string]any{
				"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": team}}, "vlans": []any{vlans},
			}}},
		}}
		_, err := physical.Update(t.Context(), object, metav1.UpdateOptions{}) // without the object for a moment, all may
		if apierrors.IsNotFound(err) {
			_, err = physical.Create(t.Context(), object, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	reported := func(text string) bool {
		events, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Reason == "InvalidConfig" && strings.Contains(e.Note, text)
		})
	}
	grant("blue", "1-4094")
	w.putNAD("v7", `"name":"v7","topology":"localnet","physicalNetworkName":"phys","vlanID":7`)
	w.eventually("an Event of the NAD", func() bool { return reported("PhysicalNetwork phys does not let namespace d use VLAN 7") })
	if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), asking("a", "n1", "v7"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantFurther("v7_ovn_localnet_port", "v7_ovn_localnet_switch")
	grant("red", "8-9")
	w.eventually("the default port", func() bool { return slices.Equal(w.ports(), []string{"d_a"}) })
	grant("red", "7-9")
	w.wantFurther("d.v7_d_a", "v7_ovn_localnet_port", "v7_ovn_localnet_switch")
}

// TestNetworks_PrimaryIsForLabelledNamespaces: a pod of a labelled namespace waits for the primary network, and has it beside
// the default one. In a namespace without the label pods stay on the default network.
func TestNetworks_PrimaryIsForLabelledNamespaces(t *testing.T) {
	const primary = `"name":"l3","role":"primary","topology":"layer3","subnets":"10.8.0.0/16"`
	for _, labelled := range []bool{true, false} {
		t.Run(fmt.Sprint(labelled), func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d", Labels: map[string]string{}}}
			if labelled {
				namespace.Labels[contract.PrimaryNetworkLabel] = ""
			}
			w := wholeWorld(t, nil, testNode("n1"), namespace, testPod("a", "n1"))
			w.startAndLead()
			event := func(reason, note string) {
				t.Helper()
				w.eventually("the Event "+reason, func() bool {
					events, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
					return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == reason && strings.Contains(e.Note, note) })
				})
			}
			if labelled {
				event("NetworkNotFound", "namespace d has the label k8s.ovn.org/primary-user-defined-network, but no primary network")
			}
			w.putNAD("main", primary)
			want := []string{"l3_n1", "l3_ovn_cluster_router", "stor-l3_n1"}
			role := string(contract.RolePrimary)
			if labelled {
				want, role = append([]string{"d.main_d_a"}, want...), string(contract.RoleLocked)
			} else {
				event("InvalidConfig", "namespace d does not have the label")
			}
			w.wantFurther(want...)
			w.eventually("the default network's role "+role, func() bool { return strings.Contains(w.annotation("a"), `"role":"`+role+`"`) })
			w.putNAD("second", strings.Replace(primary, `"l3"`, `"other"`, 1))
			event("InvalidConfig", "namespace d has a primary network already, by NetworkAttachmentDefinition d/main")
		})
	}
}

// TestPrimaryNetworks_NodePortsGoToTheNextOldest: of two networks with one subnet the older has node ports, and the younger
// gets them when the older goes.
func TestPrimaryNetworks_NodePortsGoToTheNextOldest(t *testing.T) {
	objects := []runtime.Object{gatewayNode("n1", 2)}
	for i := range 2 {
		namespace := fmt.Sprint("tenant-", i)
		web, slice := testService("web", fmt.Sprint("10.96.0.", 10+i)), testSlice("web", "n1")
		web.Namespace, slice.Namespace = namespace, namespace
		web.Spec.Type, web.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(30080+i)
		objects = append(objects, web, slice, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{contract.PrimaryNetworkLabel: ""},
		}})
	}
	w := wholeWorld(t, nil, objects...)
	w.startAndLead()
	balanced := func() (services []string) {
		for line := range strings.Lines(w.server.Dump("Load_Balancer", "name")) {
			if strings.Contains(line, "_node_router_template") {
				services = append(services, strings.Trim(strings.Split(line, "/")[0], `"`))
			}
		}
		return services
	}
	routes := func() int {
		return strings.Count(w.server.Dump("Logical_Router_Policy", "match"), "ip4.dst == {10.8.0.0/16} && ct.trk && !ct.rpl")
	}
	w.putPrimary(0)
	w.putPrimary(1)
	const older, younger = "Service_tenant-0", "Service_tenant-1"
	w.eventually("node ports of the older network alone", func() bool { return slices.Equal(balanced(), []string{older}) && routes() == 1 })
	if err := w.policies.Resource(kube.NADs()).Namespace("tenant-0").Delete(t.Context(), "main", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("node ports of the younger network", func() bool { return slices.Equal(balanced(), []string{younger}) && routes() == 1 })
}

// TestPrimaryNetworks_PodsAskForAddresses: a pod has the address and the MAC that it asks for. One that asks for another pod's
// address, for one outside the subnets or of another network gets none, and one that asks for nothing a free one.
func TestPrimaryNetworks_PodsAskForAddresses(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "d", Labels: map[string]string{contract.PrimaryNetworkLabel: ""},
	}})
	w.startAndLead()
	w.putNAD("main", `"name":"main","role":"primary","topology":"layer2","subnets":"10.8.0.0/24"`)
	w.eventually("the network", func() bool {
		return strings.Contains(w.server.Dump("Logical_Switch", "name"), "main_ovn_layer2_switch")
	})
	put := func(name, asked string) {
		t.Helper()
		pod := testPod(name, "n1")
		if asked != "" {
			pod.Annotations = map[string]string{contract.DefaultNetworkKey: asked}
		}
		if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put("a", `[{"name":"default","namespace":"ovn-kubernetes","ips":["10.8.0.77/24"],"mac":"02:00:00:00:00:77"}]`)
	w.eventually("what the pod asks for", func() bool {
		has := w.annotation("a")
		return strings.Contains(has, `"10.8.0.77/24"`) && strings.Contains(has, `"02:00:00:00:00:77"`)
	})
	put("taken", `[{"name":"default","namespace":"ovn-kubernetes","ips":["10.8.0.77/24"]}]`)
	put("outside", `[{"name":"default","namespace":"ovn-kubernetes","ips":["10.9.0.5/24"]}]`)
	put("twice", `[{"name":"default","namespace":"ovn-kubernetes","ips":["10.8.0.5","10.8.0.6"]}]`)
	put("other", `[{"name":"other","namespace":"d","ips":["10.8.0.5"]}]`)
	put("free", "")
	w.eventually("a free address", func() bool { return strings.Contains(w.annotation("free"), `"d/main"`) })
	for _, name := range []string{"taken", "outside", "twice", "other"} {
		w.eventually("an Event of pod "+name, func() bool {
			events, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Regarding.Name == name && e.Type == corev1.EventTypeWarning })
		})
		if has := w.annotation(name); strings.Contains(has, `"d/main"`) {
			t.Errorf("pod %s has %s", name, has)
		}
	}
}

// TestQuota_PodWaitsUntilAnotherGoes: a pod beyond the quota of its namespace says so in an Event, and is attached when another
// pod is gone, when an older one no longer waits, or when the quota changes. A value that is no number attaches none.
func TestQuota_PodWaitsUntilAnotherGoes(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d", Annotations: map[string]string{contract.MaxAttachmentsKey: "1"}}}
	w := wholeWorld(t, nil, testNode("n1"), namespace)
	w.startAndLead()
	w.putNAD("blue", `"name":"blue","topology":"layer2"`)
	pods := w.client.CoreV1().Pods("d")
	create := func(pod *corev1.Pod) {
		t.Helper()
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(name string) {
		t.Helper()
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	event := func(name, note string) {
		t.Helper()
		w.eventually("an Event of "+name, func() bool {
			events, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
				return e.Reason == "AttachmentQuotaExceeded" && e.Regarding.Name == name && strings.Contains(e.Note, note)
			})
		})
	}
	const network = "blue_ovn_layer2_switch"
	create(asking("a", "n1", "blue"))
	w.wantFurther(network, "d.blue_d_a")
	create(asking("b", "n1", "blue"))
	event("b", "the pod needs 1 attachments to networks, and fewer are left of the 1 that namespace d may have")
	create(asking("c", "n1", "blue"))
	event("c", "the pod needs 1")
	w.eventually("all ports of the default network", func() bool { return slices.Equal(w.ports(), []string{"d_a", "d_b", "d_c"}) })
	w.wantFurther(network, "d.blue_d_a")
	drop("a")
	w.wantFurther(network, "d.blue_d_b")
	quota := func(value string) {
		t.Helper()
		namespace.Annotations[contract.MaxAttachmentsKey] = value
		if _, err := w.client.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	quota("two")
	create(asking("d", "n1", "blue"))
	event("d", "") // the text is that of the first judgement, which may not have seen the new value
	w.wantFurther(network, "d.blue_d_b")
	drop("d")
	quota("2")
	w.wantFurther(network, "d.blue_d_b", "d.blue_d_c")
	create(asking("e", "n1", "blue,blue"))
	event("e", "the pod needs 2")
	create(asking("f", "n1", "blue"))
	event("f", "the pod needs 1")
	drop("b")
	w.wantFurther(network, "d.blue_d_c")
	drop("e")
	w.wantFurther(network, "d.blue_d_c", "d.blue_d_f")
}

// TestNetworks_GatewayComesAndGoes: the links of a secondary network follow its annotation, and so does a service on it,
// which is there before the network. Its pod's addresses come in any order. Without the gateway it is served nowhere.
func TestNetworks_GatewayComesAndGoes(t *testing.T) {
	w := wholeWorld(t, nil, gatewayNode("n1", 2))
	w.startAndLead()
	service := testService("web", "10.96.0.9")
	service.Annotations = map[string]string{contract.ServiceNetworkKey: "blue"}
	if _, err := w.client.CoreV1().Services("d").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.DiscoveryV1().EndpointSlices("d").Create(t.Context(), testSlice("web", "n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := w.client.CoreV1().Pods("d")
	pod := asking("a", "n1", "blue")
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.putNAD("blue", `"name":"exits","topology":"layer2","subnets":"10.7.0.0/24"`)
	w.wantFurther("d.blue_d_a", "exits_ovn_layer2_switch", "stor-exits_ovn_layer2_switch")
	w.eventually("the link", func() bool { return strings.Contains(w.server.Dump("Logical_Router_Port", "name"), "rtot-exits/n1") })
	w.eventually("the address of no pod", func() bool { return w.has("10.96.0.9:80") && w.has("10.244.1.10:8080") })
	pod, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.1.10"}}
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the pod's address on the network", func() bool { return w.has("10.7.0.3:8080") && !w.has("10.244.1.10:8080") })
	w.putNAD("blue", `"name":"plain","topology":"layer2","subnets":"10.7.0.0/24"`)
	w.wantFurther("plain_ovn_layer2_switch") // the pod's network is gone
	w.eventually("no link and no load balancer", func() bool {
		return !w.has("10.96.0.9:80") && !strings.Contains(w.server.Dump("Logical_Router_Port", "name"), "rtot-exits")
	})
}

// TestSecondaryOnly_LeavesDefaultNetworkOut: a pod has its port on a further network, and no rows of the default network are
// there, nor its part of the annotations and of the Node's conditions. A primary network is refused.
func TestSecondaryOnly_LeavesDefaultNetworkOut(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Port: 80}}}}
	w := wholeWorld(t, nil, testNode("n1"), service, asking("a", "n1", "blue,l3"))
	w.secondaryOnly = true
	w.startAndLead()
	w.putNAD("blue", `"name":"blue","topology":"layer2","subnets":"10.7.0.0/24"`)
	w.putNAD("l3", `"name":"l3","topology":"layer3","subnets":"10.8.0.0/16/24"`)
	w.putNAD("red", `"name":"red","topology":"layer2","role":"primary","subnets":"10.9.0.0/24"`)
	w.wantFurther("blue_ovn_layer2_switch", "d.blue_d_a", "d.l3_d_a", "l3_n1", "l3_ovn_cluster_router", "stor-l3_n1")
	w.eventually("the Event of the primary network", func() bool {
		events, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Reason == "InvalidConfig" && strings.Contains(e.Note, "role primary needs the default network")
		})
	})
	for table, name := range map[string]string{"Logical_Switch": "n1", "Load_Balancer": "d/web", "Logical_Router": "GR_n1"} {
		if names := strings.Fields(w.server.Dump(table, "name")); slices.Contains(names, name) {
			t.Errorf("%s: %v", table, names)
		}
	}
	pod, err := w.client.CoreV1().Pods("d").Get(t.Context(), "a", metav1.GetOptions{})
	if networks := contract.NetworkKeys(pod.Annotations[contract.PodNetworksKey]); err != nil || slices.Contains(networks, contract.DefaultNetwork) || len(networks) != 2 {
		t.Errorf("networks of the pod: %v, %v", networks, err)
	}
	node, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil || len(node.Status.Conditions) > 0 || slices.Contains(contract.NetworkKeys(node.Annotations[contract.NodeSubnetsKey]), contract.DefaultNetwork) {
		t.Errorf("node: %v, %v, %v", node.Annotations, node.Status.Conditions, err)
	}
}

// TestNetworks_PodTakesTheAddressOfAnEarlierPod: a pod takes the place of one of its name, and asks for the same address on
// another node. No step between them shows that the earlier one is gone.
func TestNetworks_PodTakesTheAddressOfAnEarlierPod(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"), testNode("n2"))
	w.startAndLead()
	pods := w.client.CoreV1().Pods("d")
	put := func(uid, node string) {
		t.Helper()
		pod := asking("db-0", node, `[{"name":"blue","ips":["10.7.0.9"]}]`)
		pod.UID = types.UID(uid)
		_ = pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{})
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	hasPort := func(uid string) {
		t.Helper()
		w.eventually("the port of "+uid, func() bool { return w.hasRow("Pod/d/db-0@d/blue", "10.7.0.9", "iface-id-ver="+uid) })
	}
	w.putNAD("blue", `"name":"blue","topology":"layer2","subnets":"10.7.0.0/24"`)
	put("first", "n1")
	hasPort("first")
	w.stop()
	put("second", "n2")
	w.startAndLead()
	hasPort("second")
}

// TestDefaultNAD_IsThereForMultus: the NAD that annotations name for the default network is there, also after it was deleted,
// unless agents make all interfaces.
func TestDefaultNAD_IsThereForMultus(t *testing.T) {
	for _, native := range []bool{false, true} {
		w := wholeWorld(t, nil, testNode("n1"))
		w.native = native
		w.startAndLead()
		nads := w.policies.Resource(kube.NADs()).Namespace("ovn-kubernetes")
		is := func() bool {
			nad, err := nads.Get(t.Context(), "default", metav1.GetOptions{})
			return err == nil && strings.Contains(fmt.Sprint(nad.Object["spec"]), `"type":"ovn-k8s-cni-overlay"`)
		}
		if native {
			w.putNAD("blue", `"name":"blue","topology":"layer2"`)
			w.eventually("another NAD's rows", func() bool { return strings.Contains(w.server.Dump("Logical_Switch", "name"), "blue") })
			if is() {
				t.Error("the NAD is there without Multus")
			}
			w.stop()
			continue
		}
		w.eventually("the NAD", is)
		if err := nads.Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually("the NAD again", is)
		w.stop()
	}
}
