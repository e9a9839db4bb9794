package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// A namespace's subnet is of the default network, and of no node. A pod has its address alone on its interface, with the
// gateway of its node's subnet.

// ofNamespaces are the blocks of the NamespaceSubnet that has addr; none has: nil.
func (p *pods) ofNamespaces(addr netip.Addr) blocks {
	for _, subnet := range namespaceSubnets(p.cfg) {
		if blocks := p.blocksOfSubnet(&subnet); blocks.of(addr) != nil {
			return blocks
		}
	}
	return nil
}

// takeDefault gives a pod what is free on the default network: of the subnet of its namespace, or of those of its node.
func (p *pods) takeDefault(owner contract.Owner, pod *corev1.Pod, r Request, node blocks) (*holding, error) {
	from := node
	if r.Subnet != nil {
		from = p.blocksOfSubnet(r.Subnet)
	}
	addrs, err := p.allocate(from, node)
	if err != nil {
		return nil, err
	}
	h := p.hold(owner, pod.UID, addrs, nil)
	h.lead(pod, r, node)
	return h, nil
}

// blocksOfSubnet are none for nil.
func (p *pods) blocksOfSubnet(subnet *contract.NamespaceSubnet) (blocks blocks) {
	if subnet == nil {
		return nil
	}
	for _, prefix := range subnet.Prefixes {
		b := p.known[prefix]
		if b == nil {
			b = &block{prefix: prefix, first: contract.FirstPodOffset, macs: p.macs}
			p.known[prefix] = b
		}
		b.subnet = subnet.Name
		blocks = append(blocks, b)
	}
	return blocks
}

// validOfNamespace says why a pod cannot have this value of a namespace's subnet. A pod that runs keeps it when its namespace
// is no longer selected.
func (p *pods) validOfNamespace(network *contract.PodNetwork, pod *corev1.Pod, own *contract.NamespaceSubnet) error {
	blocks := p.blocksOfSubnet(own)
	if len(network.Addresses) > 0 && runsWith(pod, network.Addresses[0].Addr()) {
		if has := p.ofNamespaces(network.Addresses[0].Addr()); has != nil {
			blocks = has
		}
	}
	if len(network.Addresses) != len(blocks) {
		return errors.New("the namespace has no such subnet")
	}
	for i, address := range network.Addresses {
		if !contract.IsRouted(address) || !blocks[i].allows(address.Addr()) {
			return fmt.Errorf("address %s is not one of the namespace's subnet %s", address, blocks[i].prefix)
		}
	}
	if want := contract.MACFromAddress(network.Addresses[0].Addr()); !slices.Equal(network.MAC, want) {
		return fmt.Errorf("MAC %s does not follow from the address, that is %s", network.MAC, want)
	}
	return nil
}

func runsWith(pod *corev1.Pod, addr netip.Addr) bool {
	return slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == addr.String() })
}

// Neighbors are the addresses of namespaces' subnets that a pod of this name has or had, on its node.
func Neighbors(a *Addresses, pod contract.Owner) (owners []contract.Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for h := a.newest[pod]; h != nil; h = h.older {
		owners = append(owners, h.neighbors()...)
	}
	return owners
}

func (h *holding) neighbors() (owners []contract.Owner) {
	for i, addr := range h.addrs {
		if b := h.at[i]; b != nil && b.subnet != "" && len(h.through) > 0 {
			owners = append(owners, contract.NeighborOwner(h.through[0].node, addr))
		}
	}
	return owners
}

// PodWith is the pod that has an address of a namespace's subnet; false: none has.
func PodWith(a *Addresses, addr netip.Addr) (pod contract.Owner, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.pools[""].byAddr[addr]
	if h == nil {
		return pod, false
	}
	return h.owner, true
}

// InUse says whether a pod has an address of a NamespaceSubnet.
func InUse(a *Addresses, subnet string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.pools[""].known {
		if b.subnet == subnet && b.held > 0 {
			return true
		}
	}
	return false
}
