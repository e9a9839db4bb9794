package ipam

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// nodes has the subnets of all nodes on one network.
type nodes struct {
	cfg Config
	// key is the network's in annotations.
	key    string
	states map[string]*nodeState
	// owners has the node of each subnet.
	owners map[netip.Prefix]string
	// former are subnets of nodes that are gone. Pods may still have addresses there.
	former map[netip.Prefix]former
	// released counts the subnets that were given back.
	released int
	// next has, for each subnet of the plan, a part before which nodes have or had all.
	next map[netip.Prefix]netip.Prefix
}

// nodeState is what was decided for a node.
type nodeState struct {
	// subnets are one for each family, in the order of the plan once they are complete.
	subnets []netip.Prefix
	// recorded is the network's value in the annotation that says subnets; "" until they are complete.
	recorded string
	// says is whether the version of the annotation that was looked at last has recorded.
	says   bool
	looked int
}

// look says whether a version of the node's annotation has what was decided.
func (s *nodeState) look(key string, values *contract.Values, version int) bool {
	if s.looked != version {
		s.says, s.looked = s.recorded != "" && values.Has(key, s.recorded), version
	}
	return s.says
}

// former is a subnet that no node has.
type former struct {
	node string
	// at orders subnets by the time at which they were given back.
	at int
}

func newNodes(cfg Config, key string) *nodes {
	return &nodes{
		cfg: cfg, key: key, states: map[string]*nodeState{}, owners: map[netip.Prefix]string{}, former: map[netip.Prefix]former{},
		next: map[netip.Prefix]netip.Prefix{},
	}
}

// follow takes in what the network is now. Nodes keep the subnets that are parts of it.
func (n *nodes) follow(cfg Config) {
	if slices.Equal(n.cfg.Cluster, cfg.Cluster) {
		return
	}
	n.cfg, n.next = cfg, map[netip.Prefix]netip.Prefix{}
	gone := func(prefix netip.Prefix) bool {
		part, ok := cfg.part(prefix.Addr())
		return !ok || part != prefix
	}
	maps.DeleteFunc(n.owners, func(prefix netip.Prefix, _ string) bool { return gone(prefix) })
	maps.DeleteFunc(n.former, func(prefix netip.Prefix, _ former) bool { return gone(prefix) })
	for _, state := range n.states {
		state.subnets, state.recorded, state.looked = slices.DeleteFunc(slices.Clone(state.subnets), gone), "", 0
		n.record(state)
	}
}

// entrySize is how many bytes a node's subnets may need in the annotation.
func (n *nodes) entrySize() int {
	const longest = len(`"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",`)
	return len(n.key) + len(`"":[]`) + longest*len(contract.Network{Subnets: n.cfg.Cluster}.Families())
}

// adopt returns the decision for a node. For a new node it is the annotation's subnets, without those of other nodes.
func (n *nodes) adopt(node string, values *contract.Values) (state *nodeState, warning string) {
	if state = n.states[node]; state != nil {
		return state, ""
	}
	state = &nodeState{}
	warning = n.adoptSubnets(node, values, state)
	n.states[node] = state
	n.record(state)
	return state, warning
}

func (n *nodes) adoptSubnets(node string, values *contract.Values, state *nodeState) (warning string) {
	subnets, err := values.NodeSubnets(n.key)
	if err != nil {
		return fmt.Sprintf("annotation %s: %v", contract.NodeSubnetsKey, err)
	}
	for _, prefix := range subnets {
		part, ok := n.cfg.part(prefix.Addr())
		switch owner := n.owners[prefix]; {
		case !ok || part != prefix:
			warning = fmt.Sprintf("annotated subnet %s is not part of the address plan", prefix)
		case owner != "":
			warning = fmt.Sprintf("annotated subnet %s belongs to node %s", prefix, owner)
		case state.has(contract.FamilyOf(prefix.Addr())):
			warning = fmt.Sprintf("annotated subnet %s is the second of its family", prefix)
		default:
			n.give(state, prefix, node)
		}
	}
	return warning
}

