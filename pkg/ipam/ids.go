package ipam

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// firstID is the smallest node id. Ids number the nodes' gateway routers in the
// join subnets, where 1 is the cluster router.
const firstID = 2

// ids has the number of each node, which is the same on all networks.
type ids struct {
	last  int
	nodes map[string]*numbered
	taken map[int]string
}

// numbered is a node with its id, 0 until it has one.
type numbered struct {
	// uid of the Node object seen last; a new one of the same name is the same node.
	uid types.UID
	id  int
}

func newIDs(last int) *ids {
	return &ids{last: last, nodes: map[string]*numbered{}, taken: map[int]string{}}
}

// adopt is what was decided for a node. For a new node that is what its
// annotation says and nobody contests.
func (i *ids) adopt(node *corev1.Node) (n *numbered, warning string) {
	if n = i.nodes[node.Name]; n != nil {
		return n, ""
	}
	n = &numbered{uid: node.UID}
	i.nodes[node.Name] = n
	value := node.Annotations[contract.NodeIDKey]
	id, err := strconv.Atoi(value)
	switch {
	case value == "":
	case err != nil || id < firstID || id > i.last || strconv.Itoa(id) != value:
		return n, fmt.Sprintf("annotated node id %q is not a number from %d to %d", value, firstID, i.last)
	case i.taken[id] != "":
		return n, fmt.Sprintf("annotated node id %d belongs to node %s", id, i.taken[id])
	default:
		n.id, i.taken[id] = id, node.Name
	}
	return n, ""
}

// complete gives a node an id if it has none.
func (i *ids) complete(name string) error {
	n := i.nodes[name]
	for id := firstID; n.id == 0; id++ {
		if id > i.last {
			return fmt.Errorf("no node id left up to %d: %w", i.last, ErrExhausted)
		}
		if i.taken[id] == "" {
			n.id, i.taken[id] = id, name
		}
	}
	return nil
}

func (i *ids) release(name string) {
	delete(i.taken, i.nodes[name].id)
	delete(i.nodes, name)
}
