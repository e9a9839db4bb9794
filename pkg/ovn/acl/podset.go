package acl

import (
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// maxAddresses is the size from which a set of pods has several address sets.
const maxAddresses = 5000

// membersOf are the pods of a set by the number of its named port, or by 0.
func membersOf(view View, set *policy.PodSet) map[int32][]*corev1.Pod {
	byNumber := map[int32][]*corev1.Pod{}
	for _, pod := range view.Members(set) {
		number := int32(0)
		if set.Port.Name != "" {
			number = set.Number(pod)
		}
		byNumber[number] = append(byNumber[number], pod)
	}
	return byNumber
}

// layouts are the numbers of address sets into which so many members are divided,
// first the one that rules refer to. Near a limit the layout beyond it is there
// as well, so that rules can change over before the old one goes.
func layouts(members int) []int {
	var all []int
	for _, n := range []int{members, members * 5 / 6, members * 6 / 5} {
		if parts := partsFor(n); !slices.Contains(all, parts) {
			all = append(all, parts)
		}
	}
	return all
}

func partsFor(members int) int {
	parts := 1
	for members > parts*maxAddresses {
		parts *= 2
	}
	return parts
}

// partOf places a pod in one of a layout's address sets.
func partOf(pod *corev1.Pod, parts int) int {
	h := fnv.New32a()
	h.Write([]byte(pod.Namespace + "/" + pod.Name))
	return int(h.Sum32() % uint32(parts))
}

// BuildPodSet gives the address sets of a set of pods, one for each family that
// the cluster has, each number of a named port, and each part of a large set.
func BuildPodSet(view View, net contract.Network, owner contract.Owner) ([]ovsdb.Row, error) {
	set := view.PodSet(owner)
	if set == nil {
		return nil, nil
	}
	groups := membersOf(view, set)
	if !wanted(view, set) {
		return nil, nil
	}
	if set.Port.Name == "" && len(groups) == 0 {
		groups[0] = nil // rules refer to it, empty as it is
	}
	var rows []ovsdb.Row
	for number, pods := range groups {
		for _, parts := range layouts(len(pods)) {
			for _, family := range net.Families() {
				rows = append(rows, addressSets(view, net, set, addressKey{owner.Name, number, parts, family}, pods)...)
			}
		}
	}
	return rows, nil
}

// valuesOn are what a pod has on a network, nothing yet for one whose address is a change that brings the set back.
func valuesOn(view View, net contract.Network, pod *corev1.Pod) []*contract.PodNetwork {
	if net.Name != "" {
		return view.Attached(pod, net.Name)
	}
	if network := view.Allocated(pod, ""); network != nil {
		return []*contract.PodNetwork{network}
	}
	return nil
}

func addressSets(view View, net contract.Network, set *policy.PodSet, key addressKey, pods []*corev1.Pod) []ovsdb.Row {
	members := make([][]string, key.parts)
	for _, pod := range pods {
		part := partOf(pod, key.parts)
		for _, network := range valuesOn(view, net, pod) {
			for _, addr := range network.Addresses {
				if key.family.Has(addr.Addr()) && set.Has(addr.Addr()) {
					members[part] = append(members[part], addr.Addr().String())
				}
			}
		}
	}
	var rows []ovsdb.Row
	for part, addresses := range members {
		slices.Sort(addresses)
		name := key.name(part)
		rows = append(rows, ovsdb.Row{ID: name, Model: &nb.AddressSet{
			Name: name, Addresses: addresses, ExternalIDs: map[string]string{"pods": set.String()},
		}})
	}
	return rows
}

// addressKey tells the address sets of one set of pods apart.
type addressKey struct {
	hash   string
	number int32
	parts  int
	family contract.Family
}

// name is the address set's; OVN allows letters, digits and underscores.
func (k addressKey) name(part int) string {
	name := "a" + k.hash
	if k.number != 0 {
		name += fmt.Sprintf("_p%d", k.number)
	}
	if k.parts > 1 {
		name += fmt.Sprintf("_%d_%d", k.parts, part)
	}
	return fmt.Sprintf("%s_v%d", name, k.family)
}