// adoptPod remembers whose subnet it was where a pod has an address in a subnet that no node has.
func (n *nodes) adoptPod(pod *corev1.Pod) {
	if state := n.states[pod.Spec.NodeName]; state != nil && state.recorded != "" {
		return
	}
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], n.key)
	if err != nil || network == nil {
		return // the pod gets another address
	}
	for _, address := range network.Addresses {
		if prefix, ok := n.cfg.part(address.Addr()); ok && n.owners[prefix] == "" && n.former[prefix].node == "" {
			n.former[prefix] = former{node: pod.Spec.NodeName}
		}
	}
}

// complete allocates what the node does not have yet. What it got before an
// error stays its own: it is one of several families.
func (n *nodes) complete(name string, state *nodeState) error {
	for _, subnet := range n.cfg.Cluster {
		family := contract.FamilyOf(subnet.Addr())
		if state.has(family) {
			continue
		}
		prefix, ok := n.free(name, family)
		if !ok {
			return fmt.Errorf("no subnet left for the node in %v: %w", n.cfg.Prefixes(), ErrExhausted)
		}
		n.give(state, prefix, name)
	}
	n.record(state)
	return nil
}

// record orders the subnets as the plan orders the families and formats them once,
// when there is one of each.
func (n *nodes) record(state *nodeState) {
	if state.recorded != "" {
		return
	}
	var subnets []netip.Prefix
	for _, subnet := range n.cfg.Cluster {
		prefix, ok := contract.FamilyOf(subnet.Addr()).Pick(state.subnets)
		if !ok {
			return
		}
		if !slices.Contains(subnets, prefix) {
			subnets = append(subnets, prefix)
		}
	}
	state.subnets = subnets
	state.recorded, state.looked = formatSubnets(subnets), 0
}

// formatSubnets is the JSON form of a list.
func formatSubnets(subnets []netip.Prefix) string {
	text := []byte{'['}
	for i, subnet := range subnets {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(subnet.AppendTo(append(text, '"')), '"')
	}
	return string(append(text, ']'))
}

// free is the subnet that the node had before, else the first that no node had, else the one
// that was given back first.
func (n *nodes) free(name string, family contract.Family) (netip.Prefix, bool) {
	var oldest netip.Prefix
	for prefix, former := range n.former {
		switch {
		case !family.Has(prefix.Addr()):
		case former.node == name:
			return prefix, true
		case !oldest.IsValid() || former.at < n.former[oldest].at:
			oldest = prefix
		}
	}
	for _, subnet := range n.cfg.Cluster {
		if !family.Has(subnet.Addr()) {
			continue
		}
		prefix, ok := n.next[subnet.Prefix]
		if !ok {
			prefix = netip.PrefixFrom(subnet.Addr(), subnet.NodeBits)
		}
		for ; subnet.Contains(prefix.Addr()); prefix = after(prefix) {
			n.next[subnet.Prefix] = prefix
			if n.owners[prefix] == "" && n.former[prefix].node == "" {
				return prefix, true
			}
		}
	}
	return oldest, oldest.IsValid()
}

func (n *nodes) give(state *nodeState, prefix netip.Prefix, name string) {
	delete(n.former, prefix)
	n.owners[prefix] = name
	state.subnets = append(state.subnets, prefix)
}

// release gives back the subnets of a node. They are the last to be given to another node, and this
// one's again if it returns before.
func (n *nodes) release(name string) {
	state := n.states[name]
	if state == nil {
		return
	}
	for _, prefix := range state.subnets {
		n.released++
		delete(n.owners, prefix)
		n.former[prefix] = former{name, n.released}
	}
	delete(n.states, name)
}

func (s *nodeState) has(family contract.Family) bool {
	_, ok := family.Pick(s.subnets)
	return ok
}
