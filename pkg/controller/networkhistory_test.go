package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestNetworks_RandomHistoryEndsAsFreshController: NADs, the pods that ask for them and MultiNetworkPolicies come, change and
// go while controller and database restart, and so do services and pods of primary networks. Whenever that stops, the rows
// are those of a fresh controller. A network's subnets are always the same, for an address outside of them belongs to the
// pod as long as there is a row.
func TestNetworks_RandomHistoryEndsAsFreshController(t *testing.T) {
	seed := tier.Seed(t)
	for _, topology := range []contract.Topology{"", contract.Layer3, contract.Layer2} {
		t.Run("primary"+string(topology), func(t *testing.T) {
			t.Parallel()
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}
			if topology != "" {
				namespace.Labels = map[string]string{contract.PrimaryNetworkLabel: ""}
			}
			w := wholeWorld(t, nil, gatewayNode("n1", 2), gatewayNode("n2", 3), namespace)
			w.startAndLead()
			(&networkHistory{history{w, rand.New(rand.NewPCG(seed, 1))}, topology}).run(t)
		})
	}
}

// networkHistory changes networks at random, and the primary network of that topology, "" for none.
type networkHistory struct {
	history
	primary contract.Topology
}

func (h *networkHistory) run(t *testing.T) {
	ports, policies, services := false, h.primary != "", h.primary == ""
	for stop := range 4 {
		h.steps(8)
		switch stop {
		case 1: // changes while no controller runs
			h.stop()
			h.steps(4)
			h.startAndLead()
		case 2:
			h.server.Restart()
		case 3:
			h.server.Kill()
			h.steps(4)
			h.server.Restart()
		}
		h.steps(12)
		h.completes()
		h.rests()
		ports = ports || h.hasRow("@d/n")
		policies = policies || h.hasRow(contract.KindMultiNetworkPolicy+"/")
		services = services || h.hasRow("Load_Balancer ", "k8s.ovn.org/network=main")
		fresh := wholeWorld(t, nil, h.objects()...)
		h.copyFurther(fresh)
		fresh.start()
		h.endsAs(fresh)
		fresh.stop()
		fresh.server.Kill()
	}
	if !ports || !policies || !services {
		t.Errorf("ports on further networks at some stop: %t, policies: %t, services: %t; this showed less than it should", ports, policies, services)
	}
}

// completes makes what is missing, and rows of each kind. A pod that waits for one of its networks keeps what it has on the others, and gets nothing
// from a fresh controller.
func (h *networkHistory) completes() {
	for number := range 4 {
		h.setNAD(fmt.Sprint("n", number), randomNetwork(h.r, number))
	}
	if h.primary == "" {
		h.gone(h.policies.Resource(kube.MultiNetworkPolicies()).Namespace("d").Delete(h.ctx(), "mn1", metav1.DeleteOptions{}))
		h.putMultiPolicy("mn1", "n1")
		return
	}
	h.putMain()
	put(&h.history, h.client.CoreV1().Services("d"), testService("end", "10.96.0.9"))
	h.keepSlices()
}

func (h *networkHistory) steps(n int) {
	for range n {
		if h.primary != "" && often(h.r, 2) {
			h.primaryStep()
		} else {
			h.networkStep()
		}
		time.Sleep(time.Duration(h.r.IntN(4)) * time.Millisecond)
	}
}

// primaryStep changes the primary network or a service on it.
func (h *networkHistory) primaryStep() {
	name := fmt.Sprint("o", h.r.IntN(3))
	pick(h.r, []func(){
		h.putMain,
		func() {
			if h.primary != contract.Layer3 { // as in setNAD
				h.gone(h.policies.Resource(kube.NADs()).Namespace("d").Delete(h.ctx(), "main", metav1.DeleteOptions{}))
			}
		},
		func() { h.putService(name) },
		func() { h.gone(h.client.CoreV1().Services("d").Delete(h.ctx(), name, metav1.DeleteOptions{})) },
		func() { h.putSlice(h.podSlice(name)) },
		func() { h.putSlice(h.podSlice(name)) },
		func() {
			h.gone(h.client.DiscoveryV1().EndpointSlices("d").Delete(h.ctx(), name, metav1.DeleteOptions{}))
		},
	})()
}

func (h *networkHistory) putMain() {
	h.setNAD("main", fmt.Sprintf(`"name":"main","role":"primary","topology":"%s","subnets":"10.8.0.0/16","mtu":%d`, h.primary, 1300+h.r.IntN(2)))
}

// podSlice has the pods that have an address by now.
func (h *networkHistory) podSlice(service string) *discoveryv1.EndpointSlice {
	slice := testSlice(service)
	pods, err := h.client.CoreV1().Pods("d").List(h.ctx(), metav1.ListOptions{})
	h.done(err)
	for _, pod := range pods.Items {
		value, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
		if err != nil || value == nil || often(h.r, 3) {
			continue
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{value.Addresses[0].Addr().String()}, NodeName: &pod.Spec.NodeName, Conditions: randomConditions(h.r),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "d", Name: pod.Name, UID: pod.UID},
		})
	}
	return slice
}

