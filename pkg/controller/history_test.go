package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/contract/served"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
	"github.com/ovn-offload/ovn-offload/test/policytest"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// history changes what the API has at random.
type history struct {
	*world
	r *rand.Rand
}

// wholeWorld has no controller yet, pods of both families, and policies for the
// whole cluster.
func wholeWorld(t testing.TB, policies []runtime.Object, objects ...runtime.Object) *world {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{
		v1alpha1.OffloadPolicies(): "OffloadPolicyList", v1alpha1.NodeOffloads(): "NodeOffloadList", kube.NADs(): contract.KindNAD + "List",
		kube.IPAMClaims(): "IPAMClaimList", kube.MultiNetworkPolicies(): contract.KindMultiNetworkPolicy + "List",
		{Version: "v1", Resource: "namespaces"}: "NamespaceList",
		ovnv1.UserDefinedNetworks():             "UserDefinedNetworkList", ovnv1.ClusterUserDefinedNetworks(): "ClusterUserDefinedNetworkList",
		opnfv.Networks(): "NetworkList", opnfv.ProviderNetworks(): "ProviderNetworkList",
		v1alpha1.PhysicalNetworks(): "PhysicalNetworkList", v1alpha1.NamespaceSubnets(): "NamespaceSubnetList", v1alpha1.PortMirrors(): "PortMirrorList",
		opnfv.NetworkChainings(): "NetworkChainingList",
	}
	for kind, resource := range policy.AdminKinds() {
		lists[resource] = kind + "List"
	}
	for _, kind := range served.RefusedKinds() {
		lists[kind.GroupVersionResource] = kind.Kind + "List"
	}
	if !slices.ContainsFunc(objects, func(o runtime.Object) bool { _, is := o.(*corev1.Namespace); return is }) {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
	}
	w := emptyWorld(t, objects...)
	w.cluster = "10.244.0.0/16/24,fd00:10:244::/48/64"
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, policies...)
	client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.Unstructured{}, nil // the fake cannot apply a status
	})
	w.policies = client
	return w
}

// TestController_RandomHistoryEndsAsFreshController: services, endpoints, policies, pods, a node
// and facts of nodes come, change and go while controller and database restart. Whenever
// that stops, every row of the database is one that a fresh controller writes into an
// empty one. What is random here, beside the moments, is a seed's (-seed).
func TestController_RandomHistoryEndsAsFreshController(t *testing.T) {
	seed := tier.Seed(t)
	w := wholeWorld(t, nil, testNode("n1"), testNode("n2"), testNode("n3"))
	w.startAndLead()
	rowsOf, kinds := map[string]bool{}, []string{
		contract.KindNetwork, contract.KindNode, contract.KindPod, contract.KindService, contract.KindNodeServices, contract.KindNetworkPolicy, contract.KindPodSet,
		contract.KindAdminNetworkPolicy, contract.KindBaselineAdminNetworkPolicy, contract.KindClusterNetworkPolicy,
	}
	h := &history{w, rand.New(rand.NewPCG(seed, 0))}
	// A restart looks at everything, and so does in the end what changes later: each
	// stop is a few changes after it.
	for stop := range 12 {
		h.steps(10)
		switch stop % 4 {
		case 1: // changes while no controller runs
			w.stop()
			h.steps(5)
			w.startAndLead()
		case 2:
			w.server.Restart()
		case 3:
			w.server.Kill()
			h.steps(5)
			w.server.Restart()
		}
		h.oneOfEach()
		h.steps(16)
		for range 4 { // what comes while another change waits is looked at with that
			w.eventually("rest", w.settled)
			h.steps(1)
		}
		h.keepSlices()
		fresh := wholeWorld(t, w.clusterPolicies(), w.objects()...)
		fresh.start()
		w.endsAs(fresh)
		fresh.stop()
		fresh.server.Kill()
		for _, kind := range kinds {
			rowsOf[kind] = rowsOf[kind] || w.hasRow("ovn-offload.io/owner="+kind+"/")
		}
	}
	for _, kind := range kinds {
		if !rowsOf[kind] {
			t.Errorf("no stop with a row of a %s: this showed less than it should", kind)
		}
	}
}

