package physnet

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// The kinds of the owners of the rows.
const (
	kindPhysical = "PhysicalNetwork"
	kindProvider = opnfv.KindProviderNetwork
)

// Network is a physical network as an object describes it.
type Network struct {
	// Name is that in the mappings.
	Name    string
	Created time.Time
	Bridges []v1alpha1.PhysicalBridge
	// IsProvider says that a ProviderNetwork describes it. Several of these may be on one interface, with VLANs of their own.
	IsProvider bool
	// TagLink is a link of the host that must not be there, because it takes the packets of the network's VLAN; "": none.
	TagLink string
}

// OfPhysical is that of a PhysicalNetwork.
func OfPhysical(p *v1alpha1.PhysicalNetwork) Network {
	return Network{Name: p.Name, Created: p.CreationTimestamp.Time, Bridges: p.Spec.Bridges}
}

// OfProvider is that of a ProviderNetwork. One that names no interface, or whose nodes cannot be read, has no bridges.
func OfProvider(p *opnfv.ProviderNetwork) Network {
	n := Network{Name: p.PhysicalNetwork(), Created: p.CreationTimestamp.Time, IsProvider: true}
	if link, selector, err := p.Uplink(); err == nil && link != "" {
		n.Bridges = []v1alpha1.PhysicalBridge{{NodeSelector: *selector, Interface: link}}
	}
	if p.Spec.VLAN != nil {
		n.TagLink = p.Spec.VLAN.LogicalInterfaceName
	}
	return n
}

// before orders networks: of those that want one interface, the first has it, in each pass. The administrator's come
// first, and then the older ones.
func before(a, b Network) int {
	if a.IsProvider != b.IsProvider {
		return map[bool]int{true: 1, false: -1}[a.IsProvider]
	}
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// bridge is that of a physical network on one node.
type bridge struct {
	name, link string
	// owner is that of its rows.
	owner contract.Owner
}

// mayHave says that a row is free for the bridge, "" being the owner of one that is not there. A PhysicalNetwork takes what
// ProviderNetworks have.
func (b bridge) mayHave(owner string) bool {
	has, err := contract.ParseOwner(owner)
	return owner == "" || owner == b.owner.String() || err == nil && has.Kind == kindProvider && b.owner.Kind == kindPhysical
}

// bridges are those of a node, by physical network.
type bridges map[string]bridge

// on is the bridge on a node with these labels: that of the first entry that selects it, nil if none does.
func (n Network) on(nodeLabels map[string]string) (*bridge, error) {
	for _, entry := range n.Bridges {
		selector, err := metav1.LabelSelectorAsSelector(&entry.NodeSelector)
		if err != nil {
			return nil, fmt.Errorf("nodeSelector: %w", err)
		}
		if !selector.Matches(labels.Set(nodeLabels)) {
			continue
		}
		b := &bridge{link: entry.Interface, owner: contract.Owner{Kind: kindPhysical, Name: n.Name}}
		b.name = cmp.Or(entry.Bridge, "br-"+b.link[:min(len(b.link), 12)])
		if n.IsProvider {
			b.owner = contract.Owner{Kind: kindProvider, Name: b.link}
		}
		return b, nil
	}
	return nil, nil
}
