// Package selected says of a policy of any kind which pods it selects, where it is in force, and what its decisions cost in
// hardware.
//
// Place in the data flow:
//
//	a name of a user -> Kind.Lists -> snapshot -> Read -> pkg/policy -> Policy -> pkg/answer
//
// It is pure. What a policy says is read by pkg/policy, as the controller does, so that both agree.
package selected

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Kind is a kind of policies.
type Kind struct {
	// Name is the kind of the owners of its rows. Short is how kubectl calls it.
	Name, Short string
	Resource    snapshot.Resource
	Namespaced  bool
}

// Kinds are those of policies.
func Kinds() []Kind {
	return []Kind{
		{contract.KindNetworkPolicy, "netpol", snapshot.NetworkPolicies, true},
		{contract.KindAdminNetworkPolicy, "anp", snapshot.AdminNetworkPolicies, false},
		{contract.KindBaselineAdminNetworkPolicy, "banp", snapshot.BaselineAdminNetworkPolicies, false},
		{contract.KindClusterNetworkPolicy, "cnp", snapshot.ClusterNetworkPolicies, false},
		{contract.KindMultiNetworkPolicy, "multi-policy", snapshot.MultiNetworkPolicies, true},
	}
}

// Named is the kind that a word names: netpol, networkpolicy or the resource networkpolicies.
func Named(word string) (Kind, bool) {
	word = strings.ToLower(word)
	for _, k := range Kinds() {
		stem, ok := strings.CutSuffix(word, "y")
		if word == k.Short || word == strings.ToLower(k.Name) || word == string(k.Resource) || ok && stem+"ies" == string(k.Resource) {
			return k, true
		}
	}
	return Kind{}, false
}

// IsPolicy says whether a kind of owners is one of policies.
func IsPolicy(kind string) bool {
	return slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.Name == kind })
}

// Reference reads "KIND/NAME" or, of a NetworkPolicy, "NAME". A name may have its namespace before it, and the network of rows
// after it.
func Reference(text string) (Kind, string) {
	text, _, _ = strings.Cut(text, "@")
	if word, name, ok := strings.Cut(text, "/"); ok {
		if k, known := Named(word); known {
			return k, name
		}
	}
	return Kinds()[0], text
}

// Lists have what Read reads of the policy "namespace/name" or "name". system is the namespace of the network's own pods.
func (k Kind) Lists(name, system string) map[snapshot.Resource][]snapshot.Selected {
	if !k.Namespaced {
		return map[snapshot.Resource][]snapshot.Selected{
			k.Resource: {{Fields: "metadata.name=" + name}}, snapshot.Namespaces: {{}}, snapshot.Pods: {{}},
		}
	}
	namespace, short, _ := strings.Cut(name, "/")
	return map[snapshot.Resource][]snapshot.Selected{
		k.Resource: {{Namespace: namespace, Fields: "metadata.name=" + short}}, snapshot.Namespaces: {{Fields: "metadata.name=" + namespace}},
		snapshot.Pods: {{Namespace: namespace}, {Namespace: system}},
	}
}

// Policy is what is known of one.
type Policy struct {
	// Pods are those that it selects, such as pod/shop/web-0; nil where pods or namespaces could not be read.
	Pods []string
	// Networks are the NetworkAttachmentDefinitions that a MultiNetworkPolicy is for.
	Networks []string
	// Problem is what is wrong with the object.
	Problem string
	// Costs say what keeps packets that it decides about out of hardware.
	Costs []string
}

// Read reads the policy "namespace/name" or "name"; nil: the snapshot does not have it.
func Read(s *snapshot.Snapshot, k Kind, name string) (*Policy, error) {
	for _, o := range s.Shared(k.Resource) {
		u := unstructured.Unstructured{Object: o.Fields()}
		if full := strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/"); full != name {
			continue
		}
		out, err := read(s, k, &u)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", k.Name, name, err)
		}
		return out, nil
	}
	return nil, nil
}

func read(s *snapshot.Snapshot, k Kind, object *unstructured.Unstructured) (*Policy, error) {
	out := &Policy{}
	parsed, err := parse(k, object)
	if err != nil {
		return nil, err
	}
	if parsed.Err != nil {
		out.Problem = parsed.Err.Error()
	}
	if k.Name == contract.KindMultiNetworkPolicy {
		if out.Networks, err = contract.ParsePolicyFor(object.GetAnnotations()[contract.PolicyForKey], object.GetNamespace()); err != nil {
			out.Problem = strings.TrimPrefix(out.Problem+"; "+err.Error(), "; ")
		}
	}
	namespaces, err := snapshot.Objects[corev1.Namespace](s, snapshot.Namespaces)
	if err != nil {
		return nil, err
	}
	out.Costs = costs(parsed, namespaces)
	if s.Missing[snapshot.Pods] != "" || !k.Namespaced && s.Missing[snapshot.Namespaces] != "" {
		return out, nil
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	out.Pods = podsOf(parsed.Subject, namespaces, pods, func(pod *corev1.Pod) bool {
		return k.Name != contract.KindMultiNetworkPolicy || isOn(pod, out.Networks)
	})
	return out, err
}

// parse reads what the controller reads. A MultiNetworkPolicy has the form of a NetworkPolicy.
func parse(k Kind, object *unstructured.Unstructured) (*policy.Policy, error) {
	if !k.Namespaced {
		return policy.ParseAdmin(k.Name, object), nil
	}
	np := &networkingv1.NetworkPolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, np)
	return policy.ParseNetworkPolicy(np), err
}

// podsOf are the pods of a selection that are on a network of the policy.
func podsOf(of policy.Selection, namespaces []corev1.Namespace, pods []corev1.Pod, isThere func(*corev1.Pod) bool) []string {
	in := map[string]bool{of.Namespace: true}
	for _, ns := range namespaces {
		in[ns.Name] = ns.Name == of.Namespace || of.Namespace == "" && of.Namespaces.Matches(labels.Set(ns.Labels))
	}
	names := []string{}
	for i := range pods {
		pod := &pods[i]
		if in[pod.Namespace] && !pod.Spec.HostNetwork && of.Pods.Matches(labels.Set(pod.Labels)) && isThere(pod) {
			names = append(names, "pod/"+pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// isOn says whether a pod is on the network of a NetworkAttachmentDefinition.
func isOn(pod *corev1.Pod, nads []string) bool {
	return slices.ContainsFunc(contract.Networks(pod.Annotations[contract.PodNetworksKey]), func(key string) bool { return slices.Contains(nads, key) })
}

// costs says that what a policy lets through is logged: then each packet visits ovn-controller. What is denied is dropped,
// wherever that is.
func costs(p *policy.Policy, namespaces []corev1.Namespace) []string {
	annotation, on := p.Logging, "the policy"
	if p.Tier == policy.TierNetworkPolicy {
		on = "namespace " + p.Owner.Namespace
		for _, ns := range namespaces {
			if ns.Name == p.Owner.Namespace {
				annotation = ns.Annotations[contract.ACLLoggingKey]
			}
		}
	}
	logging, err := contract.ParseACLLogging(annotation)
	if err != nil || logging.Allow == "" || !letsThrough(p.Ingress) && !letsThrough(p.Egress) {
		return nil
	}
	return []string{fmt.Sprintf("what it allows is never in hardware: annotation %s of %s logs it, so that each packet visits ovn-controller", contract.ACLLoggingKey, on)}
}

// letsThrough says whether a direction has a rule that is logged as one that allows.
func letsThrough(d *policy.Direction) bool {
	return d != nil && slices.ContainsFunc(d.Rules, func(r policy.Rule) bool { return r.Action != policy.Deny })
}
