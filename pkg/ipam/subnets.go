package ipam

import (
	"cmp"
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
	// said is what the annotation of each node said when it was looked at last. Each text has another version.
	said     map[string]said
	versions int
}

type said struct {
	text    string
	version int
}

// MaxNodeSubnets is how many bytes NodeSubnetsKey may have before further networks are refused: half of what an object's
// annotations may have together.
const MaxNodeSubnets = 128 << 10

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
	s.networks, s.waiting, s.ids, s.said = map[string]*nodes{}, map[string]bool{}, newIDs(s.cfg.maxID()), map[string]said{}
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
		values, version := s.look(node)
		for _, name := range names {
			state, _ := s.networks[name].adopt(node.Name, values)
			state.look(s.networks[name].key, values, version)
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
	err := s.complete(node, plans, &d)
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
	s.differ(node, &d)
	return d, nil
}

// differ leaves in a decision what a node's annotations do not say.
func (s *Subnets) differ(node *corev1.Node, d *Decision) {
	d.Annotations[contract.NodeIDKey] = strconv.Itoa(s.ids.nodes[node.Name])
	if d.First != nil && d.First[contract.NodeSubnetsKey] == d.Annotations[contract.NodeSubnetsKey] {
		d.First = nil
	} else if d.First != nil {
		d.First[contract.NodeIDKey] = d.Annotations[contract.NodeIDKey]
	}
	for key, want := range d.Annotations {
		is := node.Annotations[key]
		if is == want {
			delete(d.Annotations, key)
			continue
		}
		if is != "" && d.Warning == "" && (key == contract.NodeIDKey || s.cfg.Further == nil || !sameDefault(is, want)) {
			d.Warning = fmt.Sprintf("annotation %s said %s, which is not what was allocated", key, is)
		}
	}
}

// look gives the values of a node's annotation, and the version of its text. When the text has changed, each state is
// compared with it.
func (s *Subnets) look(node *corev1.Node) (values *contract.Values, version int) {
	text := node.Annotations[contract.NodeSubnetsKey]
	values = contract.NewValues(text)
	is := s.said[node.Name]
	if changed := is.version == 0 || is.text != text; changed {
		s.versions++
		is.version = s.versions
		for _, network := range s.networks {
			if state := network.states[node.Name]; state != nil {
				state.look(network.key, values, is.version)
			}
		}
	}
	is.text = text // equal texts of two objects are compared once
	s.said[node.Name] = is
	return values, is.version
}

// complete gives the node its subnets on each network, as the annotation has them. The error is the default network's;
// those of others are in d. Networks that the annotation names already come before others.
func (s *Subnets) complete(node *corev1.Node, plans map[string]Config, d *Decision) error {
	values, version := s.look(node)
	size, known := len(node.Annotations[contract.NodeSubnetsKey]), 0
	for _, name := range s.follow(plans) {
		network := s.networks[name]
		state, warning := network.adopt(node.Name, values)
		d.Warning = cmp.Or(d.Warning, warning)
		if state.look(network.key, values, version) {
			known++
			continue
		}
		isNew := !values.Names(network.key)
		err := error(nil)
		if isNew && name != "" && size+network.entrySize() > MaxNodeSubnets {
			err = fmt.Errorf("annotation %s of the node has no room for more networks of topology layer3, in %d bytes: use topology layer2: %w",
				contract.NodeSubnetsKey, MaxNodeSubnets, ErrExhausted)
		} else {
			err = network.complete(node.Name, state)
		}
		if err != nil && name == "" {
			return err
		} else if err != nil {
			s.fail(node.Name, name, err, d)
			continue
		}
		if known++; isNew {
			size += len(network.key) + len(`"":,`) + len(state.recorded)
		}
		if values.Set(network.key, state.recorded); name == "" {
			d.First = map[string]string{contract.NodeSubnetsKey: values.String()}
		}
	}
	if s.cfg.Further != nil {
		dropFormer(values, plans, known)
	}
	d.Annotations[contract.NodeSubnetsKey] = values.String()
	return nil
}

// fail notes that a node has no subnet on a further network.
func (s *Subnets) fail(node, network string, err error, d *Decision) {
	s.waiting[node] = true
	if d.Failed == nil {
		d.Failed = map[string]error{}
	}
	d.Failed[network] = err
}

// sameDefault says that two annotations have the same subnets of the default network.
func sameDefault(a, b string) bool {
	x, xErr := contract.ParseNodeSubnets(a, contract.DefaultNetwork)
	y, yErr := contract.ParseNodeSubnets(b, contract.DefaultNetwork)
	return xErr == nil && yErr == nil && slices.Equal(x, y)
}

// dropFormer removes the subnets of networks that are gone. Of the annotation's networks, known are there.
func dropFormer(values *contract.Values, plans map[string]Config, known int) {
	keys := values.Keys()
	if len(keys) <= known {
		return
	}
	for _, name := range keys {
		if _, exists := plans[name]; name != contract.DefaultNetwork && !exists {
			values.Set(name, "")
		}
	}
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
	on := s.network(network)
	if on == nil {
		return nil
	}
	id, _ := s.ids.adopt(node)
	values, version := s.look(node)
	state, _ := on.adopt(node.Name, values)
	if node.Annotations[contract.NodeIDKey] != strconv.Itoa(id) || !state.look(on.key, values, version) {
		return nil
	}
	return state.subnets
}

// network has the subnets of nodes on a network; nil: nodes have no parts of it. Of a new network, Node would write nothing for
// an annotation of former times, and so no event would tell.
func (s *Subnets) network(name string) *nodes {
	if has := s.networks[name]; has != nil || name == "" || s.cfg.Further == nil {
		return has
	}
	network := s.cfg.Further.Network(name)
	if network == nil || network.Topology != contract.Layer3 {
		return nil
	}
	s.networks[name] = newNodes(of(*network, s.cfg.Services), network.Key())
	return s.networks[name]
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
	delete(s.said, name)
	for waiter := range s.waiting {
		delete(s.waiting, waiter)
		return []contract.Owner{contract.NodeOwner(waiter)}
	}
	return nil
}
