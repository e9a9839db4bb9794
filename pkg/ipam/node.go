package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// firstID is the smallest node id. Ids number the nodes' gateway routers in the
// join subnets, where 1 is the cluster router.
const firstID = 2

// nodes has the subnets and ids of all nodes.
type nodes struct {
	cfg    Config
	states map[string]*nodeState
	ids    map[int]string
	blocks map[netip.Prefix]*block
}

// nodeState is what was decided for a node.
type nodeState struct {
	// uid of the Node object seen last; a new one of the same name is the same node.
	uid types.UID
	id  int
	// blocks has one subnet for each family, in the order of the cluster subnets.
	blocks []*block
	// recorded is the annotation value that says blocks.
	recorded string
}

func newNodes(cfg Config) *nodes {
	return &nodes{cfg: cfg, states: map[string]*nodeState{}, ids: map[int]string{}, blocks: map[netip.Prefix]*block{}}
}

// adopt is what was decided for a node. For a new node that is what its
// annotations say and nobody contests.
func (n *nodes) adopt(node *corev1.Node) (state *nodeState, warning string) {
	if state = n.states[node.Name]; state != nil {
		return state, ""
	}
	state = &nodeState{uid: node.UID}
	warning = n.adoptSubnets(node, state)
	if w := n.adoptID(node, state); w != "" {
		warning = w
	}
	n.states[node.Name] = state
	n.record(state)
	return state, warning
}

func (n *nodes) adoptSubnets(node *corev1.Node, state *nodeState) (warning string) {
	subnets, err := contract.ParseNodeSubnets(node.Annotations[contract.NodeSubnetsKey], contract.DefaultNetwork)
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

func (n *nodes) adoptID(node *corev1.Node, state *nodeState) (warning string) {
	value := node.Annotations[contract.NodeIDKey]
	id, err := strconv.Atoi(value)
	switch {
	case value == "":
	case err != nil || id < firstID || id > n.cfg.maxID() || strconv.Itoa(id) != value:
		return fmt.Sprintf("annotated node id %q is not a number from %d to %d", value, firstID, n.cfg.maxID())
	case n.ids[id] != "":
		return fmt.Sprintf("annotated node id %d belongs to node %s", id, n.ids[id])
	default:
		state.id, n.ids[id] = id, node.Name
	}
	return ""
}

// complete allocates what the node does not have yet. What it got before an
// error stays its own: it is one of several families or the id.
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
	for id := firstID; state.id == 0; id++ {
		if id > n.cfg.maxID() {
			return fmt.Errorf("no node id left up to %d: %w", n.cfg.maxID(), ErrExhausted)
		}
		if n.ids[id] == "" {
			state.id, n.ids[id] = id, name
		}
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
	// A list of prefixes has a JSON form.
	state.recorded, _ = contract.FormatNetwork(contract.DefaultNetwork, state.subnets())
}

// recorded is nil until the node's own annotation says what was decided. A node
// that had no turn yet may bring its annotation along.
func (n *nodes) recorded(node *corev1.Node) *nodeState {
	if node == nil {
		return nil
	}
	state, _ := n.adopt(node)
	if state.recorded == "" || node.Annotations[contract.NodeSubnetsKey] != state.recorded {
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

// release gives back the id and the subnets of a node. A subnet in which pods
// still hold addresses is the last to be given to another node, and this one's
// again if it returns before.
func (n *nodes) release(name string) {
	state := n.states[name]
	delete(n.states, name)
	delete(n.ids, state.id)
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
