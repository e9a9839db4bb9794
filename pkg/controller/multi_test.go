package controller

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// rowID is the _uuid of a row.
var rowID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// putMulti makes MultiNetworkPolicy d/name, which isolates the ingress of all pods and allows from them.
func (w *world) putMulti(name, policyFor string) {
	w.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"podSelector": map[string]any{},
		"ingress":     []any{map[string]any{"from": []any{map[string]any{"podSelector": map[string]any{}}}}},
	}}}
	object.SetAPIVersion("k8s.cni.cncf.io/v1beta1")
	object.SetKind(contract.KindMultiNetworkPolicy)
	object.SetNamespace("d")
	object.SetName(name)
	object.SetUID("multi")
	object.SetAnnotations(map[string]string{contract.PolicyForKey: policyFor})
	if _, err := w.policies.Resource(kube.MultiNetworkPolicies()).Namespace("d").Create(w.t.Context(), object, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// ofMulti are the port groups of MultiNetworkPolicies by name, each with the number of its ports, and the addresses of
// their sets.
func (w *world) ofMulti() (groups, addresses string) {
	for line := range strings.Lines(w.server.Dump("Port_Group", "ports", "external_ids")) {
		if strings.Contains(line, "MultiNetworkPolicy") {
			groups += fmt.Sprint(len(rowID.FindAllString(line, -1)), " ")
		}
	}
	return groups, w.server.Dump("Address_Set", "addresses")
}

// TestMultiNetworkPolicy_AnyOrder: NAD, policy and pod come in any order; then the port is in the policy's group, the set
// has the address of the network, and all goes with the NAD.
func TestMultiNetworkPolicy_AnyOrder(t *testing.T) {
	for _, order := range []string{"NAD policy pod", "NAD pod policy", "policy NAD pod", "policy pod NAD", "pod NAD policy", "pod policy NAD"} {
		t.Run(order, func(t *testing.T) {
			w := wholeWorld(t, nil, testNode("n1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
			w.startAndLead()
			facts := map[string]func(){
				"NAD":    func() { w.putNAD("blue", `"name":"blue","topology":"layer2","subnets":"10.7.0.0/24"`) },
				"policy": func() { w.putMulti("policy", "blue") },
				"pod": func() {
					if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), asking("a", "n1", "blue"), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				},
			}
			for fact := range strings.FieldsSeq(order) {
				facts[fact]()
				time.Sleep(20 * time.Millisecond) // so that most often the controller sees them one by one
			}
			w.eventually("the port in the group", func() bool {
				groups, addresses := w.ofMulti()
				return groups == "1 " && strings.Contains(addresses, "10.7.0.1")
			})
			w.dropNAD("blue")
			w.eventually("no rows on the network that is gone", func() bool {
				groups, addresses := w.ofMulti()
				return groups == "" && !strings.Contains(addresses, "10.7.0.1")
			})
		})
	}
}

// TestMultiNetworkPolicy_MissingNADHasEvent: the other networks of the policy hold.
func TestMultiNetworkPolicy_MissingNADHasEvent(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"))
	w.startAndLead()
	w.putNAD("blue", `"name":"blue","topology":"layer2"`)
	w.putMulti("policy", "blue,typo")
	w.eventually("an Event", func() bool {
		return w.hasEvent("d", "PolicyForNotFound", "NetworkAttachmentDefinition d/typo does not exist")
	})
	w.eventually("an Event about the selector", func() bool { return w.hasEvent("d", "PartRefused", "network blue has no subnets") })
	w.eventually("the policy on the other network", func() bool { groups, _ := w.ofMulti(); return groups == "0 " })
}