// rests waits until rows and addresses are the same for longer than the controller waits before it tries again.
func (h *history) rests() {
	seen := func() []string {
		all := h.rows()
		pods, err := h.client.CoreV1().Pods("").List(h.ctx(), metav1.ListOptions{})
		h.done(err)
		for _, pod := range pods.Items {
			all = append(all, pod.Name+" "+pod.Annotations[contract.PodNetworksKey])
		}
		return all
	}
	last, since := seen(), time.Now()
	h.eventually("rest", func() bool {
		if now := seen(); !slices.Equal(now, last) || !h.settled() {
			last, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
}

// copyFurther gives another world the NADs and MultiNetworkPolicies of this one.
func (h *history) copyFurther(to *world) {
	for _, kind := range []schema.GroupVersionResource{kube.NADs(), kube.MultiNetworkPolicies()} {
		list, err := h.policies.Resource(kind).Namespace("d").List(h.ctx(), metav1.ListOptions{})
		h.done(err)
		for i := range list.Items {
			_, err := to.policies.Resource(kind).Namespace("d").Create(h.ctx(), &list.Items[i], metav1.CreateOptions{})
			h.done(err)
		}
	}
}

// networkStep changes one object.
func (h *history) networkStep() {
	number := h.r.IntN(4)
	network, pod := fmt.Sprint("n", number), h.r.IntN(6)
	deleted := func(kind schema.GroupVersionResource, name string) {
		h.gone(h.policies.Resource(kind).Namespace("d").Delete(h.ctx(), name, metav1.DeleteOptions{}))
	}
	pick(h.r, []func(){
		func() { h.setNAD(network, randomNetwork(h.r, number)) },
		func() { h.setNAD(network, randomNetwork(h.r, number)) },
		func() {
			if number > 0 { // as in setNAD
				deleted(kube.NADs(), network)
			}
		},
		func() { h.putAsking(pod) },
		func() { h.putAsking(pod) },
		func() { h.putAsking(pod) },
		func() {
			h.gone(h.client.CoreV1().Pods("d").Delete(h.ctx(), fmt.Sprint("p", pod), metav1.DeleteOptions{}))
		},
		func() {
			deleted(kube.MultiNetworkPolicies(), "m"+network)
			h.putMultiPolicy("m"+network, network)
		},
		func() { deleted(kube.MultiNetworkPolicies(), "m"+network) },
	})()
}

// setNAD changes a NAD in place, or makes it: nodes may get other subnets of a layer3 network that is made again.
func (h *history) setNAD(name, fields string) {
	nads := h.policies.Resource(kube.NADs()).Namespace("d")
	there, err := nads.Get(h.ctx(), name, metav1.GetOptions{})
	if err != nil {
		h.putNAD(name, fields)
		return
	}
	h.done(unstructured.SetNestedField(there.Object, nadConfig(name, fields), "spec", "config"))
	_, err = nads.Update(h.ctx(), there, metav1.UpdateOptions{})
	h.done(err)
}

func (h *history) putMultiPolicy(name, network string) {
	peer := map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": pick(h.r, []string{"p0", "p1", "p2"})}}}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": contract.KindMultiNetworkPolicy,
		"metadata": map[string]any{
			"namespace": "d", "name": name, "uid": fmt.Sprint(h.r.Uint64()), "annotations": map[string]any{contract.PolicyForKey: network},
		},
		"spec": map[string]any{"podSelector": map[string]any{}, "ingress": []any{map[string]any{"from": []any{peer}}}},
	}}
	_, err := h.policies.Resource(kube.MultiNetworkPolicies()).Namespace("d").Create(h.ctx(), object, metav1.CreateOptions{})
	h.done(err)
}

// randomNetwork is the configuration of the network of that number.
func randomNetwork(r *rand.Rand, number int) string {
	mtu := 1300 + r.IntN(2)
	return []string{
		fmt.Sprintf(`"name":"n0","topology":"layer3","subnets":"10.80.0.0/16/24","mtu":%d`, mtu),
		fmt.Sprintf(`"name":"n1","topology":"layer2","subnets":"10.81.0.0/24","mtu":%d`, mtu),
		fmt.Sprintf(`"name":"n2","topology":"localnet","physicalNetworkName":"physnet","vlanID":%d,"subnets":"10.82.0.0/28,10.92.0.0/28"`, 5+r.IntN(3)),
		fmt.Sprintf(`"name":"n3","topology":"layer2","mtu":%d`, mtu),
	}[number]
}

// putAsking makes a pod, perhaps in the place of one, that asks for some networks.
func (h *history) putAsking(number int) {
	pods, name := h.client.CoreV1().Pods("d"), fmt.Sprint("p", number)
	static := fmt.Sprintf(`[{"name":"n2","ips":["10.82.0.%d"]}]`, 8+number)
	pod := asking(name, pick(h.r, []string{"n1", "n2"}), pick(h.r, []string{"n0", "n1,n2", "n3,n3", static, "n0,n1,n2,n3", ""}))
	pod.Labels, pod.UID = map[string]string{"app": name}, types.UID(fmt.Sprint(h.r.Uint64()))
	if often(h.r, 3) {
		pod.Status.Phase = corev1.PodPending
	}
	h.gone(pods.Delete(h.ctx(), name, metav1.DeleteOptions{}))
	_, err := pods.Create(h.ctx(), pod, metav1.CreateOptions{})
	h.done(err)
}
