package ipam

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// firstID is the smallest node id. Ids number the nodes' gateway routers in the
// join subnets, where 1 is the cluster router.
const firstID = 2

// ids has the number of each node, which is the same on all networks.
type ids struct {
	last int
	// nodes has 0 for a node until it has an id.
	nodes map[string]int
	taken map[int]string
}

func newIDs(last int) *ids {
	return &ids{last: last, nodes: map[string]int{}, taken: map[int]string{}}
}

// adopt returns the decision for a node. For a new node this is its annotation's id, unless another node has it.
func (i *ids) adopt(node *corev1.Node) (id int, warning string) {
	id, ok := i.nodes[node.Name]
	if ok {
		return id, ""
	}
	i.nodes[node.Name] = 0
	value := node.Annotations[contract.NodeIDKey]
	if value == "" {
		return 0, ""
	}
	id, err := strconv.Atoi(value)
	if err != nil || id < firstID || id > i.last || strconv.Itoa(id) != value {
		return 0, fmt.Sprintf("annotated node id %q is not a number from %d to %d", value, firstID, i.last)
	}
	if i.taken[id] != "" {
		return 0, fmt.Sprintf("annotated node id %d belongs to node %s", id, i.taken[id])
	}
	i.nodes[node.Name], i.taken[id] = id, node.Name
	return id, ""
}

// complete gives a node an id if it has none.
func (i *ids) complete(name string) error {
	for id := firstID; i.nodes[name] == 0; id++ {
		if id > i.last {
			return fmt.Errorf("no node id left up to %d: %w", i.last, ErrExhausted)
		}
		if i.taken[id] == "" {
			i.nodes[name], i.taken[id] = id, name
		}
	}
	return nil
}

func (i *ids) release(name string) {
	delete(i.taken, i.nodes[name])
	delete(i.nodes, name)
}
