// Package namespaces decides which NamespaceSubnets are in force, and for which pods.
//
// Place in the data flow: informer (pkg/kube) -> Judge -> addresses (pkg/ipam), rows (pkg/ovn), annotations of Nodes.
package namespaces

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// clusterPurpose names the subnets of pods in a plan.
const clusterPurpose = "cluster"

// Taken are the addresses that no NamespaceSubnet may have.
type Taken struct {
	// Plan are the subnets of the cluster by purpose.
	Plan     map[string][]netip.Prefix
	Services []netip.Prefix
	Nodes    []*corev1.Node
	// Networks are the further networks. Those without a gateway may overlap.
	Networks []contract.Network
}

// Judgement says which NamespaceSubnets are in force, oldest first, and why others are not.
type Judgement struct {
	accepted []subnet
	problems map[string]error
}

type subnet struct {
	contract.NamespaceSubnet
	selector labels.Selector
	// ends says that no further pod gets an address.
	ends bool
}

// Judge accepts the oldest of those that overlap.
func Judge(objects []*unstructured.Unstructured, taken Taken) *Judgement {
	objects = slices.SortedFunc(slices.Values(objects), func(a, b *unstructured.Unstructured) int {
		if order := a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time); order != 0 {
			return order
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	j := &Judgement{problems: map[string]error{}}
	for _, object := range objects {
		s, err := taken.judge(object, j.accepted)
		switch {
		case err != nil:
			j.problems[object.GetName()] = err
		case slices.Contains(object.GetFinalizers(), contract.NamespaceSubnetFinalizer): // else it could go before its pods
			j.accepted = append(j.accepted, s)
		}
	}
	return j
}

// InForce are the accepted ones, oldest first; none of nil.
func (j *Judgement) InForce() (subnets []contract.NamespaceSubnet) {
	if j == nil {
		return nil
	}
	for _, s := range j.accepted {
		subnets = append(subnets, s.NamespaceSubnet)
	}
	return subnets
}

// Of is the one for new pods of a namespace, nil when there is none.
func (j *Judgement) Of(namespace *corev1.Namespace) *contract.NamespaceSubnet {
	if j == nil || namespace == nil {
		return nil
	}
	at := slices.IndexFunc(j.accepted, func(s subnet) bool { return !s.ends && s.selector.Matches(labels.Set(namespace.Labels)) })
	if at < 0 {
		return nil
	}
	return &j.accepted[at].NamespaceSubnet
}

// Problem says why one is not in force.
func (j *Judgement) Problem(name string) error {
	if j == nil {
		return nil
	}
	return j.problems[name]
}

func (t Taken) judge(u *unstructured.Unstructured, older []subnet) (s subnet, err error) {
	object, err := v1alpha1.Decode[v1alpha1.NamespaceSubnet](u)
	if err != nil {
		return s, err
	}
	s.Name, s.ends = u.GetName(), u.GetDeletionTimestamp() != nil
	s.Routed = object.Spec.SNAT != nil && !*object.Spec.SNAT
	if s.selector, err = metav1.LabelSelectorAsSelector(&object.Spec.NamespaceSelector); err != nil {
		return s, fmt.Errorf("namespaceSelector: %w", err)
	}
	if s.Prefixes, err = t.parse(object.Spec.Subnets); err != nil {
		return s, err
	}
	// A node or a network that comes later does not end what pods use.
	isKnown := meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionAccepted)
	for _, prefix := range s.Prefixes {
		err := t.free(prefix, older)
		if err == nil && !isKnown {
			err = cmp.Or(t.holdsNode(prefix), t.isOfNetwork(prefix))
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// parse gives one subnet for each family of the cluster, in the cluster's order.
func (t Taken) parse(texts []string) (ordered []netip.Prefix, err error) {
	var given []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix != prefix.Masked() || prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("subnet %q is not a network address with a length", text)
		}
		if prefix.Addr().BitLen()-prefix.Bits() < 3 {
			return nil, fmt.Errorf("subnet %s has no room for pods: the first four addresses stay free", prefix)
		}
		given = append(given, prefix)
	}
	for _, cluster := range t.Plan[clusterPurpose] {
		prefix, ok := contract.FamilyOf(cluster.Addr()).Pick(given)
		if !ok {
			return nil, fmt.Errorf("no subnet has the address family of the cluster's subnet %s", cluster)
		}
		if !slices.Contains(ordered, prefix) {
			ordered = append(ordered, prefix)
		}
	}
	if len(ordered) != len(given) {
		return nil, fmt.Errorf("subnets %v are not one of each address family of the cluster", given)
	}
	return ordered, nil
}

func (t Taken) free(prefix netip.Prefix, older []subnet) error {
	for purpose, others := range t.Plan {
		if at := slices.IndexFunc(others, prefix.Overlaps); at >= 0 {
			return fmt.Errorf("subnet %s overlaps the %s subnet %s", prefix, purpose, others[at])
		}
	}
	if at := slices.IndexFunc(t.Services, prefix.Overlaps); at >= 0 {
		return fmt.Errorf("subnet %s overlaps the service subnet %s", prefix, t.Services[at])
	}
	for _, other := range older {
		if at := slices.IndexFunc(other.Prefixes, prefix.Overlaps); at >= 0 {
			return fmt.Errorf("subnet %s overlaps %s of NamespaceSubnet %s", prefix, other.Prefixes[at], other.Name)
		}
	}
	return nil
}

// isOfNetwork says that a subnet overlaps one of a network: gateway routers lead to both.
func (t Taken) isOfNetwork(prefix netip.Prefix) error {
	for _, network := range t.Networks {
		if at := slices.IndexFunc(network.Prefixes(), prefix.Overlaps); at >= 0 && network.HasGateway() {
			return fmt.Errorf("subnet %s overlaps %s of network %s", prefix, network.Prefixes()[at], network.Name)
		}
	}
	return nil
}

func (t Taken) holdsNode(prefix netip.Prefix) error {
	for _, node := range t.Nodes {
		for _, address := range node.Status.Addresses {
			if addr, err := netip.ParseAddr(address.Address); err == nil && prefix.Contains(addr) {
				return fmt.Errorf("subnet %s has the address %s of node %s", prefix, addr, node.Name)
			}
		}
	}
	return nil
}
