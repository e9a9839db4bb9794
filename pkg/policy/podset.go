package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// PortName is a port of containers by its name.
type PortName struct {
	Protocol corev1.Protocol
	Name     string
}

// Selection is pods by labels, as a peer or the subject of a policy selects them.
type Selection struct {
	// Namespace has the pods; where it is "", Namespaces selects theirs.
	Namespace  string
	Namespaces labels.Selector
	Pods       labels.Selector
}

// PodSet selects the pods of a network that match any of its selections: the peers of a rule. Its owner key is a
// hash of the selections, so rules with equal selections share one PodSet.
type PodSet struct {
	Of []Selection
	// Port, if it has a name, selects only pods with such a port. Rows of the set are separate for each number of
	// the port. Within, if not nil, selects only addresses in a network.
	Port   PortName
	Within *Networks
	// Network is the further network on which the set has the pods' addresses, "" for the default network.
	Network string

	hash string
}

// on is the same set on a further network.
func (s *PodSet) on(network string) *PodSet {
	if s == nil {
		return nil
	}
	further := *s
	further.Network, further.hash = network, hash(s.hash, network)
	return &further
}

// newPodSet sorts the selections and leaves out those that are there twice.
func newPodSet(of []Selection, port PortName, within *Networks) *PodSet {
	byKey := map[string]Selection{}
	for _, s := range of {
		byKey[s.key()] = s
	}
	set := &PodSet{Port: port, Within: within}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		set.Of = append(set.Of, byKey[key])
		parts = append(parts, key)
	}
	parts = append(parts, string(port.Protocol), port.Name)
	if within != nil {
		parts = append(parts, within.key)
	}
	set.hash = hash(parts...)
	return set
}

// key is different for different selections.
func (s Selection) key() string {
	namespaces := "!"
	if s.Namespace == "" {
		namespaces = selectorKey(s.Namespaces)
	}
	return s.Namespace + "\x00" + namespaces + "\x00" + selectorKey(s.Pods)
}

// isEveryPod says that the selection has all pods of all namespaces.
func (s Selection) isEveryPod() bool {
	return s.Namespace == "" && isEverything(s.Namespaces) && isEverything(s.Pods)
}

func isEverything(selector labels.Selector) bool {
	requirements, selectable := selector.Requirements()
	return selectable && len(requirements) == 0
}

func everyPod() Selection {
	return Selection{Namespaces: labels.Everything(), Pods: labels.Everything()}
}

// selectorKey is different for different selectors. The text of a selector that selects nothing is the same as that of
// one that selects everything, so the former gets a text of its own.
func selectorKey(selector labels.Selector) string {
	if _, selectable := selector.Requirements(); !selectable {
		return "!"
	}
	return selector.String()
}

// hash has 128 bits: users choose names and selectors, and must not find two with the same hash.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// Owner is the owner of the set's rows.
func (s *PodSet) Owner() contract.Owner {
	return contract.Owner{Kind: contract.KindPodSet, Name: s.hash, Network: s.Network}
}

// String is the selections in words, of many the first and their number, cut where
// they are long.
func (s *PodSet) String() string {
	const shown, longest = 3, 500
	var texts []string
	for _, selection := range s.Of[:min(len(s.Of), shown)] {
		texts = append(texts, selection.String())
	}
	text := strings.Join(texts, " or ")
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	if len(s.Of) > shown {
		text += fmt.Sprintf(" or %d others", len(s.Of)-shown)
	}
	if s.Port.Name != "" {
		text += ":" + s.Port.Name + "/" + string(s.Port.Protocol)
	}
	return text
}

// String is the selection in words.
func (s Selection) String() string {
	where := s.Namespace
	if where == "" {
		where = "namespaces(" + selectorKey(s.Namespaces) + ")"
	}
	return where + "/pods(" + selectorKey(s.Pods) + ")"
}

// Has says that an address of a pod of the set counts.
func (s *PodSet) Has(addr netip.Addr) bool { return s.Within.contains(addr) }

// Number is the number of the set's named port in a pod, 0 when it has none.
func (s *PodSet) Number(pod *corev1.Pod) int32 {
	for _, c := range contract.RunningContainers(pod) {
		for _, p := range c.Ports {
			if p.Name == s.Port.Name && protocolOf(p.Protocol) == s.Port.Protocol {
				return p.ContainerPort
			}
		}
	}
	return 0
}

// sizes counts members by the number of the named port, or by 0.
func (s *PodSet) sizes(members []*corev1.Pod) map[int32]int {
	if s.Port.Name == "" {
		return map[int32]int{0: len(members)}
	}
	sizes := map[int32]int{}
	for _, pod := range members {
		sizes[s.Number(pod)]++
	}
	return sizes
}

func protocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

// selects says that a pod, whose namespace has these labels, is selected. Nil
// labels stand for a namespace that is not known.
func (s Selection) selects(pod *corev1.Pod, namespace labels.Set) bool {
	if s.Namespace != "" && s.Namespace != pod.Namespace || s.Namespace == "" && (namespace == nil || !s.Namespaces.Matches(namespace)) {
		return false
	}
	return s.Pods.Matches(labels.Set(pod.Labels))
}

// mayHave says that a pod that is selected has the named port of the set, if it has one, and may be on the set's network.
func (s *PodSet) mayHave(pod *corev1.Pod) bool {
	return (s.Port.Name == "" || s.Number(pod) != 0) && (s.Network == "" || contract.IsAttached(pod))
}

// buckets are where a selection is found from a pod: by labels of which its pods
// have one for certain, else by its namespace or labels of that.
func (s Selection) buckets() []string {
	if pairs := surePairs(s.Pods); pairs != nil {
		return prefixed(s.Namespace+"\x00pod ", pairs)
	}
	if pairs := surePairs(s.Namespaces); s.Namespace == "" && pairs != nil {
		return prefixed("\x00namespace ", pairs)
	}
	return []string{s.Namespace + "\x00"}
}

func prefixed(prefix string, texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = prefix + text
	}
	return all
}

// bucketsOf are those in which the selections that may have a pod are.
func bucketsOf(pod *corev1.Pod, namespace labels.Set) []string {
	all := []string{pod.Namespace + "\x00", "\x00"}
	for key, value := range pod.Labels {
		pair := "\x00pod " + key + "=" + value
		all = append(all, pod.Namespace+pair, pair)
	}
	for key, value := range namespace {
		all = append(all, "\x00namespace "+key+"="+value)
	}
	return all
}

// surePairs are labels, as key=value, without one of which a selector matches
// nothing; none for a selector that may match without.
func surePairs(selector labels.Selector) (fewest []string) {
	if selector == nil {
		return nil
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		values := r.ValuesUnsorted()
		if op := r.Operator(); op != selection.Equals && op != selection.In && op != selection.DoubleEquals || len(values) == 0 {
			continue
		}
		if fewest != nil && len(fewest) <= len(values) {
			continue
		}
		fewest = nil
		for _, value := range values {
			fewest = append(fewest, r.Key()+"="+value)
		}
	}
	return fewest
}
