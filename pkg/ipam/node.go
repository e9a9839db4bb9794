package ipam

import (
	"encoding/json"
	"fmt"
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
	blocks map[netip.Prefix]*block
}

// nodeState is what was decided for a node.
type nodeState struct {
	// blocks has one subnet for each family, in the order of the cluster subnets.
	blocks []*block
	// recorded is the network's value in the annotation that says blocks.
	recorded string
}

func newNodes(cfg Config, key string) *nodes {
	return &nodes{cfg: cfg, key: key, states: map[string]*nodeState{}, blocks: map[netip.Prefix]*block{}}
}

// adopt is what was decided for a node. For a new node that is what its
// annotation says and nobody contests.
func (n *nodes) adopt(node *corev1.Node) (state *nodeState, warning string) {
	if state = n.states[node.Name]; state != nil {
		return state, ""
	}
	state = &nodeState{}
	warning = n.adoptSubnets(node, state)
	n.states[node.Name] = state
	n.record(state)
	return state, warning
}

func (n *nodes) adoptSubnets(node *corev1.Node, state *nodeState) (warning string) {
	subnets, err := contract.ParseNodeSubnets(node.Annotations[contract.NodeSubnetsKey], n.key)
	if err != nil {
		return fmt.Sprintf("annotation %s: %v", contract.NodeSubnetsKey, err)
	}
	for _, prefix := range subnets {
		part, ok := n.cfg.part(prefix.Addr())
		switch b := n.blocks[prefix]; {
		case !ok || part != prefix:
			warning = fmt.Sprintf("annotated subnet %s is not part of the address plan", prefix)
		case b != nil && n.inUse(b):
			warning = fmt.Sprintf("annotated subnet %s belongs to node %s", prefix, b.node)
		case state.block(contract.FamilyOf(prefix.Addr())) != nil:
			warning = fmt.Sprintf("annotated subnet %s is the second of its family", prefix)
		default:
			n.give(state, prefix, node.Name)
		}
	}
	return warning
}

// complete allocates what the node does not have yet. What it got before an
// error stays its own: it is one of several families.
func (n *nodes) complete(name string, state *nodeState) error {
	for _, subnet := range n.cfg.Cluster {
		if state.block(contract.FamilyOf(subnet.Addr())) != nil {
			continue
		}
		prefix, ok := n.free(name, contract.FamilyOf(subnet.Addr()))
		if !ok {
			return fmt.Errorf("no subnet left for the node in %v: %w", n.cfg.Prefixes(), ErrExhausted)
		}
		n.give(state, prefix, name)
	}
	n.record(state)
	return nil
}

// record orders the subnets as the plan orders the families and says them once,
// when there is one of each.
func (n *nodes) record(state *nodeState) {
	if state.recorded != "" {
		return
	}
	var blocks []*block
	for _, subnet := range n.cfg.Cluster {
		b := state.block(contract.FamilyOf(subnet.Addr()))
		if b == nil {
			return
		}
		if !slices.Contains(blocks, b) {
			blocks = append(blocks, b)
		}
	}
	state.blocks = blocks
	text, _ := json.Marshal(state.subnets()) // a list of prefixes has a JSON form
	state.recorded = string(text)
}

// recorded is nil until the node's own annotation says what was decided. A node
// that had no turn yet may bring its annotation along.
func (n *nodes) recorded(node *corev1.Node) *nodeState {
	if node == nil {
		return nil
	}
	state, _ := n.adopt(node)
	if state.recorded == "" || !contract.HasNetwork(node.Annotations[contract.NodeSubnetsKey], n.key, state.recorded) {
		return nil
	}
	return state
}

// free is the subnet that the node had before, else the first free one, else one
// that no node has but pods of a former node still hold addresses in: these are
// given to nobody else there either, and may be waiting for this very node.
func (n *nodes) free(name string, family contract.Family) (found netip.Prefix, ok bool) {
	for prefix, b := range n.blocks {
		switch {
		case !family.Has(prefix.Addr()) || n.inUse(b):
		case b.node == name:
			return prefix, true
		default:
			found, ok = prefix, true
		}
	}
	for _, subnet := range n.cfg.Cluster {
		if !family.Has(subnet.Addr()) {
			continue
		}
		for prefix := netip.PrefixFrom(subnet.Addr(), subnet.NodeBits); subnet.Contains(prefix.Addr()); prefix = after(prefix) {
			if n.blocks[prefix] == nil {
				return prefix, true
			}
		}
	}
	return found, ok
}

func (n *nodes) give(state *nodeState, prefix netip.Prefix, name string) {
	b := n.blocks[prefix]
	if b == nil {
		b = n.add(prefix)
	}
	b.node = name
	state.blocks = append(state.blocks, b)
}

func (n *nodes) add(prefix netip.Prefix) *block {
	b := &block{prefix: prefix, routes: n.cfg.podRoutes(prefix), macs: map[[6]byte]int{}}
	n.blocks[prefix] = b
	return b
}

// release gives back the subnets of a node. A subnet in which pods
// still hold addresses is the last to be given to another node, and this one's
// again if it returns before.
func (n *nodes) release(name string) {
	state := n.states[name]
	delete(n.states, name)
	for _, b := range state.blocks {
		n.drop(b)
	}
}

// drop forgets a subnet that no node has and no pod holds anything in.
func (n *nodes) drop(b *block) {
	if b.held == 0 && !n.inUse(b) {
		delete(n.blocks, b.prefix)
	}
}

func (n *nodes) inUse(b *block) bool {
	state := n.states[b.node]
	return state != nil && slices.Contains(state.blocks, b)
}

// block is the known subnet that addr is in, or nil.
func (n *nodes) block(addr netip.Addr) *block {
	prefix, _ := n.cfg.part(addr)
	return n.blocks[prefix]
}

func (s *nodeState) block(family contract.Family) *block {
	for _, b := range s.blocks {
		if family.Has(b.prefix.Addr()) {
			return b
		}
	}
	return nil
}

// hasMAC says that the MAC of a pod whose first address is addr is another one's on
// the node's switch. Two IPv6 addresses can have one MAC.
func (s *nodeState) hasMAC(addr netip.Addr) bool {
	return slices.ContainsFunc(s.blocks, func(b *block) bool { return b.hasMAC(macOf(addr)) })
}

func (s *nodeState) subnets() []netip.Prefix {
	out := make([]netip.Prefix, len(s.blocks))
	for i, b := range s.blocks {
		out[i] = b.prefix
	}
	return out
}