func (h *history) steps(n int) {
	for range n {
		h.step()
		time.Sleep(time.Duration(h.r.IntN(4)) * time.Millisecond)
	}
}

// step changes one object.
func (h *history) step() {
	name := fmt.Sprint("o", h.r.IntN(6))
	changes := []func(){
		func() { h.putService(name) },
		func() { h.putService(name) },
		func() { h.gone(h.client.CoreV1().Services("d").Delete(h.ctx(), name, metav1.DeleteOptions{})) },
		func() { h.putSlice(randomSlice(h.r, name)) },
		func() { h.putSlice(randomSlice(h.r, name)) },
		func() { h.putSlice(randomSlice(h.r, name)) },
		func() {
			h.gone(h.client.DiscoveryV1().EndpointSlices("d").Delete(h.ctx(), randomSlice(h.r, name).Name, metav1.DeleteOptions{}))
		},
		h.comeOrGo,
		h.changeZone,
		h.changeStatus,
		h.changeHost,
		h.changeGateway,
		func() { h.putNamespace(pick(h.r, policytest.Namespaces())) },
		func() { h.putPod(name) },
		func() { h.putPod(name) },
		func() { h.putPod(name) },
		func() {
			h.gone(h.client.CoreV1().Pods(pick(h.r, policytest.Namespaces())).Delete(h.ctx(), name, metav1.DeleteOptions{}))
		},
		func() { h.putPolicy(name) },
		func() {
			h.gone(h.client.NetworkingV1().NetworkPolicies(pick(h.r, policytest.Namespaces())).Delete(h.ctx(), name, metav1.DeleteOptions{}))
		},
		func() { h.putClusterPolicy(randomClusterPolicy(h.r, h.r.IntN(5))) },
		func() {
			object := randomClusterPolicy(h.r, h.r.IntN(5))
			h.gone(h.policies.Resource(policy.AdminKinds()[object.GetKind()]).Delete(h.ctx(), object.GetName(), metav1.DeleteOptions{}))
		},
	}
	pick(h.r, changes)()
}

// oneOfEach is made, so that every kind has rows at some of the stops.
func (h *history) oneOfEach() {
	put(h, h.client.CoreV1().Services("d"), testService("end", "10.96.0.9"))
	h.needNamespace("d")
	put(h, h.client.CoreV1().Pods("d"), testPod("end", "n1"))
	peers := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	object := denyAll("x", "end")
	object.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: peers}}
	put(h, h.client.NetworkingV1().NetworkPolicies("x"), object)
	for _, kind := range slices.Sorted(maps.Keys(policy.AdminKinds())) {
		for object := randomClusterPolicy(h.r, 0); ; object = randomClusterPolicy(h.r, h.r.IntN(5)) {
			if object.GetKind() == kind {
				h.putClusterPolicy(object)
				break
			}
		}
	}
}

// keepSlices does as Kubernetes, in which a service with a selector is never long
// without a slice of each family: what has none to go by keeps the rows that it had.
func (h *history) keepSlices() {
	services, err := h.client.CoreV1().Services("d").List(h.ctx(), metav1.ListOptions{})
	h.done(err)
	there, err := h.client.DiscoveryV1().EndpointSlices("d").List(h.ctx(), metav1.ListOptions{})
	h.done(err)
	for _, service := range services.Items {
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			slice := testSlice(service.Name)
			slice.Name, slice.AddressType = service.Name+"-kept-"+strings.ToLower(string(family)), family
			if len(service.Spec.Selector) > 0 && !slices.ContainsFunc(there.Items, func(s discoveryv1.EndpointSlice) bool {
				return s.AddressType == family && s.Labels[discoveryv1.LabelServiceName] == service.Name
			}) {
				h.putSlice(slice)
			}
		}
	}
}

func (h *history) ctx() context.Context { return h.t.Context() }

