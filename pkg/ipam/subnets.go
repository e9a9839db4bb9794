package ipam

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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
	cfg Config

	mu       sync.Mutex
	ids      *ids
	networks map[string]*nodes
	// waiting has the names of nodes for which no subnet or id was left.
	waiting map[string]bool
}

// NewSubnets is for the default network and further ones, whose subnets may overlap with each
// other's; call Rebuild before anything else.
func NewSubnets(cfg Config) (*Subnets, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Subnets{cfg: cfg}
	s.clear()
	return s, nil
}

func (s *Subnets) clear() {
	s.networks, s.waiting, s.ids = map[string]*nodes{}, map[string]bool{}, newIDs(s.cfg.maxID())
	s.follow(map[string]Config{"": s.cfg})
}

// follow takes in what the networks are now. It returns their names, the default network's first.
func (s *Subnets) follow(plans map[string]Config) []string {
	for name, plan := range plans {
		if s.networks[name] == nil {
			s.networks[name] = newNodes(plan, contract.Network{Name: name}.Key())
		} else if name != "" {
			s.networks[name].follow(plan)
		}
	}
	maps.DeleteFunc(s.networks, func(name string, _ *nodes) bool {
		_, exists := plans[name]
		return !exists
	})
	return slices.Sorted(maps.Keys(plans))
}

// Rebuild forgets everything and starts from the annotations of nodes, oldest first. Where two nodes
// claim the same, the later one gets a new decision from Node. A node without a valid annotation gets
// the subnets back in which its pods have addresses.
func (s *Subnets) Rebuild(all []*corev1.Node, pods []*corev1.Pod) {
	plans := s.cfg.layer3()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	names := s.follow(plans)
	for _, node := range slices.SortedFunc(slices.Values(all), func(x, y *corev1.Node) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	}) {
		s.ids.adopt(node)
		for _, name := range names {
			s.networks[name].adopt(node)
		}
	}
	for _, pod := range pods {
		if first := s.networks[""]; first != nil && contract.WantsNetwork(pod) {
			first.adoptPod(pod)
		}
	}
}

// Node decides a node's subnets on each network, one for each family, and its id. A valid annotation that conflicts with
// no other node is kept. A further network without a free subnet is in Failed and does not stop the others.
// Errors: ErrExhausted, or a node whose own address lies in a network of the plan.
func (s *Subnets) Node(node *corev1.Node) (Decision, error) {
	if err := s.cfg.checkNode(node); err != nil && !s.cfg.SecondaryOnly {
		return Decision{}, err
	}
	plans := s.cfg.layer3()
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Decision{Annotations: map[string]string{}}
	_, d.Warning = s.ids.adopt(node)
	subnets, err := s.complete(node, plans, &d)
	if err == nil {
		err = s.ids.complete(node.Name)
	}
	if err != nil {
		s.waiting[node.Name] = true
		return Decision{Warning: d.Warning}, err
	}
	if len(d.Failed) == 0 {
		delete(s.waiting, node.Name)
	}
	for key, want := range map[string]string{contract.NodeSubnetsKey: subnets, contract.NodeIDKey: strconv.Itoa(s.ids.nodes[node.Name])} {
		is := node.Annotations[key]
		if is == want {
			continue
		}
		d.Annotations[key] = want
		if is != "" && d.Warning == "" && (key == contract.NodeIDKey || s.cfg.Further == nil || !sameDefault(is, want)) {
			d.Warning = fmt.Sprintf("annotation %s said %s, which is not what was allocated", key, is)
		}
	}
	return d, nil
}

// complete gives the node its subnets on each network, as the annotation has them. The error is the default network's;
// those of others are in d.
func (s *Subnets) complete(node *corev1.Node, plans map[string]Config, d *Decision) (annotation string, err error) {
	annotation = s.withoutFormer(node, plans)
	for _, name := range s.follow(plans) {
		network := s.networks[name]
		state, warning := network.adopt(node)
		d.Warning = cmp.Or(d.Warning, warning)
		if err := network.complete(node.Name, state); err != nil {
			s.waiting[node.Name] = true
			if name == "" {
				return "", err
			}
			if d.Failed == nil {
				d.Failed = map[string]error{}
			}
			d.Failed[name] = err
			continue
		}
		if !contract.HasNetwork(annotation, network.key, state.recorded) {
			annotation, _ = contract.SetNetwork(annotation, network.key, json.RawMessage(state.recorded)) // it is JSON
		}
	}
	return annotation, nil
}

// sameDefault says that two annotations have the same subnets of the default network.
func sameDefault(a, b string) bool {
	x, xErr := contract.ParseNodeSubnets(a, contract.DefaultNetwork)
	y, yErr := contract.ParseNodeSubnets(b, contract.DefaultNetwork)
	return xErr == nil && yErr == nil && slices.Equal(x, y)
}

// withoutFormer is the node's annotation without the subnets of networks that are gone.
func (s *Subnets) withoutFormer(node *corev1.Node, plans map[string]Config) string {
	value := node.Annotations[contract.NodeSubnetsKey]
	if s.cfg.Further == nil {
		return value
	}
	for _, name := range contract.NetworkKeys(value) {
		if _, exists := plans[name]; name != contract.DefaultNetwork && !exists {
			value, _ = contract.SetNetwork(value, name, nil)
		}
	}
	return value
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
	if s.networks[network] == nil { // Node would write nothing for an annotation of former times, and so no event would tell
		s.follow(s.cfg.layer3())
	}
	of := s.networks[network]
	if of == nil {
		return nil
	}
	id, _ := s.ids.adopt(node)
	state, _ := of.adopt(node)
	if state.recorded == "" || node.Annotations[contract.NodeIDKey] != strconv.Itoa(id) ||
		!contract.HasNetwork(node.Annotations[contract.NodeSubnetsKey], of.key, state.recorded) {
		return nil
	}
	return state.subnets
}

// decided are a node's subnets on a network so far, recorded or not.
func (s *Subnets) decided(node, network string) []netip.Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.networks[network]; of != nil && of.states[node] != nil {
		return of.states[node].subnets
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
