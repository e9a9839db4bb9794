package ipam

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Subnets has the id of each node of the cluster and its subnets on each network. Its methods may be
// called at once from several goroutines.
type Subnets struct {
	plans plans

	mu       sync.Mutex
	ids      *ids
	networks map[string]*nodes
	// waiting has the names of nodes for which no subnet or id was left.
	waiting map[string]bool
}

// NewSubnets is for the default network and further ones, whose subnets may overlap with each
// other's; call Rebuild before anything else.
func NewSubnets(cfg Config, further ...contract.Network) (*Subnets, error) {
	plans, err := newPlans(cfg, further)
	if err != nil {
		return nil, err
	}
	s := &Subnets{plans: plans}
	s.clear()
	return s, nil
}

func (s *Subnets) clear() {
	s.networks, s.waiting = map[string]*nodes{}, map[string]bool{}
	last := s.plans.byName[""].maxID()
	for name, plan := range s.plans.byName {
		s.networks[name] = newNodes(plan, contract.Network{Name: name}.Key())
		last = min(last, plan.maxID())
	}
	s.ids = newIDs(last)
}

// Rebuild forgets everything and starts from the annotations of nodes, oldest first. Where two nodes
// claim the same, the later one gets a new decision from Node. A node without a valid annotation gets
// the subnets back in which its pods have addresses.
func (s *Subnets) Rebuild(all []*corev1.Node, pods []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	for _, node := range slices.SortedFunc(slices.Values(all), func(x, y *corev1.Node) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	}) {
		s.ids.adopt(node)
		for _, name := range s.plans.names {
			s.networks[name].adopt(node)
		}
	}
	for _, pod := range pods {
		for _, name := range s.plans.networksOf(pod) {
			s.networks[name].adoptPod(pod)
		}
	}
}

// Node decides a node's subnets on each network, one for each family, and its id. A valid annotation that conflicts with
// no other node is kept. Errors: ErrExhausted, or a node whose own address lies in a network of the plan.
func (s *Subnets) Node(node *corev1.Node) (Decision, error) {
	if err := s.plans.byName[""].checkNode(node); err != nil {
		return Decision{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Decision{Annotations: map[string]string{}}
	_, d.Warning = s.ids.adopt(node)
	subnets := node.Annotations[contract.NodeSubnetsKey]
	for _, name := range s.plans.names {
		network := s.networks[name]
		state, warning := network.adopt(node)
		d.Warning = cmp.Or(d.Warning, warning)
		if err := network.complete(node.Name, state); err != nil {
			s.waiting[node.Name] = true
			return Decision{Warning: d.Warning}, err
		}
		if !contract.HasNetwork(subnets, network.key, state.recorded) {
			subnets, _ = contract.SetNetwork(subnets, network.key, json.RawMessage(state.recorded)) // it is JSON
		}
	}
	if err := s.ids.complete(node.Name); err != nil {
		s.waiting[node.Name] = true
		return Decision{Warning: d.Warning}, err
	}
	delete(s.waiting, node.Name)
	for key, want := range map[string]string{contract.NodeSubnetsKey: subnets, contract.NodeIDKey: strconv.Itoa(s.ids.nodes[node.Name])} {
		is := node.Annotations[key]
		if is == want {
			continue
		}
		d.Annotations[key] = want
		if is != "" && d.Warning == "" {
			d.Warning = fmt.Sprintf("annotation %s said %s, which is not what was allocated", key, is)
		}
	}
	return d, nil
}

// Recorded are a node's subnets on a network, one for each family in the order of the plan. It is nil
// until the node's annotations say what was decided. A node without a decision may have the
// annotations of a former leader, or of OVN-Kubernetes.
func (s *Subnets) Recorded(node *corev1.Node, network string) []netip.Prefix {
	if node == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := s.ids.adopt(node)
	state, _ := s.networks[network].adopt(node)
	if state.recorded == "" || node.Annotations[contract.NodeIDKey] != strconv.Itoa(id) ||
		!contract.HasNetwork(node.Annotations[contract.NodeSubnetsKey], s.networks[network].key, state.recorded) {
		return nil
	}
	return state.subnets
}

// decided are a node's subnets on a network so far, recorded or not.
func (s *Subnets) decided(node, network string) []netip.Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.networks[network].states[node]; state != nil {
		return state.subnets
	}
	return nil
}

// Owners are all nodes that have something or wait for it, also those whose objects are gone.
func (s *Subnets) Owners() []contract.Owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	var owners []contract.Owner
	for name := range s.ids.nodes {
		owners = append(owners, contract.NodeOwner(name))
	}
	return owners
}

// Release gives back the id and the subnets of a node; call it when the node's rows are gone. It
// returns a node that waited for them; others that wait have their back-off.
func (s *Subnets) Release(name string) (retry []contract.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ids.nodes[name]; !ok {
		return nil
	}
	s.ids.release(name)
	for _, network := range s.networks {
		network.release(name)
	}
	delete(s.waiting, name)
	for waiter := range s.waiting {
		delete(s.waiting, waiter)
		return []contract.Owner{contract.NodeOwner(waiter)}
	}
	return nil
}