// done fails the test for an error that nothing here should have.
func (h *history) done(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// gone takes it that there is nothing to delete.
func (h *history) gone(err error) {
	h.t.Helper()
	if !apierrors.IsNotFound(err) {
		h.done(err)
	}
}

// store is one of client-go's for a kind of object.
type store[T any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

func put[T any](h *history, in store[T], object T) {
	h.t.Helper()
	_, err := in.Update(h.ctx(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = in.Create(h.ctx(), object, metav1.CreateOptions{})
	}
	h.done(err)
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// often is true once in n times.
func often(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

func (h *history) putService(name string) {
	put(h, h.client.CoreV1().Services("d"), randomService(h.r, name))
}

func (h *history) putSlice(slice *discoveryv1.EndpointSlice) {
	put(h, h.client.DiscoveryV1().EndpointSlices("d"), slice)
}

// logging is what a user writes about logs, or nothing.
func logging(r *rand.Rand) map[string]string {
	return pick(r, []map[string]string{nil, {contract.ACLLoggingKey: `{"deny":"alert"}`}, {contract.ACLLoggingKey: `{"deny":"info","allow":"notice"}`}})
}

func randomLabels(r *rand.Rand) map[string]string {
	return map[string]string{"ns": pick(r, policytest.Namespaces()), "pod": pick(r, policytest.PodNames())}
}

func (h *history) putNamespace(name string) {
	put(h, h.client.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: randomLabels(h.r), Annotations: logging(h.r)}})
}

// needNamespace does as Kubernetes, in which a pod has a namespace.
func (h *history) needNamespace(name string) {
	if _, err := h.client.CoreV1().Namespaces().Get(h.ctx(), name, metav1.GetOptions{}); err != nil {
		h.putNamespace(name)
	}
}

func (h *history) putPolicy(name string) {
	policy := policytest.Policy(h.r, name, []networkingv1.IPBlock{
		{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}, {CIDR: "fd00::/16", Except: []string{"fd00:1::/32"}},
	})
	put(h, h.client.NetworkingV1().NetworkPolicies(policy.Namespace), policy)
}

func (h *history) putClusterPolicy(object *unstructured.Unstructured) {
	in := h.policies.Resource(policy.AdminKinds()[object.GetKind()])
	_, err := in.Update(h.ctx(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = in.Create(h.ctx(), object, metav1.CreateOptions{})
	}
	h.done(err)
}

// randomClusterPolicy has rules about nodes too, which policytest does not judge.
func randomClusterPolicy(r *rand.Rand, number int) *unstructured.Unstructured {
	object := policytest.RandomCluster(r, number).Object()
	object.SetAnnotations(logging(r))
	if often(r, 2) {
		rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "egress")
		zone := map[string]any{"matchLabels": map[string]any{corev1.LabelTopologyZone: pick(r, []string{"a", "b"})}}
		rules = append(rules, map[string]any{"action": "Deny", "to": []any{map[string]any{"nodes": zone}}})
		unstructured.SetNestedSlice(object.Object, rules, "spec", "egress")
	}
	return object
}

// putPod makes a pod, or one in the place of a pod, or gives a pod other labels.
// Some have run to their end.
func (h *history) putPod(name string) {
	pod := randomPod(h.r, name)
	h.needNamespace(pod.Namespace)
	pods := h.client.CoreV1().Pods(pod.Namespace)
	again := often(h.r, 3)
	old, err := pods.Get(h.ctx(), name, metav1.GetOptions{})
	switch {
	case err == nil && !again:
		old.Labels, old.Status = pod.Labels, pod.Status
		_, err = pods.Update(h.ctx(), old, metav1.UpdateOptions{})
	case err == nil:
		h.done(pods.Delete(h.ctx(), name, metav1.DeleteOptions{}))
		fallthrough
	default:
		_, err = pods.Create(h.ctx(), pod, metav1.CreateOptions{})
	}
	h.done(err)
}

func randomPod(r *rand.Rand, name string) *corev1.Pod {
	pod := testPod(name, pick(r, []string{"n1", "n2", "n3"}))
	pod.Namespace, pod.Labels, pod.UID = pick(r, policytest.Namespaces()), randomLabels(r), types.UID(fmt.Sprint(r.Uint64()))
	ports := []corev1.ContainerPort{{Name: "serve", ContainerPort: int32(80 + r.IntN(2))}}
	for range r.IntN(3) {
		ports = append(ports, corev1.ContainerPort{
			Name: pick(r, []string{"", "serve-udp"}), ContainerPort: int32(80 + r.IntN(2)), Protocol: pick(r, policytest.Protocols()),
			HostPort: int32(8080 + r.IntN(3)), HostIP: pick(r, []string{"", "", "0.0.0.0", "::", "172.18.0.2", "fc00:18::3"}),
		})
	}
	pod.Spec.Containers = []corev1.Container{{Ports: ports}}
	if often(r, 8) {
		pod.Status.Phase = corev1.PodSucceeded
	}
	return pod
}

// randomService has addresses of one family or both, up to three ports, and all that
// decides who reaches which of its endpoints from where.
func randomService(r *rand.Rand, name string) *corev1.Service {
	own := []string{"10.96.0.1" + name[1:], "fd00:10:96::1" + name[1:]}
	addresses := pick(r, [][]string{own, own, own[:1], own[1:], {own[1], own[0]}, {corev1.ClusterIPNone}})
	service := testService(name, addresses[0])
	service.Spec.ClusterIPs, service.Spec.Ports = addresses, nil
	service.Spec.Type = pick(r, []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer})
	for _, protocol := range policytest.Protocols()[:1+r.IntN(3)] {
		port := corev1.ServicePort{Name: strings.ToLower(string(protocol)), Port: int32(80 + r.IntN(2)), Protocol: protocol}
		if service.Spec.Type != corev1.ServiceTypeClusterIP {
			port.NodePort = int32(30000 + r.IntN(2))
		}
		service.Spec.Ports = append(service.Spec.Ports, port)
	}
	if often(r, 3) {
		service.Spec.Selector = map[string]string{"app": name}
	}
	if often(r, 8) {
		service.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
	}
	if often(r, 2) {
		service.Spec.ExternalIPs = []string{fmt.Sprint("192.0.2.", 1+r.IntN(3)), fmt.Sprint("2001:db8::", 1+r.IntN(3))}
	}
	for range r.IntN(3) {
		ingress := corev1.LoadBalancerIngress{IP: pick(r, []string{"192.0.2.1", "192.0.2.9", "2001:db8::9", ""})}
		if mode := pick(r, []corev1.LoadBalancerIPMode{"", corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy}); mode != "" {
			ingress.IPMode = &mode
		}
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress, ingress)
	}
	if often(r, 3) {
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if policy := corev1.ServiceInternalTrafficPolicyLocal; often(r, 3) {
		service.Spec.InternalTrafficPolicy = &policy
	}
	if timeout := pick(r, []int32{60, 86400}); often(r, 3) {
		service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
	}
	return service
}

// randomSlice is one of two of a service in each family, with endpoints in pods or on
// the network of nodes, in all states that endpoints have.
func randomSlice(r *rand.Rand, service string) *discoveryv1.EndpointSlice {
	nodes := slices.DeleteFunc([]string{"n1", "n2", "n3", "n4"}, func(string) bool { return often(r, 2) })
	slice := testSlice(service, nodes...)
	slice.Ports = nil
	for _, protocol := range policytest.Protocols() {
		if name, number := strings.ToLower(string(protocol)), int32(8080+r.IntN(2)); !often(r, 3) {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol})
		}
	}
	pods, others, hosts := "10.244.%s.%d", "172.19.0.", "172.18.0."
	if often(r, 2) {
		slice.Name, slice.AddressType = service+"-v6", discoveryv1.AddressTypeIPv6
		pods, others, hosts = "fd00:10:244:%s::%d", "fc00:19::", "fc00:18::"
	}
	if often(r, 3) {
		slice.Name += "-more"
	}
	for i := range slice.Endpoints {
		if slice.Endpoints[i].Addresses[0] = fmt.Sprintf(pods, nodes[i][1:], 10+i); often(r, 3) {
			slice.Endpoints[i].Addresses[0] = fmt.Sprint(hosts, 2+r.IntN(4))
		}
		if often(r, 6) {
			slice.Endpoints[i].NodeName = nil
		}
	}
	if often(r, 4) { // so many that a router which has some wants no others
		for i := range 40 {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprint(others, 10+i)}})
		}
	}
	hints := service < "o3" // of a port, all endpoints have some, or they do not count
	for i := range slice.Endpoints {
		slice.Endpoints[i].Conditions = randomConditions(r)
		if hints {
			slice.Endpoints[i].Hints = randomHints(r)
		}
	}
	return slice
}

