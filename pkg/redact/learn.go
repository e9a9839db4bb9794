package redact

import (
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// kinds are the words before the pseudonyms of the objects of resources. Others, such as Leases, have the names of these.
func kinds() map[snapshot.Resource]string {
	return map[snapshot.Resource]string{
		snapshot.Namespaces: "ns", snapshot.Nodes: "node", snapshot.Pods: "pod", snapshot.Services: "svc", snapshot.NetworkPolicies: "netpol",
		snapshot.AdminNetworkPolicies: "anp", snapshot.BaselineAdminNetworkPolicies: "banp", snapshot.ClusterNetworkPolicies: "cnp",
		snapshot.MultiNetworkPolicies: "multi-policy", snapshot.OffloadPolicies: "policy", snapshot.PhysicalNetworks: "physnet", snapshot.NodeOffloads: "node",
	}
}

// learn finds the names of a snapshot.
func (r *Redactor) learn(s *snapshot.Snapshot) {
	for _, resource := range snapshot.All() {
		kind, ok := kinds()[resource]
		if !ok {
			continue
		}
		for _, o := range s.Shared(resource) {
			u := unstructured.Unstructured{Object: o.Fields()}
			r.add("ns", u.GetNamespace())
			if r.kept[u.GetNamespace()] {
				continue
			}
			r.add(kind, u.GetName())
			r.learnFields(resource, &u)
		}
	}
}

// learnFields finds names within an object.
func (r *Redactor) learnFields(resource snapshot.Resource, u *unstructured.Unstructured) {
	switch resource {
	case snapshot.Nodes:
		addresses, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses")
		for _, a := range addresses {
			if name := text(a, "address"); !isAddress(name) {
				r.add("node", name)
			}
		}
	case snapshot.Services:
		name, _, _ := unstructured.NestedString(u.Object, "spec", "externalName")
		r.add("host", name)
		ingress, _, _ := unstructured.NestedSlice(u.Object, "status", "loadBalancer", "ingress")
		for _, in := range ingress {
			r.add("host", text(in, "hostname"))
		}
	case snapshot.Pods:
		for _, owner := range u.GetOwnerReferences() {
			r.add("owner", owner.Name)
		}
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "containers")
		for _, c := range containers {
			r.add("container", text(c, "name"))
			r.add("image", text(c, "image"))
		}
		for _, network := range contract.Networks(u.GetAnnotations()[contract.PodNetworksKey]) {
			if namespace, name, ok := strings.Cut(network, "/"); ok {
				r.add("ns", namespace)
				r.add("net", name)
			}
		}
	}
}

func text(of any, field string) string {
	fields, _ := of.(map[string]any)
	value, _ := fields[field].(string)
	return value
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}
