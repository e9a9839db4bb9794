package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// firstID is the smallest node id. Ids number the nodes' gateway routers in the
// join subnets, where 1 is the cluster router.
const firstID = 2

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

// Node decides a node's subnet, one for each family, and its id. A valid
// annotation that nobody else has claimed is kept. Errors: ErrExhausted, or a
// node whose own address lies in a network of the plan.
func (a *Allocator) Node(node *corev1.Node) (Decision, error) {
	if err := a.checkAddresses(node); err != nil {
		return Decision{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state, warning := a.adoptNode(node)
	state.uid = node.UID
	if err := a.completeNode(node.Name, state); err != nil {
		a.waiting[kube.NodeOwner(node.Name)] = ""
		return Decision{Warning: warning}, err
	}
	delete(a.waiting, kube.NodeOwner(node.Name))
	d := Decision{Annotations: map[string]string{}, Warning: warning}
	for key, want := range map[string]string{kube.NodeSubnetsKey: state.recorded, kube.NodeIDKey: strconv.Itoa(state.id)} {
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

// releaseNode gives back the id and the subnets of a node. A subnet in which pods
// still hold addresses is the last to be given to another node, and this one's
// again if it returns before.
func (a *Allocator) releaseNode(name string) (retry []kube.Owner) {
	state := a.nodes[name]
	delete(a.waiting, kube.NodeOwner(name))
	delete(a.nodes, name)
	delete(a.ids, state.id)
	for _, b := range state.blocks {
		a.dropBlock(b)
	}
	return a.popWaiting("")
}

// checkAddresses finds a plan that hides the node itself from its pods.
func (a *Allocator) checkAddresses(node *corev1.Node) error {
	for _, address := range node.Status.Addresses {
		addr, err := netip.ParseAddr(address.Address)
		if err != nil || address.Type != corev1.NodeInternalIP {
			continue
		}
		for _, n := range a.cfg.networks() {
			if n.prefix.Contains(addr) {
				return fmt.Errorf("node address %s lies in the %s subnet %s", addr, n.name, n.prefix)
			}
		}
	}
	return nil
}

// adoptNode takes over what a new node's annotations say and nobody contests.
func (a *Allocator) adoptNode(node *corev1.Node) (state *nodeState, warning string) {
	if state = a.nodes[node.Name]; state != nil {
		return state, ""
	}
	state = &nodeState{uid: node.UID}
	subnets, err := kube.ParseNodeSubnets(node.Annotations[kube.NodeSubnetsKey], kube.DefaultNetwork)
	if err != nil {
		warning = fmt.Sprintf("annotation %s: %v", kube.NodeSubnetsKey, err)
	}
	for _, prefix := range subnets {
		switch b := a.blocks[prefix]; {
		case !a.isBlock(prefix):
			warning = fmt.Sprintf("annotated subnet %s is not part of the address plan", prefix)
		case b != nil && b.node != "" && b.node != node.Name:
			warning = fmt.Sprintf("annotated subnet %s belongs to node %s", prefix, b.node)
		case state.block(prefix.Addr().Is4()) != nil:
			warning = fmt.Sprintf("annotated subnet %s is the second of its family", prefix)
		default:
			a.giveBlock(state, prefix, node.Name)
		}
	}
	value := node.Annotations[kube.NodeIDKey]
	id, err := strconv.Atoi(value)
	switch {
	case value == "":
	case err != nil || id < firstID || id > a.cfg.maxID() || strconv.Itoa(id) != value:
		warning = fmt.Sprintf("annotated node id %q is not a number from %d to %d", value, firstID, a.cfg.maxID())
	case a.ids[id] != "":
		warning = fmt.Sprintf("annotated node id %d belongs to node %s", id, a.ids[id])
	default:
		state.id, a.ids[id] = id, node.Name
	}
	a.nodes[node.Name] = state
	a.record(state)
	return state, warning
}

// completeNode allocates what the node does not have yet. What it got before an
// error stays its own: it is one of several families or the id.
func (a *Allocator) completeNode(name string, state *nodeState) error {
	for _, subnet := range a.cfg.Cluster {
		if state.block(subnet.Addr().Is4()) != nil {
			continue
		}
		prefix, ok := a.freeBlock(name, subnet.Addr().Is4())
		if !ok {
			return fmt.Errorf("no subnet left for the node in %v: %w", a.cfg.Prefixes(), ErrExhausted)
		}
		a.giveBlock(state, prefix, name)
	}
	for id := firstID; state.id == 0; id++ {
		if id > a.cfg.maxID() {
			return fmt.Errorf("no node id left up to %d: %w", a.cfg.maxID(), ErrExhausted)
		}
		if a.ids[id] == "" {
			state.id, a.ids[id] = id, name
		}
	}
	a.record(state)
	return nil
}

// record orders the subnets as the plan orders the families and says them once,
// when there is one of each.
func (a *Allocator) record(state *nodeState) {
	if state.recorded != "" {
		return
	}
	var blocks []*block
	for _, subnet := range a.cfg.Cluster {
		b := state.block(subnet.Addr().Is4())
		if b == nil {
			return
		}
		if !slices.Contains(blocks, b) {
			blocks = append(blocks, b)
		}
	}
	state.blocks = blocks
	// A list of prefixes has a JSON form.
	state.recorded, _ = kube.FormatNetwork(kube.DefaultNetwork, state.subnets())
}

// freeBlock is the subnet that the node had before, else the first free one, else
// one that no node has but pods of a former node still hold addresses in: these
// are given to nobody else there either, and may be waiting for this very node.
func (a *Allocator) freeBlock(name string, is4 bool) (found netip.Prefix, ok bool) {
	for prefix, b := range a.blocks {
		switch {
		case prefix.Addr().Is4() != is4 || a.inUse(b):
		case b.node == name:
			return prefix, true
		default:
			found, ok = prefix, true
		}
	}
	for _, subnet := range a.cfg.Cluster {
		if subnet.Addr().Is4() != is4 {
			continue
		}
		for prefix := subnet.first(); subnet.Contains(prefix.Addr()); prefix = after(prefix) {
			if a.blocks[prefix] == nil {
				return prefix, true
			}
		}
	}
	return found, ok
}

func (a *Allocator) giveBlock(state *nodeState, prefix netip.Prefix, node string) {
	b := a.blocks[prefix]
	if b == nil {
		b = a.addBlock(prefix, node)
	}
	b.node = node
	state.blocks = append(state.blocks, b)
}

// isBlock says that prefix is exactly one node's part of a cluster subnet.
func (a *Allocator) isBlock(prefix netip.Prefix) bool {
	part, ok := a.blockPrefix(prefix.Addr())
	return ok && part == prefix
}

func (s *nodeState) block(is4 bool) *block {
	for _, b := range s.blocks {
		if b.prefix.Addr().Is4() == is4 {
			return b
		}
	}
	return nil
}

func (s *nodeState) subnets() []netip.Prefix {
	out := make([]netip.Prefix, len(s.blocks))
	for i, b := range s.blocks {
		out[i] = b.prefix
	}
	return out
}

func (s ClusterSubnet) first() netip.Prefix { return netip.PrefixFrom(s.Addr(), s.NodeBits) }

// after is the next prefix of the same length; past the last address of all, it
// is invalid and in no subnet.
func after(prefix netip.Prefix) netip.Prefix {
	bytes := prefix.Addr().AsSlice()
	carry := 1 << ((8 - prefix.Bits()%8) % 8)
	for i := (prefix.Bits() - 1) / 8; i >= 0 && carry > 0; i-- {
		carry += int(bytes[i])
		bytes[i] = byte(carry)
		carry >>= 8
	}
	if carry > 0 {
		return netip.Prefix{}
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, prefix.Bits())
}