func randomConditions(r *rand.Rand) discoveryv1.EndpointConditions {
	yes, no := true, false
	either := []*bool{&yes, &no, nil}
	return discoveryv1.EndpointConditions{Ready: pick(r, append(either, &yes, &yes)), Serving: pick(r, either), Terminating: pick(r, either)}
}

func randomHints(r *rand.Rand) *discoveryv1.EndpointHints {
	hints := &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: pick(r, []string{"a", "b"})}}}
	if often(r, 3) {
		hints.ForNodes = []discoveryv1.ForNode{{Name: pick(r, []string{"n1", "n2", "n3"})}}
	}
	return hints
}

// node may be one that is not there.
func (h *history) node() string { return fmt.Sprint("n", 1+h.r.IntN(4)) }

// comeOrGo is of a node on which no pods are: those of one that goes go with it.
func (h *history) comeOrGo() {
	err := h.client.CoreV1().Nodes().Delete(h.ctx(), "n4", metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		_, err = h.client.CoreV1().Nodes().Create(h.ctx(), testNode("n4"), metav1.CreateOptions{})
	}
	h.done(err)
}

func (h *history) changeZone() {
	h.patchNode(h.node(), "", fmt.Sprintf(`"labels":{%q:%s}`, corev1.LabelTopologyZone, pick(h.r, []string{`"a"`, `"b"`, "null"})))
}

