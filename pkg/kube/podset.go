package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// PortName is a port of containers by its name.
type PortName struct {
	Protocol corev1.Protocol
	Name     string
}

// PodSet is a selection of pods of the pod network, as a rule of a policy makes
// it. Equal selections are one PodSet, whoever makes them: that is what its
// owner key, a hash of the selection, is for.
type PodSet struct {
	// Namespace has the pods; where it is "", Namespaces selects theirs.
	Namespace  string
	Namespaces labels.Selector
	Pods       labels.Selector
	// Port, if it has a name, keeps only the pods with such a port, told apart
	// by its number; Within, if any, those with an address in a network.
	Port   PortName
	Within []netip.Prefix

	hash string
}

func newPodSet(s PodSet) *PodSet {
	if s.Namespaces == nil {
		s.Namespaces = labels.Everything()
	}
	if s.Namespace != "" {
		s.Namespaces = labels.Nothing()
	}
	parts := []string{s.Namespace, selectorKey(s.Namespaces), selectorKey(s.Pods), string(s.Port.Protocol), s.Port.Name}
	for _, network := range s.Within {
		parts = append(parts, network.String())
	}
	s.hash = hash(parts...)
	return &s
}

// selectorKey tells selectors apart; the one that selects nothing, unlike the one
// that selects all, prints nothing that could.
func selectorKey(selector labels.Selector) string {
	if _, selectable := selector.Requirements(); !selectable {
		return "!"
	}
	return selector.String()
}

// hash is 128 bits: users choose names and selectors, and must not find two that
// share one.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// Owner is the owner of the set's rows.
func (s *PodSet) Owner() Owner { return Owner{Kind: KindPodSet, Name: s.hash} }

// String is the selection in words.
func (s *PodSet) String() string {
	where := s.Namespace
	if where == "" {
		where = "namespaces(" + selectorKey(s.Namespaces) + ")"
	}
	text := where + "/pods(" + selectorKey(s.Pods) + ")"
	if s.Port.Name != "" {
		text += ":" + s.Port.Name + "/" + string(s.Port.Protocol)
	}
	return text
}

// withPort is the part of the set that has a named port.
func (s *PodSet) withPort(port PortName, within []netip.Prefix) *PodSet {
	narrowed := *s
	narrowed.Port, narrowed.Within = port, within
	return newPodSet(narrowed)
}

// Number is the number of the set's named port in a pod, 0 when it has none. A
// sidecar is an init container whose ports count as well.
func (s *PodSet) Number(pod *corev1.Pod) int32 {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for _, p := range c.Ports {
			if p.Name == s.Port.Name && protocolOf(p.Protocol) == s.Port.Protocol {
				return p.ContainerPort
			}
		}
	}
	return 0
}

func protocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

// selects says that a pod, whose namespace has these labels, is in the set. Nil
// labels stand for a namespace that is not known.
func (s *PodSet) selects(pod *corev1.Pod, namespace labels.Set) bool {
	if s.Namespace != "" && s.Namespace != pod.Namespace || s.Namespace == "" && (namespace == nil || !s.Namespaces.Matches(namespace)) {
		return false
	}
	return s.Pods.Matches(labels.Set(pod.Labels)) && (s.Port.Name == "" || s.Number(pod) != 0)
}

// bucket is where a set is found from a pod: by its namespace, if it is of one,
// and one label that its pods have for certain.
func (s *PodSet) bucket() string { return s.Namespace + "\x00" + surePair(s.Pods) }

// buckets are those in which the sets that may select a pod are.
func buckets(pod *corev1.Pod) []string {
	pairs := []string{""}
	for key, value := range pod.Labels {
		pairs = append(pairs, key+"="+value)
	}
	var all []string
	for _, pair := range pairs {
		all = append(all, pod.Namespace+"\x00"+pair, "\x00"+pair)
	}
	return all
}

// surePair is a label, as key=value, without which a selector matches nothing.
func surePair(selector labels.Selector) string {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		values := r.ValuesUnsorted()
		if op := r.Operator(); len(values) == 1 && (op == selection.Equals || op == selection.In || op == selection.DoubleEquals) {
			return r.Key() + "=" + values[0]
		}
	}
	return ""
}