// changeStatus gives a node another address for policies.
func (h *history) changeStatus() {
	h.patchNode(h.node(), fmt.Sprintf(`"addresses":[{"type":"InternalIP","address":"172.18.0.%d"}]`, 2+h.r.IntN(4)), "")
}

func (h *history) changeHost() {
	hosts := "[" + strings.Join(h.addresses(), ",") + "]"
	h.patchNode(h.node(), "", fmt.Sprintf(`"annotations":{%q:%q,%q:%q}`, contract.HostCIDRsKey, hosts, contract.NodeMTUKey, pick(h.r, []string{"", "1400", "8900"})))
}

func (h *history) changeGateway() {
	name := h.node()
	config := fmt.Sprintf(`{"default":{"mode":"shared","interface-id":"breth0_%s","mac-address":"02:42:ac:12:00:0%s","ip-addresses":[%s],"next-hops":["172.18.0.1","fc00:18::1"]}}`,
		name, name[1:], strings.Join(h.addresses(), ","))
	h.patchNode(name, "", fmt.Sprintf(`"annotations":{%q:%q}`, contract.GatewayConfigKey, config))
}

// addresses are none, one or two of each family, which other nodes may have as well.
func (h *history) addresses() (all []string) {
	for _, format := range []string{`"172.18.0.%d/16"`, `"fc00:18::%d/64"`} {
		for range h.r.IntN(3) {
			if address := fmt.Sprintf(format, 2+h.r.IntN(4)); !slices.Contains(all, address) {
				all = append(all, address)
			}
		}
	}
	return all
}

func (h *history) patchNode(name, status, metadata string) {
	patch := fmt.Sprintf(`{"metadata":{%s},"status":{%s}}`, metadata, status)
	_, err := h.client.CoreV1().Nodes().Patch(h.ctx(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	h.gone(err)
}
